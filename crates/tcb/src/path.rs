//! Packetization layer path MTU discovery (RFC 4821): for paths whose routers report nothing.
//!
//! ```text
//!   two timeouts ─▶ shorter, twice if need be ─▶ acknowledged ─▶ a black hole ─▶ probes, ever longer, until they vanish
//!                                            └─▶ six timeouts ─▶ it was none: as long as before
//! ```

use super::{Out, State, Tcb};
use crate::seq::Seq;
use crate::settings::Settings;
use base::time::{Duration, Instant};

/// Timeouts in a row after which shorter segments are tried, twice with each length, and after which that has not helped
/// (FreeBSD's `net.inet.tcp.pmtud_blackhole_detection`).
const SHORTER_AFTER: u8 = 2;
const GIVEN_UP_AFTER: u8 = 6;
/// The length that is tried first: what most tunnels leave of Ethernet.
const SHORTER: u16 = 1200;
/// Lengths that are so close are one (Linux's `tcp_probe_threshold`).
const CLOSE: u16 = 8;
/// Segments that follow a probe, so that its loss is told by them, and segments that the window must have for that.
const FOLLOWERS: u32 = 4;
const WINDOW: u32 = 8;
/// Lifetime of a result (RFC 4821 §7.7; Linux's `tcp_probe_interval`).
const BELIEVED: Duration = Duration::from_secs(600);

/// The state of path MTU discovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    search: Option<Search>,
    /// A probe that is under way, from where to where.
    probe: Option<(Seq, Seq)>,
    /// A working size below the probed one, to be reported.
    news: Option<u16>,
    /// A router's word that has not proved itself yet.
    told: Option<PmtuReport>,
    /// A length that routers have said and that has proved itself, until it is taken.
    proved: Option<u16>,
}

/// A router's word that a segment was dropped, since only shorter ones pass.
#[derive(Clone, Copy, Debug)]
struct PmtuReport {
    /// The length that passes, and the one before.
    mss: u16,
    before: u16,
    /// Where the segment begins.
    seq: Seq,
    at: Instant,
}

/// Somewhere between two lengths is the longest.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// Size of links and routers.
    full: u16,
    /// The longest that may arrive still.
    most: u16,
    /// Shorter segments have arrived where the full ones had not.
    is_sure: bool,
    /// When it begins anew.
    until: Instant,
}

impl Path {
    /// Makes one for a connection that begins with a cached size, if that is smaller than links and routers
    /// say.
    pub(super) fn of(settings: &Settings, now: Instant) -> Self {
        let (mss, full) = (settings.path_mss, settings.path_mss_max);
        let search = Search { full, most: full, is_sure: true, until: now + BELIEVED };
        Self { search: (mss < full && settings.path_probes).then_some(search), ..Self::default() }
    }

    /// Records a router's word that nothing longer arrives, and that the segment at `seq` has not; `before` was the length of
    /// segments.
    pub(super) fn at_most(&mut self, mss: u16, before: u16, seq: Seq, now: Instant) {
        if mss < before {
            let before = self.told.map_or(before, |told| told.before);
            (self.told, self.proved) = (Some(PmtuReport { mss, before, seq, at: now }), None);
        }
        if let Some(search) = &mut self.search {
            (search.full, search.most) = (search.full.min(mss), search.most.min(mss));
        }
    }

    /// The longest that may be tried still.
    #[cfg(test)]
    pub(super) fn longest_tried(&self) -> Option<u16> {
        self.search.map(|search| search.most)
    }

    /// Data from `start` on is retransmitted: a probe there has no result any more.
    pub(super) fn sends_again(&mut self, start: Seq) {
        self.probe = self.probe.filter(|(_, end)| !start.is_before(*end));
    }
}

impl Tcb {
    /// The length of segments that routers let pass, once, when they have said that longer ones do not and have been right.
    #[inline]
    pub fn told_path(&mut self) -> Option<u16> {
        self.path.proved.take()
    }

    /// Judges a router's word when the segment that it is about is acknowledged. If that is much sooner than the shorter
    /// segments in its place can have brought about, the long one has arrived, and the router has lied.
    //= https://www.rfc-editor.org/rfc/rfc5927#section-7.2
    fn judge_router(&mut self, now: Instant) {
        let Some(told) = self.path.told.filter(|told| told.seq.is_before(self.sent.first())) else { return };
        self.path.told = None;
        let (Some(least), took) = (self.rtt.least(), now.since(told.at)) else { return };
        if took >= least {
            self.path.proved = Some(told.mss);
        } else if took < least / 2 && self.path.search.is_none() {
            self.set_path_mss(told.before);
        }
    }

    /// The length of segments that arrive, once, if it is shorter than links and routers say.
    #[inline]
    pub fn found_path(&mut self) -> Option<u16> {
        self.path.news.take()
    }

