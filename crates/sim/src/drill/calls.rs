//! System calls of scripts.

use core::net::SocketAddr;
use core::time::Duration;

use drill::syscall::{Call, Expr, ExprKind, StructKind, Syscall};
use net::tcp::tcb::State;

use super::conn::{Conns, Phase, Reading};
use super::ends::Endpoints;
use super::errno::Errno;
use super::lab::Lab;
use super::linux::{self, opening};
use super::pattern::Stream;
use super::program::{Early, Outcome, Program, Sending, Socket, Stage};
use super::{expr, options};

/// The return value of a successful call.
#[derive(Debug)]
pub(super) enum Value {
    /// A number.
    Number(i64),
    /// A descriptor of a new socket; of an accepted one, with its peer.
    Socket(Box<Socket>, Option<SocketAddr>),
    /// Bytes that were read, and how.
    Bytes(Vec<u8>, Reading),
}

/// State of a call that was tried before.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// Time it has waited.
    pub(super) waited: Duration,
    /// Bytes that it has moved.
    pub(super) moved: &'a mut usize,
    /// It is not asked for the first time.
    pub(super) is_again: bool,
    /// Where in its stream the first byte is that it sends.
    pub(super) position: u32,
}

/// The outcome of a call: of the stack, or of the script's own mistakes.
pub(super) type Answer = Result<Outcome<Value>, String>;

fn done(number: i64) -> Answer {
    Ok(Outcome::Done(Ok(Value::Number(number))))
}

pub(super) fn failed(name: &'static str) -> Answer {
    Ok(Outcome::Done(Err(Errno(name))))
}

fn number(outcome: Outcome<i64>) -> Answer {
    Ok(match outcome {
        Outcome::Done(result) => Outcome::Done(result.map(Value::Number)),
        Outcome::Waits => Outcome::Waits,
    })
}

/// Turns a number of bytes into a return value.
pub(super) fn counted(outcome: Outcome<usize>) -> Outcome<Value> {
    match outcome {
        Outcome::Done(count) => {
            Outcome::Done(count.map(|count| Value::Number(i64::try_from(count).unwrap_or(i64::MAX))))
        }
        Outcome::Waits => Outcome::Waits,
    }
}

/// A call is about to be made: what that means for the packets that follow.
pub(super) fn announce(call: &Syscall, ends: &Endpoints, conns: &mut Conns) {
    let Some(Ok(fd)) = call.args.first().map(expr::number) else { return };
    match call.call.value {
        Call::Listen => {
            if let Some(conn) = conns.turn_to(fd) {
                conn.phase = Phase::Listening;
            }
        }
        Call::Connect | Call::Sendto | Call::Sendmsg => {
            let Some(to) = destination(call) else { return };
            let port = expr::address(to).map_or(ends.connect_port, |to| to.port());
            if let Some(conn) = conns.turn_to(fd).filter(|conn| conn.phase == Phase::New) {
                (conn.phase, conn.remote_port) = (Phase::Connecting, port);
            }
        }
        Call::Bind => {
            let port = call.args.get(1).and_then(|to| expr::address(to).ok()).map(|to| to.port());
            if let Some(conn) = conns.turn_to(fd) {
                conn.local_port = port.unwrap_or(ends.bind_port);
            }
        }
        Call::Close => conns.closed(fd),
        _ => {}
    }
}

/// Returns the destination of `connect`, or of a datagram.
pub(super) fn destination(call: &Syscall) -> Option<&Expr> {
    match call.call.value {
        Call::Connect => call.args.get(1),
        Call::Sendto => call.args.get(4),
        _ => expr::structure(call.args.get(1)?, StructKind::MsgHdr)?.field("msg_name"),
    }
}

/// The flags of a call that sends.
pub(super) fn flags(call: &Syscall) -> Option<&Expr> {
    call.args.get(if call.call.value == Call::Sendmsg { 2 } else { 3 })
}

