//! Requests to the daemon, each on a connection of its own: so there is no descriptor that a program could close, no lock
//! that a `fork` could leave held, and nothing to share between threads.

use core::mem::MaybeUninit;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use wire::program::{
    Group, INFO_LEN, Options, PAGE_LEN, QUOTE_MAX, REPLY_LEN, REPORT_LEN, REQUEST_LEN, Reply, Report,
    Request, SENDERS_LEN, SockOpt, emit_senders, parse_senders, set_thread,
};

use crate::interfaces;

/// Settings of `pantala run`.
struct Environment {
    socket: Option<SocketAddrUnix>,
    only: Vec<(IpAddr, u8)>,
    fib: Option<u8>,
}

static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Sets where the daemon serves programs, the addresses that may be pantala's, and the routing table of sockets, in place of the
/// environment's; before the first request.
///
/// # Errors
/// The path is too long for a Unix socket's.
pub fn set_environment(socket: &Path, only: Vec<(IpAddr, u8)>, fib: Option<u8>) -> Result<(), Errno> {
    let socket = Some(SocketAddrUnix::new(socket)?);
    ENVIRONMENT.set(Environment { socket, only, fib }).map_err(|_| Errno::ALREADY)
}

/// The thread of another process that requests are made for.
static CALLER: AtomicU32 = AtomicU32::new(0);
/// Requests are made for other processes, on a connection that is kept.
static KEEPS: AtomicBool = AtomicBool::new(false);
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);
/// Replies that nothing has waited for, at the most.
const UNREAD_MAX: usize = 32;

/// Sets the thread of another process that the following requests are made for, so that its sockets bear its name. A process that
/// does this forks no other that makes requests: its requests share a connection.
pub fn set_caller(thread: u32) {
    CALLER.store(thread, Ordering::Relaxed);
    KEEPS.store(true, Ordering::Relaxed);
}

fn environment() -> &'static Environment {
    ENVIRONMENT.get_or_init(|| {
        let socket = std::env::var_os("PANTALA_APP_SOCKET").and_then(|path| SocketAddrUnix::new(path).ok());
        let only = std::env::var("PANTALA_ONLY").unwrap_or_default();
        let fib = std::env::var("PANTALA_FIB").ok().and_then(|text| text.parse().ok());
        Environment { socket, only: only.split(',').filter_map(prefix).collect(), fib }
    })
}

/// The options that each socket begins with.
pub fn first_options() -> Options {
    let mut options = Options::default();
    if let Some(fib) = environment().fib {
        options.set(SockOpt::Fib, fib.into());
    }
    options
}

fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    Some((ip.parse().ok()?, bits.parse().ok()?))
}

/// Whether an address may be pantala's. Loopback is the kernel's, and with `--only` all that is not in the prefixes.
pub fn may_be_ours(at: SocketAddr) -> bool {
    let (environment, ip) = (environment(), at.ip().to_canonical());
    let is_named = environment.only.is_empty()
        || ip.is_unspecified()
        || environment.only.iter().any(|net| holds(*net, ip));
    environment.socket.is_some() && !ip.is_loopback() && is_named
}

fn holds((net, bits): (IpAddr, u8), ip: IpAddr) -> bool {
    let (net, ip, width) = match (net, ip) {
        (IpAddr::V4(net), IpAddr::V4(ip)) => (u128::from(u32::from(net)), u128::from(u32::from(ip)), 32),
        (IpAddr::V6(net), IpAddr::V6(ip)) => (u128::from(net), u128::from(ip), 128),
        _ => return false,
    };
    let host = width - u32::from(bits).min(width);
    host >= 128 || net >> host == ip >> host
}

/// The daemon's answer to a request.
pub struct Answer {
    /// An address, where one was asked for.
    pub addr: SocketAddr,
    /// A value, where one was asked for.
    pub value: i32,
    /// A socket. It is closed on `exec`.
    pub descriptor: Option<OwnedFd>,
}

/// Asks the daemon.
///
/// # Errors
/// The daemon's, or `ENETDOWN` if it is not there.
pub fn ask(request: &Request) -> Result<Answer, Errno> {
    ask_with(request, &[], &mut [])
}

/// Asks the daemon for `TCP_INFO`.
///
/// # Errors
/// As of [`ask`].
pub fn ask_info(id: u64) -> Result<[u8; INFO_LEN], Errno> {
    let mut info = [0; INFO_LEN];
    ask_with(&Request::Info(id), &[], &mut info)?;
    Ok(info)
}

/// Bytes behind a reply at the most.
const BEHIND_MAX: usize = REPORT_LEN + QUOTE_MAX;
const _: () = assert!(SENDERS_LEN <= BEHIND_MAX && INFO_LEN <= BEHIND_MAX && PAGE_LEN <= BEHIND_MAX);

