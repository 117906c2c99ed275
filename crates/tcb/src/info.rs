//! Connection information, as `TCP_INFO` of FreeBSD and Linux and `ss -ti` have it.

use super::{Keep, Segment, State, Tcb};
use crate::congestion::Algorithm;
use base::time::Duration;

/// A connection as it is now. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Where it is in its life.
    pub state: State,
    /// Segments bear timestamps.
    pub timestamps: bool,
    /// Selective acknowledgments are understood.
    pub sack: bool,
    /// By how many bits windows are shifted, the other end's and ours, if they are.
    pub window_scale: Option<(u8, u8)>,
    /// Marks of routers are understood.
    pub ecn: bool,
    /// Data that came or went with the SYN was taken (RFC 7413).
    pub early_data: bool,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Number of consecutive timeouts.
    pub backoffs: u8,
    /// Questions in a silence that are not answered.
    pub probes: u8,
    /// The smoothed round trip, its deviation, and the shortest; none before the first.
    pub rtt: Option<Duration>,
    /// See [`Self::rtt`].
    pub rtt_variation: Option<Duration>,
    /// See [`Self::rtt`].
    pub rtt_least: Option<Duration>,
    /// Congestion control algorithm.
    pub algorithm: Algorithm,
    /// Segment size of the path, options included.
    pub path_mss: u32,
    /// Payload of the longest segment that is sent.
    pub snd_mss: u32,
    /// Payload of the longest segment that has come, or that was asked for.
    pub rcv_mss: u32,
    /// `cwnd`.
    pub snd_cwnd: u32,
    /// `ssthresh`; `u32::MAX` before the first loss.
    pub snd_ssthresh: u32,
    /// Send window.
    pub snd_wnd: u32,
    /// Receive window.
    pub rcv_wnd: u32,
    /// The first byte that is not acknowledged.
    pub snd_una: u32,
    /// Behind the last byte that was sent.
    pub snd_nxt: u32,
    /// The next byte that is expected.
    pub rcv_nxt: u32,
    /// Sent and not acknowledged.
    pub unacknowledged: u32,
    /// Bytes among them that are selectively acknowledged.
    pub sacked: u32,
    /// Bytes among them that are lost and not retransmitted.
    pub lost: u32,
    /// Not sent yet.
    pub unsent: u32,
    /// Losses are being repaired.
    pub recovers: bool,
    /// It was the timer that found them.
    pub by_timer: bool,
    /// The window was reduced because a router has marked a packet of it.
    pub reduced_for_mark: bool,
    /// User timeout; without one, the number of retransmissions counts.
    pub user_timeout: Option<Duration>,
    /// The peer's user timeout (RFC 5482).
    pub remote_user_timeout: Option<Duration>,
    /// Counters.
    pub tally: Tally,
}

/// Counts of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Segments that have come, and of these, those with data.
    pub segments_in: u64,
    /// See [`Self::segments_in`].
    pub data_segments_in: u64,
    /// Segments that were sent, and of these, those with data.
    pub segments_out: u64,
    /// See [`Self::segments_out`].
    pub data_segments_out: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Bytes that the other end has acknowledged.
    pub bytes_acknowledged: u64,
    /// Bytes that have come in order.
    pub bytes_received: u64,
    /// Segments of ours that have arrived, our SYN among them, and of these those that were acknowledged with word of a mark.
    pub delivered: u64,
    /// See [`Self::delivered`].
    pub delivered_marked: u64,
    /// Segments that have come out of order.
    pub out_of_order: u64,
    /// Segments that said that we take nothing.
    pub zero_windows: u64,
    news: HostCounts,
}

/// Counts for the host's totals, since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Segments that were sent again.
    pub again: u32,
    /// Segments that have come out of order.
    pub out_of_order: u32,
    /// Times that nothing was acknowledged for too long.
    pub timeouts: u32,
}

impl Tally {
    pub(super) fn came(&mut self, segment: &Segment<'_>) {
        self.segments_in += 1;
        self.data_segments_in += u64::from(!segment.payload.is_empty());
    }

    pub(super) fn sent(&mut self, segments: u32, has_data: bool, is_again: bool) {
        self.segments_out += u64::from(segments);
        self.data_segments_out += if has_data { segments.into() } else { 0 };
        let again = if is_again { segments } else { 0 };
        self.retransmitted += u64::from(again);
        self.news.again = self.news.again.saturating_add(again);
    }

    pub(super) fn came_early(&mut self, is_early: bool) {
        self.out_of_order += u64::from(is_early);
        self.news.out_of_order = self.news.out_of_order.saturating_add(is_early.into());
    }

    pub(super) fn timed_out(&mut self) {
        self.news.timeouts = self.news.timeouts.saturating_add(1);
    }

    pub(super) fn delivered(&mut self, segments: u32, is_marked: bool) {
        self.delivered += u64::from(segments);
        self.delivered_marked += if is_marked { segments.into() } else { 0 };
    }
}

impl Tcb {
    /// Takes the counts, if there are any.
    pub fn take_news(&mut self) -> Option<HostCounts> {
        let news = core::mem::take(&mut self.tally.news);
        (news != HostCounts::default()).then_some(news)
    }

    /// Bytes that the program has sent, and the other end has not acknowledged.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.outgoing.len()
    }

    /// Returns the connection's information.
    #[must_use]
    pub fn info(&self) -> Info {
        let Self { agreed, rtt, congestion, sent, keep: Keep { asked, .. }, .. } = self;
        let (ours, theirs) = agreed.shift;
        let behind = sent.behind();
        Info {
            state: self.state,
            timestamps: agreed.timestamps,
            sack: agreed.sack,
            window_scale: agreed.is_scaled.then_some((theirs, ours)),
            ecn: self.ecn.is_on && self.state >= State::Established,
            early_data: self.open.has_taken,
            rto: rtt.rto(),
            backoffs: rtt.backoffs(),
            probes: *asked,
            rtt: rtt.smoothed(),
            rtt_variation: rtt.variation(),
            rtt_least: rtt.least(),
            algorithm: self.settings.algorithm,
            path_mss: self.path_mss.into(),
            snd_mss: self.mss(),
            rcv_mss: self.settings.mss.into(),
            snd_cwnd: congestion.window(),
            snd_ssthresh: congestion.threshold(),
            snd_wnd: self.right_edge.since(sent.first()),
            rcv_wnd: self.window(),
            snd_una: sent.first().0,
            snd_nxt: behind.0,
            rcv_nxt: self.receive.next().0,
            unacknowledged: sent.unacknowledged(),
            sacked: sent.sacked(),
            lost: sent.lost(),
            unsent: self.queued_end.since(behind),
            recovers: self.recovery.is_on(),
            by_timer: self.recovery.is_by_timer(),
            reduced_for_mark: self.is_reduced_for_a_mark(),
            user_timeout: self.adopted().or(self.settings.user_timeout),
            remote_user_timeout: self.advice.heard(),
            tally: self.tally,
        }
    }
}
