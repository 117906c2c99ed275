//! Socket options.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;

use net::channel::Setting;

use super::error;
use super::listener::{AHEAD, Place};

/// Limits of the kernel's sockets for keepalive.
const KEEP_MAX_MS: u32 = 32_767_000;
const KEEP_COUNT_MAX: u32 = 127;

/// Options of a new socket; missing ones are the stack's sysctl values.
///
/// ```
/// use pantala::sockets::Options;
/// let options = Options::new().nodelay(true).ttl(3).backlog(16);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is to be given to a socket"]
pub struct Options {
    settings: Vec<Setting>,
    pub(super) local: Option<SocketAddr>,
    only_v6: bool,
    is_shared: bool,
    backlog: Option<u32>,
    ahead: u32,
}

/// When a silent peer is asked whether it is there. No time, no question, or more than the kernel's sockets take (32,767 seconds,
/// 127 questions) is `InvalidInput` where it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// After how long a silence; a second at the least.
    pub idle: Duration,
    /// Interval of probes; a second at the least.
    pub interval: Duration,
    /// Number of unanswered probes.
    pub count: u8,
}

impl Default for Options {
    fn default() -> Self {
        // As long a queue as std::net asks for.
        Self {
            settings: Vec::new(),
            local: None,
            only_v6: false,
            is_shared: false,
            backlog: Some(128),
            ahead: AHEAD,
        }
    }
}

impl Options {
    /// Nothing is said.
    pub fn new() -> Self {
        Self::default()
    }

    /// From which address, and port unless it is 0, a connection begins.
    pub fn local(mut self, addr: SocketAddr) -> Self {
        self.local = Some(addr);
        self
    }

    /// A listener at the unspecified IPv6 address takes no IPv4 connections (`IPV6_V6ONLY`).
    pub fn only_v6(mut self, only: bool) -> Self {
        self.only_v6 = only;
        self
    }

    /// Others may listen at the same place, and share what comes (`SO_REUSEPORT`).
    pub fn reuse_port(mut self, reuse: bool) -> Self {
        self.is_shared = reuse;
        self
    }

    /// Connections that may wait at a listener, on each CPU, besides those that its program has been handed.
    pub fn backlog(mut self, count: u32) -> Self {
        self.backlog = Some(count);
        self
    }

    /// A listener takes its place, and no connections before it is opened.
    #[cfg(feature = "cli")]
    pub(crate) fn closed(mut self) -> Self {
        self.backlog = None;
        self
    }

    /// Connections that a listener's program is handed before it accepts them, from each CPU: at least 1, as a rule 32. A program
    /// that accepts all that wait before it serves any has an even latency only if they are few.
    pub fn accept_ahead(mut self, count: u32) -> Self {
        self.ahead = count;
        self
    }

    /// Lets a number of connections of a listener, on each CPU, carry data in their SYN and be accepted before they are established, from
    /// clients that have proved their address before (RFC 7413, `TCP_FASTOPEN`). The data may come twice: this is for programs
    /// to which that does no harm.
    pub fn fast_open(self, count: u32) -> Self {
        self.with([Setting::FastOpens(count)])
    }

    /// Short segments do not wait for an acknowledgment (`TCP_NODELAY`).
    pub fn nodelay(self, nodelay: bool) -> Self {
        self.with([Setting::NoDelay(nodelay)])
    }

    /// A silent peer is asked whether it is there (`SO_KEEPALIVE`).
    pub fn keepalive(self, keepalive: Option<KeepAlive>) -> Self {
        self.with(keep(keepalive))
    }

    /// Sets the time after which unacknowledged data ends the connection (`TCP_USER_TIMEOUT`).
    pub fn user_timeout(self, timeout: Option<Duration>) -> Self {
        self.with([Setting::UserTimeout(timeout.map_or(0, |timeout| ms(timeout).max(1)))])
    }

    /// The other end is told how long that is, and may change it unless it was set here (RFC 5482; `TCP_UTO_ENABLE`).
    pub fn tell_user_timeout(self, tells: bool) -> Self {
        self.with([Setting::TellsUserTimeout(tells)])
    }