/// The report of a datagram that did not arrive, and its bytes as far as an ICMP error quotes them.
pub struct Undelivered {
    /// The report.
    pub report: Report,
    quote: [u8; QUOTE_MAX],
    len: usize,
}

impl Undelivered {
    /// Returns the bytes of the datagram.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.quote.get(..self.len).unwrap_or(&self.quote)
    }
}

/// Takes the first of the queue of errors of a socket of datagrams.
///
/// # Errors
/// As of [`ask`]; `EAGAIN` if there is none.
pub fn ask_report(id: u64) -> Result<Undelivered, Errno> {
    let mut bytes = [0; BEHIND_MAX];
    let answer = ask_with(&Request::Report(id), &[], &mut bytes)?;
    let (report, quote) = bytes.split_first_chunk().ok_or(Errno::AGAIN)?;
    let report = Report::parse(report).ok_or(Errno::AGAIN)?;
    let quote = *quote.first_chunk().ok_or(Errno::AGAIN)?;
    Ok(Undelivered { report, quote, len: usize::try_from(answer.value).unwrap_or(0) })
}

/// Sets the source filter of a group.
///
/// # Errors
/// As of [`ask`]; `ENOBUFS` for too many senders.
pub fn set_filter(id: u64, group: Group, excludes: bool, senders: &[IpAddr]) -> Result<(), Errno> {
    let count = u16::try_from(senders.len()).map_err(|_| Errno::NOBUFS)?;
    let request = Request::SetFilter { id, group, excludes, count };
    ask_with(&request, &emit_senders(senders), &mut []).map(drop)
}

/// Asks for the source filter of a group: whether its senders are excluded, and these.
///
/// # Errors
/// As of [`ask`]; `EADDRNOTAVAIL` of a group that it does not listen to.
pub fn ask_filter(id: u64, group: Group) -> Result<(bool, Vec<IpAddr>), Errno> {
    let mut senders = [0; SENDERS_LEN];
    let value = ask_with(&Request::Filter { id, group }, &[], &mut senders)?.value;
    let count = usize::try_from(value >> 1).unwrap_or(0);
    Ok((value & 1 == 1, parse_senders(&senders).take(count).collect()))
}

/// Asks for the list of interfaces and addresses from this place on.
///
/// # Errors
/// As of [`ask`].
pub(crate) fn ask_interfaces(from: u32) -> Result<interfaces::Page, Errno> {
    let mut page = [0; PAGE_LEN];
    let answer = ask_with(&Request::Interfaces(from), &[], &mut page)?;
    Ok((page, interfaces::count(answer.value)?))
}

/// Asks, with `behind` after the request, and fills `more` with what comes behind the reply.
fn ask_with(request: &Request, behind: &[u8], more: &mut [u8]) -> Result<Answer, Errno> {
    let mut asked = request.emit();
    let mut whole = [0; REQUEST_LEN + SENDERS_LEN];
    if !KEEPS.load(Ordering::Relaxed) {
        return ask_on(&open()?, joined(&mut whole, &asked, behind)?, more)?;
    }
    // The name of a process is looked up for new sockets alone.
    let is_new = matches!(
        request,
        Request::Bind { .. } | Request::Connect { .. } | Request::Rebind { .. } | Request::Disconnect(_)
    );
    if is_new {
        set_thread(&mut asked, CALLER.load(Ordering::Relaxed));
    }
    let asked = joined(&mut whole, &asked, behind)?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    // What was kept may be of a daemon that is gone.
    let earlier = kept.take().and_then(|mut own| {
        own.catch_up().ok()?;
        ask_on(&own.stream, asked, more).ok().map(|said| (own, said))
    });
    let (own, said) = match earlier {
        Some(done) => done,
        None => {
            let own = Kept { stream: open()?, unread: 0 };
            let said = ask_on(&own.stream, asked, more)?;
            (own, said)
        }
    };
    *kept = Some(own);
    said
}

/// Asks the daemon for what cannot fail but with the socket that it is about. A process whose requests share a connection does not
/// wait for the answer.
///
/// # Errors
/// As of [`ask`].
pub(crate) fn tell(request: &Request) -> Result<(), Errno> {
    if KEEPS.load(Ordering::Relaxed) && is_told(request) {
        return Ok(());
    }
    ask(request).map(drop)
}

/// Sends a request on the connection that is kept; false: there is none, or it is of no use any more.
fn is_told(request: &Request) -> bool {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let is_told = kept.as_mut().is_some_and(|own| own.tell(request).is_ok());
    if !is_told {
        *kept = None;
    }
    drop(kept);
    is_told
}

/// A connection to the daemon that requests share.
struct Kept {
    stream: OwnedFd,
    /// Replies that nothing has waited for.
    unread: usize,
}