/// Asks for what a call asks for.
///
/// # Errors
///
/// If the script asks for something that there is not, or an answer is not the one that it demands.
pub(super) fn ask(
    call: &Syscall,
    asked: Asked<'_>,
    program: &mut Program,
    lab: &mut Lab,
    ends: &Endpoints,
) -> Answer {
    match call.call.value {
        Call::Socket => return socket(&call.args),
        Call::Poll => return poll(&call.args, asked.waited, program, lab),
        _ => {}
    }
    let fd = expr::number(arg(call, 0)?)?;
    if call.call.value == Call::Close {
        return match program.sockets.remove(&fd) {
            Some(socket) => {
                socket.close(lab);
                done(0)
            }
            None => failed("EBADF"),
        };
    }
    let Program { sysctls, sockets, .. } = program;
    let Some(socket) = sockets.get_mut(&fd) else { return failed("EBADF") };
    match call.call.value {
        Call::Bind => {
            let addr = addressed(arg(call, 1)?, (ends.local.addr, ends.bind_port).into())?;
            bind(socket, lab, addr)
        }
        Call::Listen => {
            let backlog = usize::try_from(expr::number(arg(call, 1)?)?).unwrap_or(0);
            let addr = socket.bound.unwrap_or_else(|| (ends.local.addr, ends.bind_port).into());
            Ok(Outcome::Done(socket.listen(lab, sysctls, addr, backlog).map(Value::Number)))
        }
        Call::Accept | Call::Accept4 => accept(call, socket, lab, ends.is_linux),
        Call::Connect => {
            let remote = addressed(arg(call, 1)?, (ends.remote, ends.connect_port).into())?;
            number(socket.connect(lab, sysctls, remote))
        }
        Call::Read | Call::Recv | Call::Recvfrom => receive(call, socket, lab),
        Call::Write | Call::Send | Call::Sendto | Call::Sendmsg
            if opening::opens(call, asked.is_again, socket) =>
        {
            opening::ask(call, asked, (socket, &*sysctls), lab, ends)
        }
        Call::Sendto if matches!(socket.stage, Stage::Fresh | Stage::Bound(_)) && call.args.len() > 4 => {
            let remote = addressed(arg(call, 4)?, (ends.remote, ends.connect_port).into())?;
            let sent = socket.begin(lab, sysctls, remote, Early::All(outgoing(call, asked.position)?));
            *asked.moved = sent.as_ref().copied().unwrap_or(0);
            Ok(counted(Outcome::Done(sent)))
        }
        // FreeBSD says that it is not connected.
        Call::Write | Call::Send | Call::Sendto | Call::Sendmsg
            if ends.is_linux && socket.is_beginning(lab) =>
        {
            Ok(socket.wait())
        }
        Call::Write | Call::Send | Call::Sendto | Call::Sendmsg => {
            send(call, socket, asked, lab).map(|sent| linux::sent(sent, ends.is_linux))
        }
        Call::Shutdown => {
            let how = arg(call, 1)?;
            let both = expr::has(how, "SHUT_RDWR");
            let reading = both || expr::has(how, "SHUT_RD");
            let writing = both || expr::has(how, "SHUT_WR");
            Ok(Outcome::Done(socket.shutdown(lab, reading, writing).map(Value::Number)))
        }
        Call::Fcntl => fcntl(call, socket),
        Call::Ioctl => ioctl(call, socket, lab),
        Call::Setsockopt => options::set(call, socket, lab, sysctls).map(numbered),
        Call::Getsockopt => options::get(call, socket, lab, sysctls).map(numbered),
        Call::Getsockname => name_of(call, socket, lab, false),
        Call::Getpeername => name_of(call, socket, lab, true),
        _ => Err(format!("{} cannot be called here", call.call.value.name())),
    }
}

fn numbered(result: Result<i64, Errno>) -> Outcome<Value> {
    Outcome::Done(result.map(Value::Number))
}

/// An argument of a call.
///
/// # Errors
///
/// If there are not so many.
pub(super) fn arg(call: &Syscall, at: usize) -> Result<&Expr, String> {
    call.args.get(at).ok_or_else(|| format!("{} needs {} arguments", call.call.value.name(), at + 1))
}

/// The address that a script gives, or this, if it leaves it open.
pub(super) fn addressed(expr: &Expr, open: SocketAddr) -> Result<SocketAddr, String> {
    if expr::is_open(expr) { Ok(open) } else { expr::address(expr) }
}

fn socket(args: &[Expr]) -> Answer {
    let kind = args.get(1).ok_or("socket needs three arguments")?;
    if !expr::has(kind, "SOCK_STREAM") {
        return Err("only sockets of TCP are there".to_owned());
    }
    if args.get(2).is_some_and(|protocol| expr::has(protocol, "IPPROTO_UDP")) {
        return failed("EPROTONOSUPPORT");
    }
    let socket = Socket::new(expr::has(kind, "SOCK_NONBLOCK"));
    Ok(Outcome::Done(Ok(Value::Socket(Box::new(socket), None))))
}

fn bind(socket: &mut Socket, lab: &mut Lab, addr: SocketAddr) -> Answer {
    Ok(Outcome::Done(socket.bind(lab, addr).map(Value::Number)))
}

