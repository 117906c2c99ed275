//! `MSG_FASTOPEN`: a call of Linux that connects and sends; and `TCP_FASTOPEN_CONNECT`, with which the first call that sends
//! does so.
//!
//! A call that must not wait gives to the connection what goes with its SYN, and leaves the rest to the program; without a
//! cookie that is nothing. One that may wait returns when all was taken and the connection stands.

use core::net::SocketAddr;

use drill::syscall::{ExprKind, Syscall};
use net::tcp::settings::Change;
use net::tcp::tcb::State;
use net::time::Duration;

use super::super::calls::{self, Answer, Asked};
use super::super::ends::Endpoints;
use super::super::errno::Errno;
use super::super::expr;
use super::super::lab::Lab;
use super::super::program::{Early, Outcome, Socket, Stage};
use super::super::sysctl::{FASTOPEN_CLIENT, Sysctls};

/// The flag, as a number.
const FLAG: i64 = 0x2000_0000;
/// Doublings that are counted: more wait for longer than any script.
const DOUBLINGS_MAX: u32 = 20;

/// Whether a call that sends has the flag, or is the first of a socket that has waited for one.
pub(in super::super) fn opens(call: &Syscall, is_again: bool, socket: &Socket) -> bool {
    let is_first = is_again || matches!(socket.stage, Stage::Fresh | Stage::Bound(_));
    let mut found = is_first && socket.deferred.is_some();
    if let Some(flags) = calls::flags(call) {
        flags.walk(&mut |part| found |= matches!(part.kind, ExprKind::Integer(bits) if bits & FLAG != 0));
        found |= expr::has(flags, "MSG_FASTOPEN");
    }
    found
}

/// Returns the timeout of a SYN with so many retransmissions, the first after a second.
pub(in super::super) fn wait_of(repetitions: i64) -> Duration {
    let doublings = u32::try_from(repetitions).unwrap_or(0).saturating_add(1).min(DOUBLINGS_MAX);
    Duration::from_secs((1 << doublings) - 1)
}

/// Asks for what such a call asks for.
///
/// # Errors
///
/// If the script says nothing that can be asked for.
pub(in super::super) fn ask(
    call: &Syscall,
    asked: Asked<'_>,
    (socket, sysctls): (&mut Socket, &Sysctls),
    lab: &mut Lab,
    ends: &Endpoints,
) -> Answer {
    match (&socket.stage, asked.is_again) {
        (Stage::Fresh | Stage::Bound(_), _) => {
            let open = socket.deferred.unwrap_or_else(|| (ends.remote, ends.connect_port).into());
            let to = calls::destination(call);
            if to.and_then(expr::name) == Some("AF_UNSPEC") {
                return calls::failed("EOPNOTSUPP");
            }
            let remote = to.map_or(Ok(open), |to| calls::addressed(to, open))?;
            let bytes = calls::outgoing(call, asked.position)?;
            let may_wait = !calls::flags(call).is_some_and(|flags| expr::has(flags, "MSG_DONTWAIT"));
            Ok(calls::counted(begin((socket, sysctls), lab, remote, &bytes, asked.moved, may_wait)))
        }
        (Stage::Open(..), true) => match stands(socket, lab) {
            Outcome::Done(Ok(())) => calls::send(call, socket, asked, lab),
            Outcome::Done(Err(errno)) => Ok(Outcome::Done(Err(errno))),
            Outcome::Waits => Ok(Outcome::Waits),
        },
        (Stage::Open(..), false) if socket.is_beginning(lab) => calls::failed("EALREADY"),
        _ => calls::send(call, socket, asked, lab),
    }
}

/// Connects, and sends what goes with the SYN; answers how much that is, if it must not wait for more.
pub(in super::super) fn begin(
    (socket, sysctls): (&mut Socket, &Sysctls),
    lab: &mut Lab,
    remote: SocketAddr,
    bytes: &[u8],
    moved: &mut usize,
    may_wait: bool,
) -> Outcome<usize> {
    if sysctls.get(FASTOPEN_CLIENT) == 0 {
        return Outcome::fails("EOPNOTSUPP");
    }
    socket.changes.push(Change::FastOpen(true));
    let sent = match socket.begin(lab, sysctls, remote, Early::WithSyn(bytes.to_vec())) {
        Ok(sent) => sent,
        Err(errno) => return Outcome::Done(Err(errno)),
    };
    *moved = sent;
    if may_wait && !socket.is_nonblocking {
        // What waits goes with the acknowledgment of the other end's SYN.
        *moved += socket.put(lab, bytes.get(sent..).unwrap_or_default().to_vec());
        return Outcome::Waits;
    }
    if sent == 0 { Outcome::fails("EINPROGRESS") } else { Outcome::Done(Ok(sent)) }
}

/// Waits until the connection stands.
pub(in super::super) fn stands(socket: &mut Socket, lab: &mut Lab) -> Outcome<()> {
    match socket.state(lab) {
        _ if socket.is_beginning(lab) => Outcome::Waits,
        None | Some(State::Closed) => {
            Outcome::Done(Err(socket.take_error(lab).unwrap_or(Errno("ECONNABORTED"))))
        }
        _ => Outcome::Done(Ok(())),
    }
}