impl Kept {
    fn tell(&mut self, request: &Request) -> Result<(), Errno> {
        if self.unread >= UNREAD_MAX {
            self.catch_up()?;
        }
        again(|| send(&self.stream, &request.emit(), SendFlags::NOSIGNAL)).map_err(|_| Errno::NETDOWN)?;
        self.unread += 1;
        Ok(())
    }

    /// Reads the replies that nothing has waited for.
    fn catch_up(&mut self) -> Result<(), Errno> {
        let mut bytes = [0; UNREAD_MAX * REPLY_LEN];
        let mut left = bytes.get_mut(..self.unread * REPLY_LEN).ok_or(Errno::INVAL)?;
        while !left.is_empty() {
            let (count, _) = again(|| receive(&self.stream, left, RecvFlags::CMSG_CLOEXEC))?;
            left = left.get_mut(count..).filter(|_| count > 0).ok_or(Errno::NETDOWN)?;
        }
        self.unread = 0;
        Ok(())
    }
}

/// Connects to the daemon.
fn open() -> Result<OwnedFd, Errno> {
    let socket = environment().socket.as_ref().ok_or(Errno::NETDOWN)?;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    again(|| connect(&stream, socket))
        .map_err(|why| if why == Errno::ACCESS { why } else { Errno::NETDOWN })?;
    Ok(stream)
}

/// A request, and what follows it.
fn joined<'a>(whole: &'a mut [u8], asked: &[u8], behind: &[u8]) -> Result<&'a [u8], Errno> {
    let place = whole.get_mut(..asked.len() + behind.len()).ok_or(Errno::INVAL)?;
    let (first, last) = place.split_at_mut(asked.len());
    first.copy_from_slice(asked);
    last.copy_from_slice(behind);
    Ok(place)
}

/// Asks on a connection to the daemon. The outer error is of the connection, which is of no use any more.
fn ask_on(stream: &OwnedFd, asked: &[u8], more: &mut [u8]) -> Result<Result<Answer, Errno>, Errno> {
    again(|| send(stream, asked, SendFlags::NOSIGNAL)).map_err(|_| Errno::NETDOWN)?;
    let mut bytes = [0; REPLY_LEN + BEHIND_MAX];
    let room = bytes.get_mut(..REPLY_LEN + more.len()).ok_or(Errno::INVAL)?;
    let (count, descriptor) =
        again(|| receive(stream, room, RecvFlags::CMSG_CLOEXEC)).map_err(|_| Errno::NETDOWN)?;
    let (reply, behind) = bytes.split_first_chunk().ok_or(Errno::NETDOWN)?;
    let reply = Reply::parse(reply).filter(|_| count >= REPLY_LEN).ok_or(Errno::NETDOWN)?;
    if reply.errno != 0 {
        return Ok(Err(Errno::from_raw_os_error(reply.errno)));
    }
    more.copy_from_slice(behind.get(..more.len()).ok_or(Errno::NETDOWN)?);
    Ok(Ok(Answer { addr: reply.addr, value: reply.value, descriptor }))
}

/// Receives a message, and the descriptor that comes with it.
pub(crate) fn receive(
    socket: impl std::os::fd::AsFd,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last();
        }
    }
    Ok((got.bytes, descriptor))
}

fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use wire::program::NO_ADDR;

    use super::*;

    #[test]
    fn replies_that_nothing_waits_for_are_bounded_and_are_no_answer_to_others() {
        let (own, mut daemon) = UnixStream::pair().unwrap();
        let mut own = Kept { stream: own.into(), unread: 0 };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut asked = [0; REQUEST_LEN];
                for value in 0.. {
                    if daemon.read_exact(&mut asked).is_err() {
                        return;
                    }
                    daemon.write_all(&Reply { errno: 0, addr: NO_ADDR, value }.emit()).unwrap();
                }
            });
            for _ in 0..100 {
                own.tell(&Request::Hello).unwrap();
                assert!(own.unread <= UNREAD_MAX);
            }
            own.catch_up().unwrap();
            let answer = ask_on(&own.stream, &Request::Hello.emit(), &mut []).unwrap().unwrap();
            assert_eq!((own.unread, answer.value), (0, 100));
            drop(own);
        });
    }

    #[test]
    fn a_prefix_holds_its_addresses_alone() {
        let held = |text: &str, ip: &str| holds(prefix(text).unwrap(), ip.parse().unwrap());
        assert!(held("192.0.2.0/24", "192.0.2.9") && !held("192.0.2.0/24", "192.0.3.9"));
        assert!(held("0.0.0.0/0", "192.0.2.9") && !held("0.0.0.0/0", "2001:db8::1"));
        assert!(held("2001:db8::/32", "2001:db8::1") && held("::/0", "2001:db8::1"));
        assert!(prefix("192.0.2.0").is_none());
    }
}