fn accept(call: &Syscall, socket: &Socket, lab: &mut Lab, is_linux: bool) -> Answer {
    let (socket, remote) = match socket.accept(lab) {
        Outcome::Done(Ok(accepted)) => accepted,
        Outcome::Done(Err(errno)) => return Ok(Outcome::Done(Err(errno))),
        Outcome::Waits => return Ok(Outcome::Waits),
    };
    is_address(arg(call, 1)?, remote)?;
    let mut socket = socket;
    // What a listener does not wait for, its connections do not either; but on Linux.
    socket.is_nonblocking &= !is_linux;
    if call.call.value == Call::Accept4 {
        socket.is_nonblocking = expr::has(arg(call, 3)?, "SOCK_NONBLOCK");
    }
    Ok(Outcome::Done(Ok(Value::Socket(Box::new(socket), Some(remote)))))
}

/// Holds an address to what the script says of it.
fn is_address(expr: &Expr, came: SocketAddr) -> Result<(), String> {
    match expr::is_open(expr) || expr::address(expr)? == came {
        true => Ok(()),
        false => Err(format!("address {came} came, not {expr}")),
    }
}

fn name_of(call: &Syscall, socket: &Socket, lab: &mut Lab, is_peer: bool) -> Answer {
    let ends = socket.look_at(lab, |ends, _| (ends.local(), ends.remote()));
    let addr = match (ends, is_peer) {
        (Some((_, remote)), true) => remote,
        (None, true) => return failed("ENOTCONN"),
        (Some((local, _)), false) => local,
        (None, false) => socket.bound.ok_or("the socket has no name yet")?,
    };
    is_address(arg(call, 1)?, addr)?;
    done(0)
}

fn receive(call: &Syscall, socket: &mut Socket, lab: &mut Lab) -> Answer {
    if is_nowhere(call) {
        return failed("EFAULT");
    }
    let len = usize::try_from(expr::number(arg(call, 2)?)?).unwrap_or(0);
    let flags = call.args.get(3);
    let has = |name| flags.is_some_and(|flags| expr::has(flags, name));
    let received =
        if has("MSG_OOB") { socket.receive_urgent(lab) } else { socket.receive(lab, len, has("MSG_PEEK")) };
    let bytes = match received {
        Outcome::Done(Ok(bytes)) => bytes,
        Outcome::Done(Err(errno)) => return Ok(Outcome::Done(Err(errno))),
        Outcome::Waits if has("MSG_DONTWAIT") => return failed("EWOULDBLOCK"),
        Outcome::Waits => return Ok(Outcome::Waits),
    };
    if let ExprKind::Text { bytes: expected, more } = &arg(call, 1)?.kind {
        let is_so = if *more { bytes.starts_with(expected) } else { bytes == *expected };
        if !is_so {
            return Err(format!("{} came, not {}", bytes.escape_ascii(), expected.escape_ascii()));
        }
    }
    let reading = match (has("MSG_OOB"), has("MSG_PEEK"), socket.is_urgent_inline()) {
        (true, ..) => Reading::Urgent,
        (false, true, true) => Reading::PeekInline,
        (false, true, false) => Reading::Peek,
        (false, false, true) => Reading::Inline,
        (false, false, false) => Reading::Stream,
    };
    Ok(Outcome::Done(Ok(Value::Bytes(bytes, reading))))
}

/// Returns the bytes that a call sends; the first byte has this position in its stream.
pub(super) fn outgoing(call: &Syscall, position: u32) -> Result<Vec<u8>, String> {
    if call.call.value != Call::Sendmsg {
        return piece(arg(call, 1)?, arg(call, 2)?, position);
    }
    let pieces =
        expr::structure(arg(call, 1)?, StructKind::MsgHdr).and_then(|message| message.field("msg_iov"));
    let Some(Expr { kind: ExprKind::Array(pieces), .. }) = pieces else {
        return Err("sendmsg needs a list of pieces".to_owned());
    };
    let mut bytes = Vec::new();
    for expr in pieces {
        let ExprKind::Tuple(place) = &expr.kind else {
            return Err("a piece has a place and a length".to_owned());
        };
        let [place, len] = &place[..] else { return Err("a piece has a place and a length".to_owned()) };
        let before = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes.extend(piece(place, len, position.wrapping_add(before))?);
    }
    Ok(bytes)
}

/// The contents of a place in memory: what the script says, and behind it what belongs in that position of the stream.
fn piece(place: &Expr, len: &Expr, position: u32) -> Result<Vec<u8>, String> {
    let len = usize::try_from(expr::number(len)?).unwrap_or(0);
    let mut bytes = Stream::FromHost.bytes(position, len);
    if let ExprKind::Text { bytes: said, .. } = &place.kind {
        bytes.iter_mut().zip(said).for_each(|(byte, said)| *byte = *said);
    }
    Ok(bytes)
}

/// Whether a call names memory that is none.
fn is_nowhere(call: &Syscall) -> bool {
    call.args.get(1).is_some_and(|place| expr::has(place, "NULL"))
}

