//! Assertions about the connection under test.

use core::time::Duration;

use drill::code::{Code, Name, STATES, Statement};
use drill::script::Pos;
use net::tcp::tcb::{Info, State, Times};

use super::formula::evaluate;
use super::lab::Lab;
use super::linux::info;
use super::program::{Socket, Stage};

/// The socket whose variables are read, and how they are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    /// The socket, if there is one.
    pub(super) socket: Option<&'a Socket>,
    /// As Linux counts.
    pub(super) is_linux: bool,
}

/// Holds what is known of a socket to what a script asserts.
///
/// # Errors
///
/// The first assertion that is wrong, and where it stands.
pub(super) fn check(code: &Code, reader: Reader<'_>, lab: &mut Lab) -> Result<(), (Pos, String)> {
    let Some(socket) = reader.socket else { return Err((code.pos, "there is no socket to ask".to_owned())) };
    for At { pos, value } in
        code.statements.iter().map(|statement| At { pos: statement.pos, value: &statement.value })
    {
        let Statement::Assert { condition, message } = value else { continue };
        let mut seen = Vec::new();
        let holds = evaluate(condition, &mut |name| {
            let value = variable(name, socket, reader.is_linux, lab)?;
            if matches!(name, Name::TcpInfo(_) | Name::Other(_)) {
                seen.push(format!("{}={value}", name.text()));
            }
            Ok(value)
        });
        match holds {
            Ok(value) if value.is_true() => {}
            Ok(_) => {
                let said = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
                return Err((pos, format!("the assertion does not hold{said}; {}", seen.join(", "))));
            }
            Err(why) => return Err((pos, format!("the assertion cannot be evaluated: {why}"))),
        }
    }
    Ok(())
}

/// A statement, and where it stands.
struct At<'a> {
    pos: Pos,
    value: &'a Statement,
}

fn variable(name: Name, socket: &Socket, is_linux: bool, lab: &mut Lab) -> Result<i128, String> {
    let unknown = || format!("{} is not known here", name.text());
    let number = |state: &str| STATES.iter().position(|(known, _)| *known == state);
    let state = match name {
        Name::State(_) => name.state(),
        Name::TcpInfo("tcpi_state") => Some(state(socket, lab)),
        _ => None,
    };
    if let Some(state) = state {
        return number(state).and_then(|number| i128::try_from(number).ok()).ok_or_else(unknown);
    }
    match name {
        Name::CaState(state) => info::number(state).ok_or_else(unknown),
        Name::OptionBit(bit) => option_bit(bit).map(i128::from).ok_or_else(unknown),
        Name::TcpInfo(field) => {
            let (info, times) = socket.describe(lab).ok_or("the socket has no connection")?;
            let as_linux = info::field(field, &info).filter(|_| is_linux);
            as_linux.or_else(|| self::field(field, &info)).or_else(|| span(field, &times)).ok_or_else(unknown)
        }
        _ => Err(unknown()),
    }
}

/// Bits of `tcpi_options`, the lowest first.
const OPTION_BITS: [&str; 6] = [
    "TCPI_OPT_TIMESTAMPS",
    "TCPI_OPT_SACK",
    "TCPI_OPT_WSCALE",
    "TCPI_OPT_ECN",
    "TCPI_OPT_ECN_SEEN",
    "TCPI_OPT_SYN_DATA",
];

/// A bit of `tcpi_options`.
fn option_bit(name: &str) -> Option<u8> {
    OPTION_BITS.iter().position(|known| *known == name).and_then(|at| u8::try_from(1 << at).ok())
}

