//! Constants of operating systems, by name.
//!
//! Scripts are written for several systems, whose numbers differ, so a name stays a name. What it is a name of, the
//! table says.

/// A constant of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    name: &'static str,
    kind: Kind,
}

impl Symbol {
    /// The constant with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        TABLE.iter().find_map(|&(kind, names)| {
            names.iter().find(|known| **known == name).map(|&name| Self { name, kind })
        })
    }

    /// All constants of a kind.
    pub fn all_of(kind: Kind) -> impl Iterator<Item = Self> + Clone {
        let names = TABLE.iter().filter(move |(of, _)| *of == kind).flat_map(|(_, names)| *names);
        names.map(move |&name| Self { name, kind })
    }

    /// The names of all constants.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
        TABLE.iter().flat_map(|(_, names)| *names).copied()
    }

    /// As scripts write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the kind of thing it names.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// Whether it is a bit that others can be joined to with `|`.
    #[must_use]
    pub const fn is_flag(self) -> bool {
        use Kind::{Capability, Epoll, Message, Open, Poll, SocketFlag, Splice, Timestamping};
        matches!(self.kind, Open | Message | Poll | Epoll | SocketFlag | Timestamping | Splice | Capability)
    }
}

/// The kind of thing that a constant names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An error.
    Errno,
    /// A family of addresses.
    Family,
    /// A type of sockets.
    SocketType,
    /// A flag of socket(2) and accept4(2).
    SocketFlag,
    /// A protocol, or a level of options under the protocol's name.
    Protocol,
    /// A level of options.
    Level,
    /// An option of `SOL_SOCKET`.
    SocketOption,
    /// An option of `IPPROTO_TCP`.
    TcpOption,
    /// An option of `IPPROTO_UDP`.
    UdpOption,
    /// An option of `IPPROTO_IP`.
    IpOption,
    /// An option of `IPPROTO_IPV6`.
    Ipv6Option,
    /// A value of an option.
    OptionValue,
    /// A flag of open(2).
    Open,
    /// A command of fcntl(2), or its argument.
    Fcntl,
    /// Direction of shutdown(2).
    Shutdown,
    /// A flag of send(2), recv(2) and their like.
    Message,
    /// A request of ioctl(2).
    Ioctl,
    /// An event of poll(2).
    Poll,
    /// An event of epoll(7), or a flag of it.
    Epoll,
    /// A command of epoll_ctl(2).
    EpollCommand,
    /// A type of ancillary data, or what is in it.
    Ancillary,
    /// A flag of `SO_TIMESTAMPING`.
    Timestamping,
    /// An attribute of statistics that come with a time stamp.
    Statistic,
    /// A flag of splice(2).
    Splice,
    /// A capability.
    Capability,
    /// A state of congestion control.
    CaState,
}

