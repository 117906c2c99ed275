//! `TCP_INFO` as Linux has it (`struct tcp_info` of `linux/tcp.h`).

use net::base::time::Duration;
use net::tcp::Listed;
use net::tcp::tcb::{Info, State, Times};
use wire::program::INFO_LEN;

/// `TCPI_OPT_TIMESTAMPS`, `TCPI_OPT_SACK`, `TCPI_OPT_WSCALE`, `TCPI_OPT_ECN`.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WSCALE: u8 = 4;
const ECN: u8 = 8;
/// `TCP_CA_Open`, `TCP_CA_Recovery`.
const CA_OPEN: u8 = 0;
const CA_RECOVERY: u8 = 3;
/// Headers of IP and TCP.
const HEADERS4: u32 = 40;
const HEADERS6: u32 = 60;
/// `tcpi_reordering` before any reordering.
const REORDERING: u32 = 3;

/// Writes the structure from what the stack knows; what it does not is 0.
pub(super) fn tcp_info(listed: &Listed) -> [u8; INFO_LEN] {
    let mut into = Into { bytes: [0; INFO_LEN], at: 0 };
    let Some((info, times)) = listed.info.as_deref() else {
        into.bytes[0] = number(listed.state);
        return into.bytes;
    };
    let headers = if listed.ends.local.is_ipv4() { HEADERS4 } else { HEADERS6 };
    flags(&mut into, listed.state, info);
    words(&mut into, info, times, headers);
    totals(&mut into, info, times);
    into.bytes
}

/// The first eight bytes.
fn flags(into: &mut Into, state: State, info: &Info) {
    let options = [
        (info.timestamps, TIMESTAMPS),
        (info.sack, SACK),
        (info.window_scale.is_some(), WSCALE),
        (info.ecn, ECN),
    ];
    let options = options.iter().filter(|(is_on, _)| *is_on).map(|(_, bit)| bit).sum();
    let scale = info.window_scale.map_or(0, |(theirs, ours)| theirs & 0xf | ours << 4);
    let phase = if info.recovers { CA_RECOVERY } else { CA_OPEN };
    into.put(&[number(state), phase, info.backoffs, info.probes, info.backoffs, options, scale, 0]);
}

/// From `tcpi_rto` to `tcpi_total_retrans`.
fn words(into: &mut Into, info: &Info, times: &Times, headers: u32) {
    let mss = info.snd_mss.max(1);
    let segments = |bytes: u32| bytes.div_ceil(mss);
    into.words(&[us(info.rto), 0, info.snd_mss, info.rcv_mss]);
    into.words(&[segments(info.unacknowledged), segments(info.sacked), segments(info.lost), 0, 0]);
    into.words(&[ms(times.data_sent), 0, ms(times.data_came), ms(times.ack_came)]);
    into.words(&[info.path_mss + headers, info.rcv_wnd]);
    into.words(&[info.rtt.map_or(0, us), info.rtt_variation.map_or(0, us)]);
    let threshold = match info.snd_ssthresh {
        u32::MAX => i32::MAX.cast_unsigned(),
        bytes => bytes / mss,
    };
    into.words(&[threshold, info.snd_cwnd / mss, info.path_mss, REORDERING, 0, info.rcv_wnd]);
    into.words(&[low(info.tally.retransmitted)]);
}

/// From `tcpi_pacing_rate` on.
fn totals(into: &mut Into, info: &Info, times: &Times) {
    let tally = &info.tally;
    into.long(&[u64::MAX, u64::MAX, tally.bytes_acknowledged, tally.bytes_received]);
    into.words(&[low(tally.segments_out), low(tally.segments_in), info.unsent]);
    into.words(&[info.rtt_least.map_or(0, us), low(tally.data_segments_in), low(tally.data_segments_out)]);
    into.long(&[0, long_us(times.busy), long_us(times.shut_out), long_us(times.full)]);
    into.words(&[low(tally.delivered), low(tally.delivered_marked)]);
    let sent = tally.bytes_acknowledged + u64::from(info.unacknowledged);
    into.long(&[sent, 0]);
    into.words(&[0, 0, low(tally.out_of_order), info.snd_wnd, info.rcv_wnd]);
}

/// The structure, from its beginning. What does not fit is not written.
struct Into {
    bytes: [u8; INFO_LEN],
    at: usize,
}

impl Into {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.put(&word.to_ne_bytes()));
    }

    fn long(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.put(&word.to_ne_bytes()));
    }
}

/// `TCP_ESTABLISHED` and so on.
const fn number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

fn us(time: Duration) -> u32 {
    low(long_us(time))
}

fn ms(time: Duration) -> u32 {
    low(long_us(time) / 1000)
}

fn long_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn low(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
