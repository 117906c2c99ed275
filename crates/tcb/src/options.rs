//! Options negotiated by SYNs, and timestamps (RFC 7323).

use wire::tcp::{Flags, OPTIONS_MAX, Options, SIGNATURE_LEN};

use super::answer::answers_marks;
use super::{SACK_BLOCK_LEN, SACK_LEN, Segment, State, Tcb};
use crate::seq::Seq;
use crate::settings::Settings;
use base::time::{Duration, Instant};

/// Stands in the place of a signature until it is made.
pub const UNSIGNED: [u8; SIGNATURE_LEN] = [0; SIGNATURE_LEN];

/// The negotiated options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    /// The longest segment that the other end takes, without options.
    pub(super) mss: u16,
    /// By how many bits windows are shifted: those we say, those the other end says.
    pub(super) shift: (u8, u8),
    /// Whether they are, if only by none.
    pub(super) is_scaled: bool,
    /// Each segment bears timestamps.
    pub(super) timestamps: bool,
    /// Selective acknowledgments are understood.
    pub(super) sack: bool,
    /// They are made use of: [`Tcb::sacks`].
    has_blocks: bool,
    /// Bytes of options in each segment with data: [`Tcb::overhead`].
    overhead: u8,
}

/// A segment length that each path and host takes, if the other end says none (RFC 9293 §3.7.1).
const MSS_DEFAULT: u16 = 536;
/// Least announced segment size, so that options leave room for data.
const MSS_LEAST: u16 = 64;
/// RFC 7323 §2.3.
const SHIFT_MAX: u8 = 14;
/// SYNs that offer something, if those behind them do not.
const OFFERS_MAX: u8 = 3;
/// Bytes of timestamps in each header, padding included.
const STAMPS_LEN: u8 = 12;
/// Bytes of a signature, padding included.
const SIGNED_LEN: u8 = 20;
/// After so long a silence a timestamp says nothing of what is old: the clock of the other end may have run round
/// (RFC 7323 §5.5).
const OUTDATED: Duration = Duration::from_secs(24 * 24 * 60 * 60);

impl Agreed {
    /// Returns what holds before the other end's SYN has come.
    #[inline]
    pub(super) fn none(settings: &Settings) -> Self {
        let none = Self {
            mss: MSS_DEFAULT,
            shift: (0, 0),
            is_scaled: false,
            timestamps: false,
            sack: false,
            has_blocks: false,
            overhead: 0,
        };
        none.signed(settings.signs)
    }

    /// Segments are signed, or not.
    #[inline]
    pub(super) fn signed(self, signs: bool) -> Self {
        let stamps = if self.timestamps { STAMPS_LEN } else { 0 };
        let overhead = stamps + if signs { SIGNED_LEN } else { 0 };
        // Signatures and timestamps together leave no room for a block, and a sender without them must count duplicates.
        Self { overhead, has_blocks: self.sack && blocks_beside(overhead.into()) > 0, ..self }
    }

    /// Returns what both ends have options for: those of the other end's SYN, and what `settings` take up.
    pub(super) fn on(settings: &Settings, options: &Options) -> Self {
        let takes = !settings.no_options;
        let is_scaled = takes && settings.extensions.scales() && options.window_scale.is_some();
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
        //# If a Window Scale option is received with a shift.cnt
        //# value larger than 14, the TCP SHOULD log the error but MUST use 14
        //# instead of the specified value.
        let theirs = options.window_scale.unwrap_or(0).min(SHIFT_MAX);
        let agreed = Self {
            mss: options.mss.unwrap_or(MSS_DEFAULT).max(MSS_LEAST),
            is_scaled,
            shift: if is_scaled { (shift_of(settings), theirs) } else { (0, 0) },
            timestamps: takes && settings.extensions.stamps() && options.timestamps.is_some(),
            sack: takes && settings.sack && options.sack_permitted,
            has_blocks: false,
            overhead: 0,
        };
        agreed.signed(settings.signs)
    }
}

/// The clock of a connection's timestamps, in milliseconds from a secret beginning, and the other end's last.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    offset: u32,
    /// `TS.Recent`, and when it came.
    recent: Option<(u32, Instant)>,
}

impl Stamps {
    /// A clock that begins at `offset`.
    #[inline]
    #[must_use]
    pub const fn from(offset: u32) -> Self {
        Self { offset, recent: None }
    }

    /// Returns its value.
    #[inline]
    #[must_use]
    pub fn at(&self, now: Instant) -> u32 {
        let ms = u32::try_from(now.ns() / 1_000_000 % (1 << 32)).unwrap_or(0);
        self.offset.wrapping_add(ms)
    }

    /// Returns the time since it showed `stamp`; `None` if it has not within the last hour.
    pub(super) fn since(&self, stamp: u32, now: Instant) -> Option<Duration> {
        const LONGEST: u32 = 60 * 60 * 1000;
        let ms = self.at(now).wrapping_sub(stamp);
        (ms < LONGEST).then(|| Duration::from_millis(ms.into()))
    }

    pub(super) fn echo(&self) -> u32 {
        self.recent.map_or(0, |(stamp, _)| stamp)
    }

    /// Whether a segment with `stamp` was sent before the last one that counted: PAWS (RFC 7323 §5.3, R1).
    pub(super) fn is_old(&self, stamp: u32, now: Instant) -> bool {
        self.recent.is_some_and(|(recent, at)| Seq(stamp).is_before(Seq(recent)) && now.since(at) < OUTDATED)
    }
}