#[rustfmt::skip]
const TABLE: &[(Kind, &[&str])] = &[
    (Kind::Errno, &[
        "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "EBADF", "EAGAIN", "EWOULDBLOCK", "ENOMEM",
        "EACCES", "EFAULT", "EBUSY", "EEXIST", "ENODEV", "EINVAL", "ENFILE", "EMFILE", "ENOTTY", "EFBIG", "ENOSPC",
        "ESPIPE", "EPIPE", "EDOM", "ERANGE", "EDEADLK", "ENAMETOOLONG", "ENOSYS", "ENOMSG", "ENODATA", "ETIME",
        "EPROTO", "EBADMSG", "EOVERFLOW", "ENOTSOCK", "EDESTADDRREQ", "EMSGSIZE", "EPROTOTYPE", "ENOPROTOOPT",
        "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EOPNOTSUPP", "ENOTSUP", "EPFNOSUPPORT", "EAFNOSUPPORT", "EADDRINUSE",
        "EADDRNOTAVAIL", "ENETDOWN", "ENETUNREACH", "ENETRESET", "ECONNABORTED", "ECONNRESET", "ENOBUFS", "EISCONN",
        "ENOTCONN", "ESHUTDOWN", "ETOOMANYREFS", "ETIMEDOUT", "ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH", "EALREADY",
        "EINPROGRESS", "ESTALE", "EDQUOT", "ECANCELED", "ENOKEY", "EKEYREJECTED", "EKEYEXPIRED",
    ]),
    (Kind::Family, &["AF_UNSPEC", "AF_INET", "AF_INET6", "AF_UNIX", "AF_LOCAL", "PF_INET", "PF_INET6"]),
    (Kind::SocketType, &["SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW", "SOCK_SEQPACKET", "SOCK_RDM"]),
    (Kind::SocketFlag, &["SOCK_NONBLOCK", "SOCK_CLOEXEC"]),
    (Kind::Protocol, &[
        "IPPROTO_IP", "IPPROTO_ICMP", "IPPROTO_TCP", "IPPROTO_UDP", "IPPROTO_IPV6", "IPPROTO_ICMPV6", "IPPROTO_RAW",
        "IPPROTO_UDPLITE", "IPPROTO_SCTP", "IPPROTO_MPTCP",
    ]),
    (Kind::Level, &["SOL_SOCKET", "SOL_IP", "SOL_IPV6", "SOL_TCP", "SOL_UDP", "SOL_UDPLITE", "SOL_SCTP", "SOL_MPTCP"]),
    (Kind::SocketOption, &[
        "SO_ACCEPTCONN", "SO_ACCEPTFILTER", "SO_ATTACH_FILTER", "SO_BINDTODEVICE", "SO_BROADCAST", "SO_BSDCOMPAT",
        "SO_BUSY_POLL", "SO_COOKIE", "SO_DEBUG", "SO_DETACH_FILTER", "SO_DOMAIN", "SO_DONTROUTE", "SO_ERROR",
        "SO_INCOMING_CPU", "SO_INCOMING_NAPI_ID", "SO_KEEPALIVE", "SO_LINGER", "SO_LOCK_FILTER", "SO_MARK",
        "SO_MAX_PACING_RATE", "SO_MEMINFO", "SO_NOSIGPIPE", "SO_NO_CHECK", "SO_OOBINLINE", "SO_PASSCRED",
        "SO_PEEK_OFF", "SO_PEERCRED", "SO_PEERNAME", "SO_PEERSEC", "SO_PRIORITY", "SO_PROTOCOL", "SO_RCVBUF",
        "SO_RCVBUFFORCE", "SO_RCVLOWAT", "SO_RCVTIMEO", "SO_REUSEADDR", "SO_REUSEPORT", "SO_REUSEPORT_LB",
        "SO_RXQ_OVFL", "SO_SETFIB", "SO_SNDBUF", "SO_SNDBUFFORCE", "SO_SNDLOWAT", "SO_SNDTIMEO", "SO_TIMESTAMP",
        "SO_TIMESTAMPING", "SO_TIMESTAMPNS", "SO_TXTIME", "SO_TYPE", "SO_USELOOPBACK", "SO_USER_COOKIE", "SO_ZEROCOPY",
    ]),
    (Kind::TcpOption, &[
        "TCP_NODELAY", "TCP_MAXSEG", "TCP_CORK", "TCP_NOPUSH", "TCP_NOOPT", "TCP_KEEPIDLE", "TCP_KEEPINTVL",
        "TCP_KEEPCNT", "TCP_KEEPINIT", "TCP_KEEPALIVE", "TCP_SYNCNT", "TCP_LINGER2", "TCP_DEFER_ACCEPT",
        "TCP_WINDOW_CLAMP", "TCP_INFO", "TCP_QUICKACK", "TCP_CONGESTION", "TCP_MD5SIG", "TCP_MD5SIG_EXT",
        "TCP_COOKIE_TRANSACTIONS", "TCP_THIN_LINEAR_TIMEOUTS", "TCP_THIN_DUPACK", "TCP_USER_TIMEOUT", "TCP_FASTOPEN",
        "TCP_FASTOPEN_CONNECT", "TCP_FASTOPEN_KEY", "TCP_FASTOPEN_NO_COOKIE", "TCP_TIMESTAMP", "TCP_NOTSENT_LOWAT",
        "TCP_INQ", "TCP_CC_INFO", "TCP_SAVE_SYN", "TCP_SAVED_SYN", "TCP_REPAIR", "TCP_REPAIR_QUEUE",
        "TCP_REPAIR_OPTIONS", "TCP_REPAIR_WINDOW", "TCP_QUEUE_SEQ", "TCP_ULP", "TCP_ZEROCOPY_RECEIVE", "TCP_TX_DELAY",
        "TCP_RTO_MAX_MS", "TCP_RTO_MIN_US", "TCP_DELACK_MAX_US", "TCP_IS_MPTCP", "TCP_CCALGOOPT", "TCP_DELACK",
        "TCP_FUNCTION_BLK", "TCP_FUNCTION_ALIAS", "TCP_LOG", "TCP_LOGBUF", "TCP_LOGID", "TCP_MAXUNACKTIME",
        "TCP_MAXPEAKRATE", "TCP_IDLE_REDUCE", "TCP_PERF_INFO", "TCP_REMOTE_UDP_ENCAPS_PORT", "TCP_REUSPORT_LB_NUMA",
        "TCP_RACK_TLP", "TCP_RACK_PACE_ALWAYS", "TCP_UTO_ENABLE", "TCP_UTO_ADVERTISE", "TCP_UTO_CHANGEABLE",
    ]),
    (Kind::UdpOption, &["UDP_CORK", "UDP_ENCAP", "UDP_SEGMENT", "UDP_GRO", "UDP_NO_CHECK6_TX", "UDP_NO_CHECK6_RX"]),
    (Kind::IpOption, &[
        "IP_TOS", "IP_TTL", "IP_MTU", "IP_MTU_DISCOVER", "IP_RECVERR", "IP_FREEBIND", "IP_TRANSPARENT", "IP_HDRINCL",
        "IP_OPTIONS", "IP_DONTFRAG", "IP_MINTTL", "IP_PKTINFO", "IP_RECVTOS", "IP_RECVTTL", "IP_RECVDSTADDR",
        "IP_SENDSRCADDR", "IP_BINDANY", "IP_PORTRANGE", "IP_LOCAL_PORT_RANGE", "IP_BIND_ADDRESS_NO_PORT",
        "IP_MULTICAST_IF", "IP_MULTICAST_LOOP", "IP_MULTICAST_TTL", "IP_ADD_MEMBERSHIP", "IP_DROP_MEMBERSHIP",
    ]),
    (Kind::Ipv6Option, &[
        "IPV6_V6ONLY", "IPV6_TCLASS", "IPV6_HOPLIMIT", "IPV6_UNICAST_HOPS", "IPV6_MTU", "IPV6_MTU_DISCOVER",
        "IPV6_RECVERR", "IPV6_DONTFRAG", "IPV6_USE_MIN_MTU", "IPV6_MINHOPCOUNT", "IPV6_PKTINFO", "IPV6_RECVPKTINFO",
        "IPV6_RECVTCLASS", "IPV6_RECVHOPLIMIT", "IPV6_FREEBIND", "IPV6_BINDANY", "IPV6_FLOWLABEL_MGR",
        "IPV6_AUTOFLOWLABEL", "IPV6_FLOWINFO", "IPV6_FLOWINFO_SEND", "IPV6_MULTICAST_IF", "IPV6_MULTICAST_HOPS",
        "IPV6_MULTICAST_LOOP", "IPV6_JOIN_GROUP", "IPV6_LEAVE_GROUP",
    ]),
    (Kind::OptionValue, &[
        "IP_PMTUDISC_WANT", "IP_PMTUDISC_DONT", "IP_PMTUDISC_DO", "IP_PMTUDISC_PROBE", "IP_PMTUDISC_INTERFACE",
        "IP_PMTUDISC_OMIT", "IPV6_PMTUDISC_WANT", "IPV6_PMTUDISC_DONT", "IPV6_PMTUDISC_DO", "IPV6_PMTUDISC_PROBE",
        "IPTOS_LOWDELAY", "IPTOS_THROUGHPUT", "IPTOS_RELIABILITY", "IPTOS_MINCOST", "IPTOS_DSCP_CS0", "IPTOS_DSCP_CS1",
        "IPTOS_DSCP_AF11", "IPTOS_DSCP_AF12", "IPTOS_DSCP_AF13", "IPTOS_DSCP_CS2", "IPTOS_DSCP_AF21",
        "IPTOS_DSCP_AF22", "IPTOS_DSCP_AF23", "IPTOS_DSCP_CS3", "IPTOS_DSCP_AF31", "IPTOS_DSCP_AF32",
        "IPTOS_DSCP_AF33", "IPTOS_DSCP_CS4", "IPTOS_DSCP_AF41", "IPTOS_DSCP_AF42", "IPTOS_DSCP_AF43",
        "IPTOS_DSCP_CS5", "IPTOS_DSCP_VA", "IPTOS_DSCP_EF", "IPTOS_DSCP_CS6", "IPTOS_DSCP_CS7", "IPTOS_ECN_NOTECT",
        "IPTOS_ECN_ECT1", "IPTOS_ECN_ECT0", "IPTOS_ECN_CE", "IPTOS_ECN_MASK", "TCP_INFINITE_SSTHRESH",
        "TCP_NO_QUEUE", "TCP_RECV_QUEUE", "TCP_SEND_QUEUE", "INADDR_ANY", "INADDR_LOOPBACK", "NULL",
    ]),
    (Kind::Open, &[
        "O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE", "O_CREAT", "O_EXCL", "O_NOCTTY", "O_TRUNC", "O_APPEND",
        "O_NONBLOCK", "O_CLOEXEC", "O_ASYNC", "O_SYNC",
    ]),
    (Kind::Fcntl, &[
        "F_DUPFD", "F_DUPFD_CLOEXEC", "F_GETFD", "F_SETFD", "F_GETFL", "F_SETFL", "F_GETLK", "F_SETLK", "F_SETLKW",
        "F_GETOWN", "F_SETOWN", "F_GETSIG", "F_SETSIG", "F_GETLEASE", "F_SETLEASE", "F_NOTIFY", "F_GETPIPE_SZ",
        "F_SETPIPE_SZ", "FD_CLOEXEC",
    ]),
    (Kind::Shutdown, &["SHUT_RD", "SHUT_WR", "SHUT_RDWR"]),
    (Kind::Message, &[
        "MSG_OOB", "MSG_PEEK", "MSG_DONTROUTE", "MSG_EOR", "MSG_EOF", "MSG_TRUNC", "MSG_CTRUNC", "MSG_WAITALL",
        "MSG_WAITFORONE", "MSG_DONTWAIT", "MSG_NOSIGNAL", "MSG_MORE", "MSG_NBIO", "MSG_ERRQUEUE", "MSG_CONFIRM",
        "MSG_PROXY", "MSG_FIN", "MSG_SYN", "MSG_RST", "MSG_CMSG_CLOEXEC", "MSG_FASTOPEN", "MSG_ZEROCOPY",
        "MSG_SPLICE_PAGES", "MSG_NOTIFICATION",
    ]),
    (Kind::Ioctl, &[
        "FIONREAD", "FIONWRITE", "FIONSPACE", "FIONBIO", "FIOASYNC", "SIOCINQ", "SIOCOUTQ", "SIOCOUTQNSD", "SIOCATMARK",
    ]),
    (Kind::Poll, &[
        "POLLIN", "POLLPRI", "POLLOUT", "POLLRDNORM", "POLLRDBAND", "POLLWRNORM", "POLLWRBAND", "POLLMSG", "POLLREMOVE",
        "POLLRDHUP", "POLLINIGNEOF", "POLLERR", "POLLHUP", "POLLNVAL",
    ]),
    (Kind::Epoll, &[
        "EPOLLIN", "EPOLLPRI", "EPOLLOUT", "EPOLLRDNORM", "EPOLLRDBAND", "EPOLLWRNORM", "EPOLLWRBAND", "EPOLLMSG",
        "EPOLLRDHUP", "EPOLLERR", "EPOLLHUP", "EPOLLET", "EPOLLONESHOT", "EPOLLEXCLUSIVE", "EPOLLWAKEUP",
    ]),
    (Kind::EpollCommand, &["EPOLL_CTL_ADD", "EPOLL_CTL_MOD", "EPOLL_CTL_DEL"]),
    (Kind::Ancillary, &[
        "SCM_TIMESTAMP", "SCM_TIMESTAMPNS", "SCM_TIMESTAMPING", "SCM_TIMESTAMPING_OPT_STATS", "SCM_TSTAMP_SND",
        "SCM_TSTAMP_SCHED", "SCM_TSTAMP_ACK", "SCM_RIGHTS", "SCM_SECURITY", "CMSG_LEVEL_IP", "CMSG_TYPE_RECVERR",
        "TCP_CM_INQ", "SO_EE_ORIGIN_NONE", "SO_EE_ORIGIN_LOCAL", "SO_EE_ORIGIN_ICMP", "SO_EE_ORIGIN_ICMP6",
        "SO_EE_ORIGIN_TIMESTAMPING", "SO_EE_ORIGIN_ZEROCOPY", "SO_EE_CODE_ZEROCOPY_COPIED",
    ]),
    (Kind::Timestamping, &[
        "SOF_TIMESTAMPING_TX_HARDWARE", "SOF_TIMESTAMPING_TX_SOFTWARE", "SOF_TIMESTAMPING_RX_HARDWARE",
        "SOF_TIMESTAMPING_RX_SOFTWARE", "SOF_TIMESTAMPING_SOFTWARE", "SOF_TIMESTAMPING_SYS_HARDWARE",
        "SOF_TIMESTAMPING_RAW_HARDWARE", "SOF_TIMESTAMPING_OPT_ID", "SOF_TIMESTAMPING_OPT_ID_TCP",
        "SOF_TIMESTAMPING_TX_SCHED", "SOF_TIMESTAMPING_TX_ACK", "SOF_TIMESTAMPING_OPT_CMSG",
        "SOF_TIMESTAMPING_OPT_TSONLY", "SOF_TIMESTAMPING_OPT_STATS",
    ]),
    (Kind::Statistic, &[
        "TCP_NLA_BUSY", "TCP_NLA_RWND_LIMITED", "TCP_NLA_SNDBUF_LIMITED", "TCP_NLA_DATA_SEGS_OUT",
        "TCP_NLA_TOTAL_RETRANS", "TCP_NLA_PACING_RATE", "TCP_NLA_DELIVERY_RATE", "TCP_NLA_SND_CWND",
        "TCP_NLA_REORDERING", "TCP_NLA_MIN_RTT", "TCP_NLA_RECUR_RETRANS", "TCP_NLA_DELIVERY_RATE_APP_LMT",
        "TCP_NLA_SNDQ_SIZE", "TCP_NLA_CA_STATE", "TCP_NLA_SND_SSTHRESH", "TCP_NLA_DELIVERED", "TCP_NLA_DELIVERED_CE",
        "TCP_NLA_BYTES_SENT", "TCP_NLA_BYTES_RETRANS", "TCP_NLA_DSACK_DUPS", "TCP_NLA_REORD_SEEN", "TCP_NLA_SRTT",
        "TCP_NLA_TIMEOUT_REHASH", "TCP_NLA_BYTES_NOTSENT", "TCP_NLA_EDT", "TCP_NLA_TTL", "TCP_NLA_REHASH",
    ]),
    (Kind::Splice, &["SPLICE_F_MOVE", "SPLICE_F_NONBLOCK", "SPLICE_F_MORE", "SPLICE_F_GIFT"]),
    (Kind::Capability, &["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_NET_BIND_SERVICE", "CAP_SYS_ADMIN"]),
    (Kind::CaState, &["TCP_CA_OPEN", "TCP_CA_DISORDER", "TCP_CA_CWR", "TCP_CA_RECOVERY", "TCP_CA_LOSS"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_in_the_table_once() {
        let mut names: Vec<&str> = Symbol::names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for name in names {
            assert_eq!(Symbol::find(name).unwrap().name(), name);
        }
    }

    #[test]
    fn bits_are_flags_and_numbers_are_not() {
        let is_flag = |name| Symbol::find(name).unwrap().is_flag();
        assert!(is_flag("O_NONBLOCK") && is_flag("MSG_PEEK") && is_flag("EPOLLIN"));
        assert!(!is_flag("ECONNRESET") && !is_flag("SO_ERROR") && !is_flag("SHUT_WR"));
        assert_eq!(Symbol::find("ECONNRESET").map(Symbol::kind), Some(Kind::Errno));
    }
}