    /// The other end is told this instead (`TCP_UTO_ADVERTISE`).
    pub fn told_user_timeout(self, told: Option<Duration>) -> Self {
        self.with([Setting::ToldUserTimeout(told.map_or(0, |told| ms(told).max(1)))])
    }

    /// Whether the other end may change how long is waited here (`TCP_UTO_CHANGEABLE`); to be said behind
    /// [`Self::user_timeout`], which it follows from if it is not said.
    pub fn changeable_user_timeout(self, is_changeable: bool) -> Self {
        self.with([Setting::YieldsUserTimeout(is_changeable)])
    }

    /// Bytes that may wait to be acknowledged, besides those in the socket's ring (`SO_SNDBUF`).
    pub fn send_buffer_size(self, bytes: u32) -> Self {
        self.with([Setting::SendBuffer(bytes)])
    }

    /// Bytes that may wait to be read, besides those in the socket's ring (`SO_RCVBUF`).
    pub fn recv_buffer_size(self, bytes: u32) -> Self {
        self.with([Setting::ReceiveBuffer(bytes)])
    }

    /// Time to live, or hop limit, of what is sent (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    pub fn ttl(self, ttl: u8) -> Self {
        self.with([Setting::Hops(ttl.into())])
    }

    /// Type of service, or traffic class, of what is sent (`IP_TOS`, `IPV6_TCLASS`).
    pub fn tos(self, tos: u8) -> Self {
        self.with([Setting::Class(tos.into())])
    }

    /// Routing table of what is sent (`SO_SETFIB`), 0 if it is not given. Connections that are accepted have the table that their SYN was
    /// routed by. If there is no such table, `connect` and a socket of datagrams that sends fail with `InvalidInput` (`EINVAL`).
    pub fn fib(self, fib: u8) -> Self {
        self.with([Setting::Fib(fib.into())])
    }

    /// The address that a socket is bound to need not be one of the stack (`IP_BINDANY`, `IPV6_BINDANY`). What is for it arrives if a rule
    /// says so: `fwd` with an own address. So a proxy can have the addresses of those it stands between.
    pub fn bind_any(self, any: bool) -> Self {
        self.with([Setting::BindAny(any)])
    }

    pub(crate) fn with(mut self, settings: impl IntoIterator<Item = Setting>) -> Self {
        self.settings.extend(settings);
        self
    }

    /// Returns the settings of a socket that is bound, or connected, to this address.
    ///
    /// # Errors
    ///
    /// `InvalidInput` of what a socket cannot do.
    pub(super) fn settings(&self, addr: SocketAddr) -> io::Result<&[Setting]> {
        check(&self.settings, addr).map(|()| self.settings.as_slice())
    }

    pub(super) const fn place(&self, addr: SocketAddr) -> Place {
        let &Self { only_v6, is_shared, backlog, ahead, .. } = self;
        Place { addr, only_v6, is_shared, backlog, ahead }
    }
}

/// Whether a socket with this address can do that: what the kernel's refuse these do, too.
pub(super) fn check(settings: &[Setting], addr: SocketAddr) -> io::Result<()> {
    let is_wrong = |setting: &Setting| match *setting {
        Setting::Hops(hops) => hops == 0 && addr.is_ipv4(),
        Setting::Fib(fib) => fib >= net::fib::FIBS_MAX.into(),
        Setting::KeepIdle(ms) | Setting::KeepInterval(ms) => !(1..=KEEP_MAX_MS).contains(&ms),
        Setting::KeepCount(count) => !(1..=KEEP_COUNT_MAX).contains(&count),
        _ => false,
    };
    match settings.iter().any(is_wrong) {
        true => Err(error::of(net::sock::Error::BadAddress)),
        false => Ok(()),
    }
}

/// Returns the settings of keepalive, or of none.
pub(super) fn keep(keepalive: Option<KeepAlive>) -> Vec<Setting> {
    let Some(KeepAlive { idle, interval, count }) = keepalive else {
        return vec![Setting::KeepAlive(false)];
    };
    let when = [Setting::KeepIdle(ms(idle)), Setting::KeepInterval(ms(interval))];
    when.into_iter().chain([Setting::KeepCount(count.into()), Setting::KeepAlive(true)]).collect()
}

/// Converts a number that one byte holds.
pub(super) fn byte(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
