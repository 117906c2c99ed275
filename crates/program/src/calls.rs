//! System calls about sockets that a supervisor answers, as Linux numbers them.

use core::ffi::c_int;

/// A call that names an address or an option of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `bind(2)`
    Bind,
    /// `connect(2)`
    Connect,
    /// `listen(2)`
    Listen,
    /// `accept(2)`
    Accept,
    /// `accept4(2)`
    Accept4,
    /// `getsockname(2)`
    Local,
    /// `getpeername(2)`
    Remote,
    /// `setsockopt(2)`
    SetOption,
    /// `getsockopt(2)`
    GetOption,
}

const KINDS: [(i64, Kind); 9] = [
    (libc::SYS_bind, Kind::Bind),
    (libc::SYS_connect, Kind::Connect),
    (libc::SYS_listen, Kind::Listen),
    (libc::SYS_accept, Kind::Accept),
    (libc::SYS_accept4, Kind::Accept4),
    (libc::SYS_getsockname, Kind::Local),
    (libc::SYS_getpeername, Kind::Remote),
    (libc::SYS_setsockopt, Kind::SetOption),
    (libc::SYS_getsockopt, Kind::GetOption),
];

/// Levels of which all options are answered.
const LEVELS: [c_int; 3] = [libc::IPPROTO_TCP, libc::IPPROTO_IP, libc::IPPROTO_IPV6];

/// Options of all sockets that are set otherwise than the kernel would at a Unix socket.
const SET: [c_int; 7] = [
    libc::SO_REUSEPORT,
    libc::SO_KEEPALIVE,
    libc::SO_LINGER,
    libc::SO_SNDBUF,
    libc::SO_RCVBUF,
    libc::SO_BROADCAST,
    libc::SO_BINDTODEVICE,
];

/// Options of all sockets that are read otherwise.
const GET: [c_int; 6] = [
    libc::SO_TYPE,
    libc::SO_PROTOCOL,
    libc::SO_DOMAIN,
    libc::SO_ERROR,
    libc::SO_ACCEPTCONN,
    libc::SO_REUSEPORT,
];

impl Kind {
    /// Returns the call of this number; `None` if it is another.
    #[must_use]
    pub fn of(number: i64) -> Option<Self> {
        KINDS.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind)
    }
}

/// Returns the calls that are answered: their numbers, and values that arguments have.
pub fn all() -> impl Iterator<Item = (i64, [Option<(u8, u32)>; 2])> {
    KINDS.iter().flat_map(|(number, kind)| {
        let special: &[c_int] = match kind {
            Kind::SetOption => &SET,
            Kind::GetOption => &GET,
            _ => return vec![(*number, [None; 2])],
        };
        let level = |level: c_int| Some((1, level.cast_unsigned()));
        let levels = LEVELS.iter().map(|of| (*number, [level(*of), None]));
        let special = special
            .iter()
            .map(|option| (*number, [level(libc::SOL_SOCKET), Some((2, option.cast_unsigned()))]));
        levels.chain(special).collect()
    })
}
