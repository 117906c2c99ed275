//! The scoreboard: bytes in flight, their send times, and their fate (RFC 6675, RFC 8985, RFC 2018).

mod few;
mod rack;

use core::time::Duration;

use wire::tcp::SackBlock;

use self::few::Few;
use self::rack::Rack;
use super::seq::Seq;
use base::time::Instant;

/// Pieces that a connection keeps apart at the most; what is sent beyond is counted to the last piece.
pub const PIECES_MAX: usize = 4096;

/// The bytes from the first that is not acknowledged to behind the last that was sent, in pieces that share their fate.
#[derive(Debug)]
pub struct Sent {
    /// The first that is not acknowledged: `SND.UNA`.
    first: Seq,
    /// Behind the last that was ever sent: `SND.MAX`.
    behind: Seq,
    /// In order, without gaps.
    pieces: Few<Piece>,
    rack: Rack,
    /// Bytes that the receiver has, though not all before them.
    sacked: u32,
    /// Bytes that are taken for lost, and were not sent again since.
    lost: u32,
}

/// Bytes that were sent together.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: Seq,
    end: Seq,
    /// When they were sent last.
    at: Instant,
    fate: Fate,
    /// Whether they were sent more than once.
    is_again: bool,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Piece>() <= 24);

/// The fate of unacknowledged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Under way, as far as is known.
    UnderWay,
    /// The receiver has them.
    Sacked,
    /// Lost, and not sent again yet.
    Lost,
}

/// The effect of an acknowledgment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckEffect {
    /// Bytes that are not needed any more: the acknowledgment moved on by so many.
    pub acknowledged: u32,
    /// Bytes of which it is new that they arrived, acknowledged or not: `DeliveredData`.
    pub delivered: u32,
    /// RTT of the last of them that was sent once.
    pub rtt: Option<Duration>,
    /// Duplicate reported by the receiver.
    pub duplicate: Option<SackBlock>,
    /// Blocks made no sense.
    pub is_nonsense: bool,
}

impl Sent {
    /// Nothing sent yet; the stream begins at `first`.
    #[inline]
    #[must_use]
    pub fn new(first: Seq) -> Self {
        let (pieces, rack) = (Few::new(), Rack::default());
        Self { first, behind: first, pieces, rack, sacked: 0, lost: 0 }
    }

