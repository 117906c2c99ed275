//! One datagram that comes in pieces.

use pkt::Pkt;

use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::ip::l4;

/// Pieces of one datagram at the most: the longest there can be, over links of 1280 bytes and more, has 54.
const PIECES_MAX: usize = 64;

/// A fragment and where it belongs.
pub(super) struct Piece {
    /// The whole packet, from its network header; its data starts at `pkt.l4`.
    pub(super) pkt: Pkt,
    /// Where its data starts in the datagram's, bytes.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// Buffers that it lies in.
    pub(super) buffers: usize,
    /// Others follow.
    more: bool,
}

impl Piece {
    /// `pkt`, whose data starts at `pkt.l4` and belongs to `start`.
    pub(super) fn new(pkt: Pkt, start: u16, more: bool) -> Self {
        let start = usize::from(start);
        let end = start + l4::range(&pkt).len();
        let buffers = pkt.buffers();
        Self { pkt, start, end, buffers, more }
    }

    /// Whether `other` says the same of the same place. Of pieces in several buffers that is not asked.
    fn is_repeated_by(&self, other: &Self) -> bool {
        let one_buffer = self.buffers == 1 && other.buffers == 1;
        let same_place = (self.start, self.end, self.more) == (other.start, other.end, other.more);
        same_place && one_buffer && self.data() == other.data()
    }

    fn data(&self) -> Option<&[u8]> {
        self.pkt.head().get(usize::from(self.pkt.l4)..)
    }
}

/// A datagram that waits for pieces, or that was ruined and is remembered so that later pieces do not begin it anew.
pub(super) struct Datagram {
    /// Which one it is, in the order in which they began.
    pub(super) number: u64,
    /// When it is given up.
    pub(super) deadline: Instant,
    /// Fragments so far, by offset, without overlaps.
    pub(super) pieces: Vec<Piece>,
    /// Bytes that are there.
    bytes: usize,
    /// Bytes that there will be, known from the last piece.
    total: Option<usize>,
    ruined: Option<DropReason>,
}

/// The result of adding a fragment.
pub(super) enum Outcome {
    /// It waits.
    Kept,
    /// It is not kept, for a reason that does not concern the others.
    Refused(Pkt, DropReason),
    /// It, and all that were there, are not kept, and no more will be.
    Ruined(Vec<Piece>, DropReason),
    /// It was the one that was missing.
    Whole,
}

impl Datagram {
    pub(super) const fn new(number: u64, deadline: Instant) -> Self {
        Self { number, deadline, pieces: Vec::new(), bytes: 0, total: None, ruined: None }
    }

    /// Its pieces, by place.
    pub(super) fn into_pkts(self) -> impl Iterator<Item = Pkt> {
        self.pieces.into_iter().map(|piece| piece.pkt)
    }

    /// Buffers that it holds.
    pub(super) fn buffers(&self) -> usize {
        self.pieces.iter().map(|piece| piece.buffers).sum()
    }

    /// Puts a piece in its place.
    //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
    //# If any of the fragments being reassembled overlap with any other
    //# fragments being reassembled for the same packet, reassembly of
    //# that packet must be abandoned and all the fragments that have
    //# been received for that packet must be discarded, and no ICMP
    //# error messages should be sent.
    //#
    //# It should be noted that fragments may be duplicated in the
    //# network.  Instead of treating these exact duplicate fragments as
    //# overlapping fragments, an implementation may choose to detect
    //# this case and drop exact duplicate fragments while keeping the
    //# other fragments belonging to the same packet.
    pub(super) fn insert(&mut self, piece: Piece) -> Outcome {
        if let Some(reason) = self.ruined {
            return Outcome::Refused(piece.pkt, reason);
        }
        let at = self.pieces.partition_point(|other| other.start < piece.start);
        if self.pieces.get(at).is_some_and(|other| other.is_repeated_by(&piece)) {
            return Outcome::Refused(piece.pkt, DropReason::ReassDuplicate);
        }
        if let Some(reason) = self.objection(at, &piece) {
            return self.ruin(piece, reason);
        }
        if !piece.more {
            self.total = Some(piece.end);
        }
        self.bytes += piece.end - piece.start;
        self.pieces.insert(at, piece);
        if self.total == Some(self.bytes) { Outcome::Whole } else { Outcome::Kept }
    }

    /// Why `piece` cannot stand at position `at` among the others.
    fn objection(&self, at: usize, piece: &Piece) -> Option<DropReason> {
        let before = at.checked_sub(1).and_then(|before| self.pieces.get(before));
        let overlaps = before.is_some_and(|before| before.end > piece.start)
            || self.pieces.get(at).is_some_and(|after| after.start < piece.end);
        let end_so_far = self.pieces.last().map_or(0, |last| last.end);
        let disagrees = match self.total {
            Some(total) => piece.end > total || !piece.more,
            None => !piece.more && end_so_far > piece.end,
        };
        match () {
            () if overlaps => Some(DropReason::ReassOverlap),
            () if disagrees => Some(DropReason::ReassMalformed),
            () if self.pieces.len() >= PIECES_MAX => Some(DropReason::ReassTooMany),
            () => None,
        }
    }

    fn ruin(&mut self, piece: Piece, reason: DropReason) -> Outcome {
        self.ruined = Some(reason);
        let mut pieces = core::mem::take(&mut self.pieces);
        pieces.push(piece);
        Outcome::Ruined(pieces, reason)
    }
}