    /// Nothing was acknowledged, several times: perhaps for the length of what was sent.
    //= https://www.rfc-editor.org/rfc/rfc4821#section-7.7
    pub(super) fn doubt_path(&mut self, now: Instant) {
        self.path.probe = None;
        let is_searched = self.path.search.is_some_and(|search| search.is_sure);
        let timeouts = self.rtt.backoffs();
        if !self.settings.path_probes || is_searched || self.state < State::Established {
            return;
        }
        if timeouts >= GIVEN_UP_AFTER {
            if let Some(Search { full, .. }) = self.path.search.take() {
                self.set_path_mss(full);
            }
        } else if timeouts >= SHORTER_AFTER && timeouts.is_multiple_of(2) {
            self.try_shorter(now);
        }
    }

    fn try_shorter(&mut self, now: Instant) {
        let (mss, least) = (self.path_mss, self.settings.safe_mss);
        let shorter = if mss > SHORTER.max(least) { SHORTER.max(least) } else { least };
        // What never had more bytes than this does not vanish for its length.
        if shorter >= mss || self.sent.unacknowledged() <= shorter.into() {
            return;
        }
        let full = self.path.search.map_or(mss, |search| search.full);
        self.path.search = Some(Search { full, most: full, is_sure: false, until: now + BELIEVED });
        self.set_path_mss(shorter);
    }

    /// Something was acknowledged.
    pub(super) fn path_carries(&mut self, now: Instant) {
        self.judge_router(now);
        let first = self.sent.first();
        if let Some((start, end)) = self.path.probe.filter(|(_, end)| !first.is_before(*end)) {
            self.path.probe = None;
            let len = u16::try_from(end.since(start)).unwrap_or(u16::MAX);
            self.set_path_mss(len.saturating_add(self.options_len()));
            self.path.news = Some(self.path_mss);
        }
        let mss = self.path_mss;
        let Some(search) = &mut self.path.search else { return };
        if !search.is_sure {
            search.is_sure = true;
            self.path.news = Some(mss);
        }
        if search.until <= now {
            (search.most, search.until) = (search.full, now + BELIEVED);
        }
    }

    /// Whether all that is taken for lost is the probe: then it was too long, and there is no congestion.
    //= https://www.rfc-editor.org/rfc/rfc4821#section-7.6.2
    pub(super) fn is_lost_for_its_length(&mut self) -> bool {
        let Some((start, end)) = self.path.probe else { return false };
        let is_it = self.sent.first_lost().is_some_and(|(first, _)| first == start)
            && self.sent.lost() == end.since(start);
        if is_it {
            self.path.probe = None;
            let most = self.path_mss.max(len_of(start, end).saturating_add(self.options_len()) - 1);
            if let Some(search) = &mut self.path.search {
                search.most = most;
            }
        }
        is_it
    }

    /// Sends a longer segment than are known to arrive, if it is time for one, and enough goes behind it.
    pub(super) fn probe_path(&mut self, now: Instant, wire: &mut dyn FnMut(&Out<'_>)) {
        let Some(len) = self.next_probe() else { return };
        let start = self.sent.behind();
        self.path.probe = Some((start, start + len));
        self.send_cut(start, start + len, len, now, wire);
    }

    /// Bytes of the next probe: half way between what arrives and what may.
    fn next_probe(&self) -> Option<u32> {
        let search = self.path.search.filter(|search| search.is_sure && self.path.probe.is_none())?;
        let least = self.path_mss;
        let most = search.most.min(self.agreed.mss).min(self.settings.mss_max);
        if most < least.saturating_add(CLOSE) || !self.sacks() || !self.settings.path_probes {
            return None;
        }
        // A pair of lengths whose half lies close to the longer one: that may be it.
        let half = least + (most - least).div_ceil(2);
        let len = u32::from(if most - half < CLOSE { most } else { half } - self.options_len());
        let (start, mss) = (self.sent.behind(), self.mss());
        let wanted = len + FOLLOWERS * mss;
        let is_quiet = !self.recovery.is_on() && !self.sent.has_sacked() && self.sent.lost() == 0;
        let is_bare = self.room() == mss;
        let room = self.congestion.window().saturating_sub(self.sent.pipe());
        let has_room = self.congestion.window() >= WINDOW * mss && room >= len;
        let has_bytes = self.queued_end.since(start) >= wanted && self.right_edge.since(start) >= wanted;
        (is_quiet && is_bare && has_room && has_bytes && !self.urgent.is_behind(start)).then_some(len)
    }

    /// Segments are so long from now on.
    fn set_path_mss(&mut self, mss: u16) {
        self.path_mss = mss;
        self.congestion.set_mss(self.mss());
    }

    fn options_len(&self) -> u16 {
        u16::try_from(self.overhead()).unwrap_or(0)
    }
}

fn len_of(start: Seq, end: Seq) -> u16 {
    u16::try_from(end.since(start)).unwrap_or(u16::MAX)
}