/// A field of FreeBSD's `TCP_INFO`: times in microseconds, windows in bytes.
pub(super) fn field(name: &str, info: &Info) -> Option<i128> {
    let micros = |time: Option<Duration>| time.map_or(Some(0), |time| i128::try_from(time.as_micros()).ok());
    let (theirs, ours) = info.window_scale.unwrap_or((0, 0));
    let bits = [info.timestamps, info.sack, info.window_scale.is_some(), info.ecn, false, info.early_data];
    let options = bits.iter().rev().fold(0, |bits, is_on| bits << 1 | i128::from(*is_on));
    Some(match name {
        "tcpi_options" => options,
        "tcpi_snd_wscale" => theirs.into(),
        "tcpi_rcv_wscale" => ours.into(),
        "tcpi_rto" => return micros(Some(info.rto)),
        "tcpi_rtt" => return micros(info.rtt),
        "tcpi_rttvar" => return micros(info.rtt_variation),
        "tcpi_min_rtt" => return micros(info.rtt_least),
        "tcpi_backoff" | "tcpi_retransmits" => info.backoffs.into(),
        "tcpi_probes" => info.probes.into(),
        "tcpi_snd_mss" => info.snd_mss.into(),
        "tcpi_rcv_mss" => info.rcv_mss.into(),
        "tcpi_snd_cwnd" => info.snd_cwnd.into(),
        "tcpi_snd_ssthresh" => info.snd_ssthresh.into(),
        "tcpi_snd_wnd" => info.snd_wnd.into(),
        "tcpi_rcv_wnd" | "tcpi_rcv_space" => info.rcv_wnd.into(),
        "tcpi_snd_una" => info.snd_una.into(),
        "tcpi_snd_nxt" => info.snd_nxt.into(),
        "tcpi_rcv_nxt" => info.rcv_nxt.into(),
        "tcpi_notsent_bytes" => info.unsent.into(),
        "tcpi_segs_in" => info.tally.segments_in.into(),
        "tcpi_segs_out" => info.tally.segments_out.into(),
        "tcpi_data_segs_in" => info.tally.data_segments_in.into(),
        "tcpi_data_segs_out" => info.tally.data_segments_out.into(),
        "tcpi_snd_rexmitpack" | "tcpi_total_retrans" => info.tally.retransmitted.into(),
        "tcpi_bytes_acked" => info.tally.bytes_acknowledged.into(),
        "tcpi_bytes_received" => info.tally.bytes_received.into(),
        "tcpi_delivered" => info.tally.delivered.into(),
        "tcpi_delivered_ce" => info.tally.delivered_marked.into(),
        "tcpi_rcv_ooopack" => info.tally.out_of_order.into(),
        "tcpi_snd_zerowin" => info.tally.zero_windows.into(),
        _ => return None,
    })
}

/// A field of `TCP_INFO` that is a span of time: milliseconds since something, or microseconds in all.
pub(super) fn span(name: &str, times: &Times) -> Option<i128> {
    let since = |time: Duration| i128::try_from(time.as_millis()).ok();
    let sum = |time: Duration| i128::try_from(time.as_micros()).ok();
    match name {
        "tcpi_last_data_sent" => since(times.data_sent),
        "tcpi_last_data_recv" => since(times.data_came),
        "tcpi_last_ack_recv" => since(times.ack_came),
        "tcpi_busy_time" => sum(times.busy),
        "tcpi_rwnd_limited" => sum(times.shut_out),
        "tcpi_sndbuf_limited" => sum(times.full),
        _ => None,
    }
}

/// The state of a socket's connection, by its name in RFC 9293.
pub(super) fn state(socket: &Socket, lab: &mut Lab) -> &'static str {
    match (&socket.stage, socket.state(lab)) {
        (Stage::Listening(_), _) => "LISTEN",
        (_, None | Some(State::Closed)) => "CLOSED",
        (_, Some(State::SynSent)) => "SYN-SENT",
        (_, Some(State::SynReceived)) => "SYN-RECEIVED",
        (_, Some(State::Established)) => "ESTABLISHED",
        (_, Some(State::CloseWait)) => "CLOSE-WAIT",
        (_, Some(State::FinWait1)) => "FIN-WAIT-1",
        (_, Some(State::FinWait2)) => "FIN-WAIT-2",
        (_, Some(State::Closing)) => "CLOSING",
        (_, Some(State::LastAck)) => "LAST-ACK",
        (_, Some(State::TimeWait)) => "TIME-WAIT",
    }
}