impl Tcb {
    /// The options of our SYN, or of the SYN that answers one.
    pub(super) fn syn_options(&self, now: Instant) -> Options {
        let is_answer = self.state == State::SynReceived;
        let settings = &self.settings;
        if settings.no_options {
            return self.bare_options();
        }
        let is_plain = settings.drops_options && self.rtt.backoffs() >= OFFERS_MAX;
        let offers = |agreed: bool, wanted: bool| if is_answer { agreed } else { wanted && !is_plain };
        Options {
            mss: Some(settings.mss),
            window_scale: offers(self.agreed.is_scaled, settings.extensions.scales())
                .then(|| shift_of(settings)),
            sack_permitted: offers(self.agreed.sack, settings.sack),
            timestamps: offers(self.agreed.timestamps, settings.extensions.stamps())
                .then(|| (self.stamps.at(now), self.stamps.echo())),
            user_timeout: self.advice_to_give().filter(|_| !is_plain),
            ..self.bare_options()
        }
    }

    /// The options of any other segment.
    pub(super) fn options(&mut self, now: Instant) -> Options {
        let timestamps = self.timestamps(now);
        let sack = if self.sacks() { self.receive.sack(self.blocks()) } else { wire::tcp::SackBlocks::NONE };
        Options { timestamps, sack, ..self.bare_options() }
    }

    /// The timestamps of a segment, if segments bear them.
    pub(super) fn timestamps(&self, now: Instant) -> Option<(u32, u32)> {
        self.agreed.timestamps.then(|| (self.stamps.at(now), self.stamps.echo()))
    }

    /// The options of a segment that has none: a place for the signature, if segments are signed.
    pub(super) fn bare_options(&self) -> Options {
        Options { signature: self.settings.signs.then_some(UNSIGNED), ..Options::NONE }
    }

    /// Whether segments are signed, and must be.
    #[inline]
    pub fn signs(&self) -> bool {
        self.settings.signs
    }

    /// Whether selective acknowledgments are made use of: both ends understand them, and there is room for a block.
    pub(super) fn sacks(&self) -> bool {
        self.agreed.has_blocks
    }

    /// Bytes of options in each segment with data.
    pub(super) fn overhead(&self) -> u32 {
        self.agreed.overhead.into()
    }

    /// Blocks of SACK that a header has room for beside those.
    pub(super) fn blocks(&self) -> usize {
        self.blocks_beside(0)
    }

    /// Returns the number of blocks beside another option.
    pub(super) fn blocks_beside(&self, other: u32) -> usize {
        blocks_beside(self.overhead() + other)
    }

    /// Takes what the other end's SYN says, which is the first segment of it that counts.
    pub(super) fn take_syn(&mut self, syn: &Segment<'_>, now: Instant) {
        let (header, settings) = (syn.header, &*self.settings);
        let takes = !settings.no_options;
        let options = &header.options;
        self.receive = super::Receive::new(Seq(header.seq) + 1);
        self.promised = Seq(header.seq) + 1;
        self.acknowledged = Seq(header.seq) + 1;
        self.agreed = Agreed::on(settings, options);
        if let Some((value, _)) = options.timestamps.filter(|_| self.agreed.timestamps) {
            self.stamps.recent = Some((value, now));
        }
        //= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
        //# The window field in a segment where the SYN bit is set (i.e., a <SYN>
        //# or <SYN,ACK>) MUST NOT be scaled.
        self.right_edge = self.stream() + u32::from(header.window);
        self.window_max = header.window.into();
        self.window_from = (Seq(header.seq), self.stream());
        self.agree_on_marks(header.flags);
        self.take_advice(options.user_timeout.filter(|_| takes));
        self.congestion.set_mss(self.mss());
        if !self.is_passive {
            self.round_buffers();
        }
    }

    /// RFC 3168 §6.1.1: both flags ask, ECE alone agrees.
    fn agree_on_marks(&mut self, flags: Flags) {
        let (asks, agrees) = (flags.contains(Flags::ECE | Flags::CWR), flags.contains(Flags::ECE));
        self.ecn.is_on = match flags.ack() {
            true => self.ecn.is_on && agrees && !asks,
            false => answers_marks(&self.settings, flags),
        };
    }

    /// Whether the timestamp of a segment says that it is an old duplicate.
    pub(super) fn is_old(&self, segment: &Segment<'_>, now: Instant) -> bool {
        let stamp = segment.header.options.timestamps.filter(|_| self.agreed.timestamps);
        stamp.is_some_and(|(value, _)| self.stamps.is_old(value, now))
    }

    /// Remembers the timestamp that will be echoed. Of segments that are acknowledged together, that is the first one's, so
    /// that the round trip that the other end measures has our delay in it (RFC 7323 §4.2).
    //= https://www.rfc-editor.org/rfc/rfc7323#section-4.3
    //# SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent
    /// A segment with an impossible acknowledgment is a guess: its timestamp would make all that follow look old.
    pub(super) fn remember_stamp(&mut self, segment: &Segment<'_>, now: Instant) {
        let stamp = segment.header.options.timestamps.filter(|_| self.agreed.timestamps);
        if let Some((value, _)) = stamp
            && !self.stamps.is_old(value, now)
            && !Seq(segment.header.seq).is_after(self.acknowledged)
            && !self.acknowledges_in_vain(segment)
        {
            self.stamps.recent = Some((value, now));
        }
    }
}

/// Returns the number of SACK blocks that a header has room for beside `other` bytes of options.
const fn blocks_beside(other: u32) -> usize {
    OPTIONS_MAX.saturating_sub((SACK_LEN + other) as usize) / SACK_BLOCK_LEN as usize
}

/// By how much a window must be shifted so that the largest buffer can be said.
pub(super) fn shift_of(settings: &Settings) -> u8 {
    (0..SHIFT_MAX)
        .find(|shift| u32::from(u16::MAX) << shift >= settings.receive_buffer_max)
        .unwrap_or(SHIFT_MAX)
}