    /// The first byte that is not acknowledged: `SND.UNA`.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Seq {
        self.first
    }

    /// Behind the last byte that was sent: `SND.MAX`.
    #[inline]
    #[must_use]
    pub fn behind(&self) -> Seq {
        self.behind
    }

    /// Bytes that are not acknowledged: `FlightSize`.
    #[inline]
    #[must_use]
    pub fn unacknowledged(&self) -> u32 {
        self.behind.since(self.first)
    }

    /// Bytes that are thought to be in the network: `pipe` of RFC 6675 §4.
    #[inline]
    #[must_use]
    pub fn pipe(&self) -> u32 {
        self.unacknowledged().saturating_sub(self.sacked + self.lost)
    }

    /// Whether the receiver has said that something is missing.
    #[inline]
    #[must_use]
    pub fn has_sacked(&self) -> bool {
        self.sacked > 0
    }

    /// Bytes of memory that it takes.
    #[inline]
    #[must_use]
    pub fn memory(&self) -> usize {
        self.pieces.memory()
    }

    /// Bytes that are taken for lost.
    #[inline]
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Bytes that the receiver has behind a gap.
    #[inline]
    #[must_use]
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// The bytes from `start` to `end` are sent now, for the first time or again.
    pub fn send(&mut self, start: Seq, end: Seq, now: Instant) {
        if start.is_before(self.behind) {
            self.send_again(start, end.min(self.behind), now);
        }
        let start = start.max(self.behind);
        if !start.is_before(end) {
            return;
        }
        self.behind = end;
        let is_full = self.pieces.len() >= PIECES_MAX;
        match self.pieces.back_mut().filter(|last| last.fate == Fate::UnderWay) {
            // What is sent at the same moment shares its fate, as far as anybody can know.
            Some(last) if is_full || (last.at == now && !last.is_again) => {
                last.end = end;
                last.at = now;
            }
            _ => {
                let piece = Piece { start, end, at: now, fate: Fate::UnderWay, is_again: false };
                self.pieces.push_back(piece);
            }
        }
    }

    fn send_again(&mut self, start: Seq, end: Seq, now: Instant) {
        let places = match self.cut_out(start, end) {
            // There is no room to cut the piece: all of it counts, or it would be sent again and again.
            none if none.is_empty() => {
                let at = self.pieces.partition_point(|piece| !piece.end.is_after(start));
                at..self.pieces.len().min(at + 1)
            }
            places => places,
        };
        for at in places {
            let Some(piece) = self.pieces.get_mut(at) else { continue };
            match piece.fate {
                Fate::Sacked => continue,
                Fate::Lost => self.lost -= piece.len(),
                Fate::UnderWay => {}
            }
            *piece = Piece { at: now, fate: Fate::UnderWay, is_again: true, ..*piece };
        }
    }

    /// The receiver expects `ack` next, which lies between [`Self::first`] and [`Self::behind`], and says that it has
    /// `blocks` behind it.
    pub fn acknowledge(&mut self, ack: Seq, blocks: &[SackBlock], now: Instant) -> AckEffect {
        let mut heard = AckEffect { acknowledged: ack.since(self.first), ..AckEffect::default() };
        heard.duplicate = duplicate(ack, blocks);
        self.forget(ack, now, &mut heard);
        let blocks = &blocks[usize::from(heard.duplicate.is_some())..];
        for block in blocks {
            let (left, right) = (Seq(block.left), Seq(block.right));
            if !right.is_after(self.first) {
                // An old acknowledgment has been overtaken.
                continue;
            }
            if !left.is_before(right) || right.is_after(self.behind) || left.is_before(self.first) {
                heard.is_nonsense = true;
                continue;
            }
            self.has(left, right, now, &mut heard);
        }
        self.doubt();
        self.rack.acknowledged(ack, heard.duplicate.is_some(), self.behind);
        heard
    }

    /// What was lost has been repaired, or was not lost.
    pub fn recovered(&mut self) {
        self.rack.recovered();
    }

    /// Removes everything before `ack`.
    fn forget(&mut self, ack: Seq, now: Instant, heard: &mut AckEffect) {
        while let Some(piece) = self.pieces.front_mut().filter(|piece| piece.start.is_before(ack)) {
            let end = piece.end.min(ack);
            let part = Piece { end, ..*piece };
            piece.start = end;
            if end == piece.end {
                self.pieces.pop_front();
            }
            match part.fate {
                Fate::Sacked => self.sacked -= part.len(),
                Fate::Lost => self.lost -= part.len(),
                Fate::UnderWay => {}
            }
            if part.fate != Fate::Sacked {
                self.delivered(part, now, heard);
            }
        }
        self.first = self.first.max(ack);
    }

    /// The receiver has what stands between `left` and `right`.
    fn has(&mut self, left: Seq, right: Seq, now: Instant, heard: &mut AckEffect) {
        for at in self.cut_out(left, right) {
            let Some(piece) = self.pieces.get_mut(at) else { continue };
            match piece.fate {
                Fate::Sacked => continue,
                Fate::Lost => self.lost -= piece.len(),
                Fate::UnderWay => {}
            }
            piece.fate = Fate::Sacked;
            let piece = *piece;
            self.sacked += piece.len();
            self.delivered(piece, now, heard);
        }
    }

    /// It is new that `piece` has arrived.
    fn delivered(&mut self, piece: Piece, now: Instant, heard: &mut AckEffect) {
        heard.delivered += piece.len();
        if !piece.is_again {
            heard.rtt = Some(now.since(piece.at));
        }
        self.rack.delivered(piece.at, piece.end, piece.is_again, now);
    }

    /// A receiver that has the first byte behind its acknowledgment would have acknowledged it: it has thrown away what
    /// it had (RFC 2018 §8), and nothing that it said it had counts.
    fn doubt(&mut self) {
        if self.pieces.front().is_none_or(|first| first.fate != Fate::Sacked) {
            return;
        }
        for piece in self.pieces.iter_mut() {
            if piece.fate == Fate::Sacked {
                piece.fate = Fate::UnderWay;
            }
        }
        self.sacked = 0;
    }

    /// Takes for lost what should have been heard of by now, because later segments were (RFC 8985 §6.2). Answers how
    /// many bytes, and when to look again if it is too early to say.
    ///
    /// `smoothed` is the smoothed round trip; `at_once`, whether no reordering is waited for because losses are being
    /// repaired or enough has come that was sent later.
    pub fn detect(&mut self, now: Instant, smoothed: Duration, at_once: bool) -> (u32, Option<Instant>) {
        let Self { pieces, rack, lost, .. } = self;
        let window = rack.reordering_window(smoothed, at_once);
        let (mut found, mut again) = (0, None);
        for piece in pieces.iter_mut().filter(|piece| piece.fate == Fate::UnderWay) {
            let Some(due) = rack.due(piece.at, piece.end, window) else { continue };
            if due > now {
                again = again.max(Some(due));
                continue;
            }
            piece.fate = Fate::Lost;
            found += piece.len();
        }
        *lost += found;
        (found, again)
    }

    /// Takes for lost what was sent once and has been overtaken by more than `duplicates - 1` segments of `mss` bytes, or by
    /// so many that lie apart; answers how many bytes.
    //= https://www.rfc-editor.org/rfc/rfc6675#section-4
    //# The routine returns true when either DupThresh discontiguous SACKed
    //# sequences have arrived above 'SeqNum' or more than (DupThresh - 1) *
    //# SMSS bytes with sequence numbers greater than 'SeqNum' have been
    //# SACKed.
    pub fn detect_overtaken(&mut self, duplicates: u32, mss: u32) -> u32 {
        let (mut bytes, mut apart, mut found) = (0, 0, 0);
        let mut was_sacked = false;
        for piece in self.pieces.iter_mut().rev() {
            let is_sacked = piece.fate == Fate::Sacked;
            if is_sacked {
                bytes += piece.len();
                apart += u32::from(!was_sacked);
            } else if piece.fate == Fate::UnderWay
                && !piece.is_again
                && (apart >= duplicates || bytes > (duplicates - 1) * mss)
            {
                piece.fate = Fate::Lost;
                found += piece.len();
            }
            was_sacked = is_sacked;
        }
        self.lost += found;
        found
    }

    /// Takes the first segment for lost, of `mss` bytes at the most: of a receiver that says only where it waits
    /// (RFC 6582 §3.2).
    #[inline]
    pub fn lose_first(&mut self, mss: u32) {
        let end = self.behind.min(self.first + mss);
        for at in self.cut_out(self.first, end) {
            if let Some(piece) = self.pieces.get_mut(at).filter(|piece| piece.fate == Fate::UnderWay) {
                piece.fate = Fate::Lost;
                self.lost += piece.len();
            }
        }
    }

    /// Takes for lost all that the receiver does not have: nothing was heard of any of it.
    #[inline]
    pub fn lose_all(&mut self) {
        for piece in self.pieces.iter_mut() {
            if piece.fate == Fate::UnderWay {
                piece.fate = Fate::Lost;
                self.lost += piece.len();
            }
        }
    }

    /// Nothing of what was taken for lost is: it is under way after all.
    #[inline]
    pub fn find_all(&mut self) {
        for piece in self.pieces.iter_mut() {
            if piece.fate == Fate::Lost {
                piece.fate = Fate::UnderWay;
            }
        }
        self.lost = 0;
    }

    /// The first bytes that are to be sent again.
    #[inline]
    #[must_use]
    pub fn first_lost(&self) -> Option<(Seq, Seq)> {
        if self.lost == 0 {
            return None;
        }
        let first = self.pieces.iter().find(|piece| piece.fate == Fate::Lost)?;
        Some((first.start, first.end))
    }

    /// The last segment of `len` bytes at the most that was sent: the last piece, cut into such from its front on.
    #[inline]
    #[must_use]
    pub fn last(&self, len: u32) -> Option<(Seq, Seq)> {
        let piece = self.pieces.back()?;
        let before = piece.len().saturating_sub(1) / len.max(1) * len.max(1);
        Some((piece.start + before, piece.end))
    }

    /// When the first byte that is not acknowledged was sent last.
    #[inline]
    #[must_use]
    pub fn since(&self) -> Option<Instant> {
        self.pieces.front().map(|first| first.at)
    }

    /// The places of the pieces between `start` and `end`, with what lies outside cut off. Of a piece that there is no
    /// room to cut, nothing counts.
    fn cut_out(&mut self, start: Seq, end: Seq) -> core::ops::Range<usize> {
        let first = self.pieces.partition_point(|piece| !piece.end.is_after(start));
        let first = if self.cut(first, start) { first + 1 } else { first };
        let last = self.pieces.partition_point(|piece| piece.start.is_before(end));
        // The piece that reaches beyond the end, if any.
        let reaches = last
            .checked_sub(1)
            .filter(|at| self.pieces.get(*at).is_some_and(|piece| piece.end.is_after(end)));
        let last = match reaches {
            Some(at) if !self.cut(at, end) => at,
            _ => last,
        };
        // What could not be cut off in front stays out too.
        let is_whole = self.pieces.get(first).is_none_or(|piece| !piece.start.is_before(start));
        let first = if is_whole { first } else { first + 1 };
        first..last.max(first)
    }

    /// Cuts the piece at this place in two, if `at` lies inside and there is room; answers whether it did.
    fn cut(&mut self, place: usize, at: Seq) -> bool {
        let is_full = self.pieces.len() >= PIECES_MAX;
        let Some(piece) = self.pieces.get_mut(place) else { return false };
        if is_full || !at.is_after(piece.start) || !at.is_before(piece.end) {
            return false;
        }
        let behind = Piece { start: at, ..*piece };
        piece.end = at;
        self.pieces.insert_behind(place, behind);
        true
    }
}

impl Piece {
    fn len(&self) -> u32 {
        self.end.since(self.start)
    }
}

/// Returns the D-SACK block: it lies before the acknowledgment, or inside the second block.
//= https://www.rfc-editor.org/rfc/rfc2883#section-4
//# The D-SACK block must be the first SACK block in the option
fn duplicate(ack: Seq, blocks: &[SackBlock]) -> Option<SackBlock> {
    let first = *blocks.first()?;
    let (left, right) = (Seq(first.left), Seq(first.right));
    let is_old = left.is_before(ack) && !right.is_after(ack);
    let is_inside = blocks
        .get(1)
        .is_some_and(|second| !left.is_before(Seq(second.left)) && !right.is_after(Seq(second.right)));
    ((is_old || is_inside) && left.is_before(right)).then_some(first)
}

#[cfg(test)]
mod tests;
