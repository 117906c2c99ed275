//! System calls about sockets that a supervisor answers, as Linux numbers them.

use core::ffi::c_int;

use crate::options::SO_BINDTOIFINDEX;

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
    /// `sendto(2)`
    SendTo,
    /// `recvfrom(2)`
    ReceiveFrom,
    /// `sendmsg(2)`
    SendMessage,
    /// `recvmsg(2)`
    ReceiveMessage,
    /// `sendmmsg(2)`
    SendMessages,
    /// `recvmmsg(2)`
    ReceiveMessages,
}

const KINDS: [(i64, Kind); 15] = [
    (libc::SYS_bind, Kind::Bind),
    (libc::SYS_connect, Kind::Connect),
    (libc::SYS_listen, Kind::Listen),
    (libc::SYS_accept, Kind::Accept),
    (libc::SYS_accept4, Kind::Accept4),
    (libc::SYS_getsockname, Kind::Local),
    (libc::SYS_getpeername, Kind::Remote),
    (libc::SYS_setsockopt, Kind::SetOption),
    (libc::SYS_getsockopt, Kind::GetOption),
    (libc::SYS_sendto, Kind::SendTo),
    (libc::SYS_recvfrom, Kind::ReceiveFrom),
    (libc::SYS_sendmsg, Kind::SendMessage),
    (libc::SYS_recvmsg, Kind::ReceiveMessage),
    (libc::SYS_sendmmsg, Kind::SendMessages),
    (libc::SYS_recvmmsg, Kind::ReceiveMessages),
];

/// Where `sendto` and `recvfrom` have an address: without one they are `send` and `recv`.
const ADDRESS_AT: u8 = 4;

/// Levels of which all options are answered.
const LEVELS: [c_int; 3] = [libc::IPPROTO_TCP, libc::IPPROTO_IP, libc::IPPROTO_IPV6];

/// Options of all sockets that are set otherwise than the kernel would at a Unix socket.
const SET: [c_int; 8] = [
    libc::SO_REUSEPORT,
    libc::SO_KEEPALIVE,
    libc::SO_LINGER,
    libc::SO_SNDBUF,
    libc::SO_RCVBUF,
    libc::SO_BROADCAST,
    libc::SO_BINDTODEVICE,
    SO_BINDTOIFINDEX,
];

/// Options of all sockets that are read otherwise.
const GET: [c_int; 8] = [
    libc::SO_TYPE,
    libc::SO_PROTOCOL,
    libc::SO_DOMAIN,
    libc::SO_ERROR,
    libc::SO_ACCEPTCONN,
    libc::SO_REUSEPORT,
    libc::SO_BINDTODEVICE,
    SO_BINDTOIFINDEX,
];

impl Kind {
    /// Returns the call of this number; `None` if it is another.
    #[must_use]
    pub fn of(number: i64) -> Option<Self> {
        KINDS.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind)
    }

    /// Whether it sends or receives messages that may have addresses.
    #[must_use]
    pub const fn is_about_messages(self) -> bool {
        matches!(
            self,
            Self::SendTo
                | Self::ReceiveFrom
                | Self::SendMessage
                | Self::ReceiveMessage
                | Self::SendMessages
                | Self::ReceiveMessages
        )
    }
}

/// A system call that is answered.
#[derive(Clone, Copy, Debug)]
pub struct Trapped {
    /// Its number.
    pub call: i64,
    /// Arguments by their place, with the values that they have.
    pub when: [Option<(u8, u32)>; 2],
    /// An argument that is not 0.
    pub is_set: Option<u8>,
}

/// Returns the calls that are answered.
pub fn all() -> impl Iterator<Item = Trapped> {
    KINDS.iter().flat_map(|(number, kind)| {
        let call = *number;
        let special: &[c_int] = match kind {
            Kind::SetOption => &SET,
            Kind::GetOption => &GET,
            Kind::SendTo | Kind::ReceiveFrom => {
                return vec![Trapped { call, when: [None; 2], is_set: Some(ADDRESS_AT) }];
            }
            _ => return vec![Trapped { call, when: [None; 2], is_set: None }],
        };
        let level = |level: c_int| Some((1, level.cast_unsigned()));
        let levels = LEVELS.iter().map(|of| [level(*of), None]);
        let special =
            special.iter().map(|option| [level(libc::SOL_SOCKET), Some((2, option.cast_unsigned()))]);
        levels.chain(special).map(|when| Trapped { call, when, is_set: None }).collect()
    })
}