pub(super) fn send(call: &Syscall, socket: &mut Socket, asked: Asked<'_>, lab: &mut Lab) -> Answer {
    if is_nowhere(call) {
        return failed("EFAULT");
    }
    let bytes = outgoing(call, asked.position)?;
    let flags = flags(call);
    let has = |name| flags.is_some_and(|flags| expr::has(flags, name));
    let how = Sending { waits: !has("MSG_DONTWAIT"), is_urgent: has("MSG_OOB"), says_more: has("MSG_MORE") };
    Ok(counted(socket.send_all(lab, &bytes, asked.moved, how)))
}

fn fcntl(call: &Syscall, socket: &mut Socket) -> Answer {
    let flag = |name| expr::constant(name).unwrap_or(0);
    match expr::name(arg(call, 1)?) {
        Some("F_GETFL") => done(flag("O_RDWR") | if socket.is_nonblocking { flag("O_NONBLOCK") } else { 0 }),
        Some("F_SETFL") => {
            socket.is_nonblocking = expr::number(arg(call, 2)?)? & flag("O_NONBLOCK") != 0;
            done(0)
        }
        Some("F_GETFD" | "F_SETFD") => done(0),
        _ => Err(format!("{} is not known here", arg(call, 1)?)),
    }
}

fn ioctl(call: &Syscall, socket: &mut Socket, lab: &mut Lab) -> Answer {
    let value = arg(call, 2)?;
    match expr::name(arg(call, 1)?) {
        Some("FIONREAD" | "SIOCINQ") => {
            let waiting = socket.look_at(lab, |_, tcb| tcb.readable()).unwrap_or(0);
            let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
            match expr::is_open(value) || expr::number(value)? == waiting {
                true => done(0),
                false => Err(format!("[{waiting}] came, not {value}")),
            }
        }
        Some("SIOCATMARK") => {
            let is_at_mark = socket.look_at(lab, |_, tcb| tcb.is_at_mark()).unwrap_or(false);
            match expr::is_open(value) || expr::number(value)? == i64::from(is_at_mark) {
                true => done(0),
                false => Err(format!("[{}] came, not {value}", i64::from(is_at_mark))),
            }
        }
        Some("FIONBIO") => {
            socket.is_nonblocking = expr::number(value)? != 0;
            done(0)
        }
        _ => Err(format!("{} is not known here", arg(call, 1)?)),
    }
}

/// `poll([{fd=3, events=POLLIN, revents=POLLIN}], 1, 0)`; waits no longer than it says, in milliseconds.
fn poll(args: &[Expr], waited: Duration, program: &Program, lab: &mut Lab) -> Answer {
    let [Expr { kind: ExprKind::Array(list), .. }, _, timeout] = args else {
        return Err("poll needs a list, its length and how long it waits".to_owned());
    };
    let mut came = Vec::new();
    for item in list {
        let item = expr::structure(item, StructKind::PollFd).ok_or("poll needs descriptors and events")?;
        let field = |name| item.field(name).map_or(Ok(0), expr::number);
        let events = happened(program.sockets.get(&field("fd")?), lab);
        let always = ["POLLERR", "POLLHUP", "POLLNVAL"].iter().filter_map(|name| expr::constant(name));
        let events = events & (field("events")? | always.sum::<i64>());
        came.push((events, item.field("revents")));
    }
    let count = came.iter().filter(|(events, _)| *events != 0).count();
    let timeout = expr::number(timeout)?;
    let is_over = u64::try_from(timeout).is_ok_and(|timeout| waited >= Duration::from_millis(timeout));
    if count == 0 && !is_over {
        return Ok(Outcome::Waits);
    }
    for (events, expected) in came {
        if let Some(expected) = expected.filter(|expected| !expr::is_open(expected))
            && expr::number(expected)? != events
        {
            return Err(format!("revents={events:#x} came, not {expected}"));
        }
    }
    done(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Returns the events of a socket, as bits of `poll`.
fn happened(socket: Option<&Socket>, lab: &mut Lab) -> i64 {
    let bit = |name| expr::constant(name).unwrap_or(0);
    let Some(socket) = socket else { return bit("POLLNVAL") };
    let Some(ready) = socket.ready(lab) else { return 0 };
    let read = if ready.readable { bit("POLLIN") | bit("POLLRDNORM") } else { 0 };
    let write = if ready.writable { bit("POLLOUT") } else { 0 };
    let failed = if socket.has_failed(lab) { bit("POLLERR") } else { 0 };
    let over = match (socket.is_read_out(lab), socket.state(lab)) {
        (_, Some(State::Closed)) => bit("POLLRDHUP") | bit("POLLHUP"),
        (true, _) => bit("POLLRDHUP"),
        (false, _) => 0,
    };
    read | write | failed | over
}
