//! System calls: what a program asks, and what it must be told.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use crate::script::{At, Pos};
use crate::symbol::Symbol;

/// A call, its arguments, and what it must return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// When it must return, if it blocks, counted from where the event's own time is counted from.
    pub end: Option<At<Duration>>,
    /// Which call.
    pub call: At<Call>,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// The expected result.
    pub result: Expr,
    /// The error that must be set.
    pub errno: Option<At<Errno>>,
    /// A text in parentheses behind a result without error; it demands nothing.
    pub note: Option<String>,
}

/// An error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errno {
    /// Which.
    pub symbol: Symbol,
    /// The text in parentheses, as strerror(3) has it; it demands nothing.
    pub text: String,
}

macro_rules! calls {
    ($($variant:ident $name:literal,)*) => {
        /// A system call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Call {
            /// All, with their names.
            pub const NAMES: &[(&'static str, Self)] = &[$(($name, Self::$variant),)*];

            /// As scripts write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

calls! {
    Socket "socket",
    Bind "bind",
    Listen "listen",
    Accept "accept",
    Accept4 "accept4",
    Connect "connect",
    Read "read",
    Readv "readv",
    Recv "recv",
    Recvfrom "recvfrom",
    Recvmsg "recvmsg",
    Recvmmsg "recvmmsg",
    Write "write",
    Writev "writev",
    Send "send",
    Sendto "sendto",
    Sendmsg "sendmsg",
    Sendmmsg "sendmmsg",
    Sendfile "sendfile",
    Splice "splice",
    Pipe "pipe",
    Pipe2 "pipe2",
    Open "open",
    Close "close",
    Shutdown "shutdown",
    Fcntl "fcntl",
    Ioctl "ioctl",
    Getsockopt "getsockopt",
    Setsockopt "setsockopt",
    Getsockname "getsockname",
    Getpeername "getpeername",
    Poll "poll",
    EpollCreate "epoll_create",
    EpollCreate1 "epoll_create1",
    EpollCtl "epoll_ctl",
    EpollWait "epoll_wait",
    CapSet "cap_set",
}

/// An argument, or what a call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// Where it begins.
    pub pos: Pos,
    /// Its kind.
    pub kind: ExprKind,
}

impl Expr {
    /// Calls `see` with this expression and all that lie in it, from left to right.
    pub fn walk(&self, see: &mut dyn FnMut(&Self)) {
        see(self);
        match &self.kind {
            ExprKind::Or(list) | ExprKind::Array(list) | ExprKind::Tuple(list) => {
                list.iter().for_each(|item| item.walk(see));
            }
            ExprKind::Struct(structure) => {
                for field in &structure.fields {
                    field.len.iter().for_each(|len| len.walk(see));
                    field.value.walk(see);
                }
            }
            ExprKind::Attribute(_, value) => value.walk(see),
            _ => {}
        }
    }

    /// As [`Expr::walk`]; `change` may change what it sees, and sees what lies in what it has made of it.
    pub fn walk_mut(&mut self, change: &mut dyn FnMut(&mut Self)) {
        change(self);
        match &mut self.kind {
            ExprKind::Or(list) | ExprKind::Array(list) | ExprKind::Tuple(list) => {
                list.iter_mut().for_each(|item| item.walk_mut(change));
            }
            ExprKind::Struct(structure) => {
                for field in &mut structure.fields {
                    field.len.iter_mut().for_each(|len| len.walk_mut(change));
                    field.value.walk_mut(change);
                }
            }
            ExprKind::Attribute(_, value) => value.walk_mut(change),
            _ => {}
        }
    }
}

/// Kinds of expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// `...`: whatever the interpreter likes, or whatever comes back.
    Ellipsis,
    /// A number.
    Integer(i64),
    /// A constant of the operating system.
    Symbol(Symbol),
    /// A name of `--define`.
    Name(String),
    /// A string; with `...` behind it, what comes back need only begin with it.
    Text {
        /// The bytes, escapes resolved.
        bytes: Vec<u8>,
        /// Whether `...` stands behind it.
        more: bool,
    },
    /// `A | B | C`; at least two.
    Or(Vec<Expr>),
    /// `[1, 2]`.
    Array(Vec<Expr>),
    /// `{..., 10}`: a structure without names of fields, such as an iovec.
    Tuple(Vec<Expr>),
    /// `{events=EPOLLIN, fd=4}`.
    Struct(Struct),
    /// `NAME = value`: an attribute of a list.
    Attribute(Symbol, Box<Expr>),
    /// `htons(8080)`: a port.
    Htons(u16),
    /// `htonl(1)`.
    Htonl(u32),
    /// `inet_addr("192.0.2.1")`.
    InetAddr(Ipv4Addr),
    /// `inet6_addr("2001:db8::1")`.
    Inet6Addr(Ipv6Addr),
}

/// A structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Which.
    pub kind: StructKind,
    /// Its fields, in the order of the text.
    pub fields: Vec<Field>,
}

impl Struct {
    /// The value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Expr> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Where its name stands.
    pub pos: Pos,
    /// Its name.
    pub name: &'static str,
    /// `msg_iov(2)=…`: the length that goes with it.
    pub len: Option<Expr>,
    /// Its value.
    pub value: Expr,
}

/// Structures that scripts know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructKind {
    /// `struct sockaddr_in` or `sockaddr_in6`.
    SockAddr,
    /// `struct msghdr`.
    MsgHdr,
    /// `struct cmsghdr` and its data.
    CMsg,
    /// `struct iovec`.
    IoVec,
    /// `struct pollfd`.
    PollFd,
    /// `struct epoll_event`.
    EpollEvent,
    /// `struct linger`.
    Linger,
    /// `struct scm_timestamping`.
    Timestamping,
    /// `struct sock_extended_err`.
    ExtendedErr,
    /// `struct tcp_info`.
    TcpInfo,
}

impl StructKind {
    /// All, with the names of their fields; the first one tells which it is.
    pub const FIELDS: &[(Self, &[&'static str])] = &[
        (Self::SockAddr, &["sa_family", "sin_port", "sin_addr", "sin6_port", "sin6_addr"]),
        (Self::MsgHdr, &["msg_name", "msg_iov", "msg_flags", "msg_control"]),
        (Self::CMsg, &["cmsg_level", "cmsg_type", "cmsg_data", "cmsg_len"]),
        (Self::IoVec, &["iov_base", "iov_len"]),
        (Self::PollFd, &["fd", "events", "revents"]),
        (Self::EpollEvent, &["events", "fd", "ptr", "u32", "u64"]),
        (Self::Linger, &["onoff", "linger"]),
        (Self::Timestamping, &["scm_sec", "scm_nsec"]),
        (Self::ExtendedErr, &["ee_errno", "ee_origin", "ee_type", "ee_code", "ee_info", "ee_data"]),
        (Self::TcpInfo, crate::code::TCP_INFO),
    ];
}
