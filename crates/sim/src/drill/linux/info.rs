//! `TCP_INFO` as Linux counts: windows and what is under way in segments.

use drill::code::CA_STATES;
use net::tcp::tcb::Info;

/// Before the first loss, as Linux says it.
const INFINITE: u32 = 0x7fff_ffff;

/// A field that Linux counts in another way, or knows alone.
pub(in super::super) fn field(name: &str, info: &Info) -> Option<i128> {
    let segments = |bytes: u32| bytes.div_ceil(info.snd_mss.max(1));
    Some(i128::from(match name {
        "tcpi_snd_cwnd" => info.snd_cwnd / info.snd_mss.max(1),
        "tcpi_snd_ssthresh" if info.snd_ssthresh == u32::MAX => INFINITE,
        "tcpi_snd_ssthresh" => info.snd_ssthresh / info.snd_mss.max(1),
        "tcpi_unacked" => segments(info.unacknowledged),
        "tcpi_sacked" => segments(info.sacked),
        "tcpi_lost" => segments(info.lost),
        "tcpi_advmss" => info.rcv_mss,
        "tcpi_ca_state" => return ca_state(info),
        _ => return None,
    }))
}

/// A state of congestion control, as its number.
pub(in super::super) fn number(state: &str) -> Option<i128> {
    CA_STATES.iter().position(|known| *known == state).and_then(|number| i128::try_from(number).ok())
}

fn ca_state(info: &Info) -> Option<i128> {
    number(match (info.recovers, info.by_timer) {
        (true, true) => "TCP_CA_Loss",
        (true, false) => "TCP_CA_Recovery",
        (false, _) if info.reduced_for_mark => "TCP_CA_CWR",
        (false, _) if info.sacked > 0 => "TCP_CA_Disorder",
        (false, _) => "TCP_CA_Open",
    })
}
