//! Options of a socket in requests: each is a number.

/// An option, with the units of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SockOpt {
    /// Others may bind the same (`SO_REUSEPORT`).
    ReusePort,
    /// IPv4 is not for it (`IPV6_V6ONLY`).
    OnlyV6,
    /// `SO_KEEPALIVE`.
    KeepAlive,
    /// `TCP_KEEPIDLE`, in seconds.
    KeepIdle,
    /// `TCP_KEEPINTVL`, in seconds.
    KeepInterval,
    /// `TCP_KEEPCNT`.
    KeepCount,
    /// `SO_LINGER`, in seconds; -1: off.
    Linger,
    /// `TCP_NODELAY`.
    NoDelay,
    /// `TCP_USER_TIMEOUT`, in milliseconds.
    UserTimeout,
    /// `TCP_MAXSEG`.
    MaxSegment,
    /// `TCP_CONGESTION`: 0 is CUBIC, 1 NewReno.
    Congestion,
    /// `TCP_FASTOPEN` of a listener.
    FastOpen,
    /// `SO_SNDBUF`, as it was set and not doubled.
    SendBuffer,
    /// `SO_RCVBUF`, as it was set and not doubled.
    ReceiveBuffer,
    /// `IP_TTL`, `IPV6_UNICAST_HOPS`.
    Hops,
    /// `IP_TOS`, `IPV6_TCLASS`.
    Class,
    /// `SO_BROADCAST`.
    Broadcast,
    /// `IP_MULTICAST_TTL`, `IPV6_MULTICAST_HOPS`.
    GroupHops,
    /// `IP_MULTICAST_LOOP`, `IPV6_MULTICAST_LOOP`.
    GroupLoop,
    /// `IP_PKTINFO`, `IPV6_RECVPKTINFO`.
    PktInfo,
    /// `IP_RECVTTL`, `IPV6_RECVHOPLIMIT`.
    RecvHops,
    /// `IP_RECVTOS`, `IPV6_RECVTCLASS`.
    RecvClass,
    /// `IP_RECVERR`, `IPV6_RECVERR`.
    RecvErr,
    /// `SO_ACCEPTCONN`, which cannot be set.
    AcceptConn,
    /// The routing table (`SO_SETFIB` of FreeBSD), which Linux has no option for.
    Fib,
    /// `IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`.
    MtuDiscover,
    /// `IPV6_DONTFRAG`.
    DontFragment,
    /// The number of an interface here (`SO_BINDTODEVICE`, `SO_BINDTOIFINDEX`); 0: none.
    Device,
    /// `TCP_CORK`.
    Cork,
    /// `TCP_QUICKACK`.
    QuickAck,
    /// `TCP_FASTOPEN_CONNECT`.
    FastOpenConnect,
}

/// Number of options.
const COUNT: usize = 31;
/// Bytes of a set of options.
pub(super) const OPTIONS_LEN: usize = 4 + 4 * COUNT;

impl SockOpt {
    /// All options, in the order of their numbers.
    pub const ALL: [Self; COUNT] = [
        Self::ReusePort,
        Self::OnlyV6,
        Self::KeepAlive,
        Self::KeepIdle,
        Self::KeepInterval,
        Self::KeepCount,
        Self::Linger,
        Self::NoDelay,
        Self::UserTimeout,
        Self::MaxSegment,
        Self::Congestion,
        Self::FastOpen,
        Self::SendBuffer,
        Self::ReceiveBuffer,
        Self::Hops,
        Self::Class,
        Self::Broadcast,
        Self::GroupHops,
        Self::GroupLoop,
        Self::PktInfo,
        Self::RecvHops,
        Self::RecvClass,
        Self::RecvErr,
        Self::AcceptConn,
        Self::Fib,
        Self::MtuDiscover,
        Self::DontFragment,
        Self::Device,
        Self::Cork,
        Self::QuickAck,
        Self::FastOpenConnect,
    ];

    pub(super) const fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// The options of a socket that were set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// A bit for each that was set.
    set: u32,
    values: [i32; COUNT],
}

impl Options {
    /// Returns the value of an option; `None` if it was not set.
    #[must_use]
    pub fn get(&self, option: SockOpt) -> Option<i32> {
        let is_set = self.set >> option.number() & 1 == 1;
        self.values.get(usize::from(option.number())).copied().filter(|_| is_set)
    }

    /// Tells whether an option was set, and not to 0.
    #[must_use]
    pub fn is_on(&self, option: SockOpt) -> bool {
        self.get(option).is_some_and(|value| value != 0)
    }

    /// Sets an option.
    pub fn set(&mut self, option: SockOpt, value: i32) {
        if let Some(place) = self.values.get_mut(usize::from(option.number())) {
            *place = value;
            self.set |= 1 << option.number();
        }
    }

    /// Returns the options that were set, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (SockOpt, i32)> {
        SockOpt::ALL.into_iter().filter_map(|option| Some((option, self.get(option)?)))
    }

    /// Writes which are set, and a value for each.
    pub(super) fn emit(&self) -> [u8; OPTIONS_LEN] {
        let mut bytes = [0; OPTIONS_LEN];
        let words = core::iter::once(self.set.cast_signed()).chain(self.values);
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8; OPTIONS_LEN]) -> Self {
        let mut words =
            bytes.chunks_exact(4).filter_map(|word| Some(i32::from_be_bytes(*word.first_chunk()?)));
        let set = words.next().unwrap_or(0).cast_unsigned();
        let mut all = Self::default();
        for (option, value) in SockOpt::ALL.into_iter().zip(words) {
            if set >> option.number() & 1 == 1 {
                all.set(option, value);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_its_number() {
        for (n, option) in SockOpt::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(option.number()), n);
            assert_eq!(SockOpt::of(option.number()), Some(option));
        }
        assert_eq!(SockOpt::of(u8::try_from(COUNT).unwrap()), None);
    }

    #[test]
    fn options_that_are_set_are_read_as_they_were_written() {
        let mut options = Options::default();
        options.set(SockOpt::Linger, -1);
        options.set(SockOpt::AcceptConn, i32::MAX);
        let read = Options::parse(&options.emit());
        assert_eq!(read, options);
        assert_eq!((read.get(SockOpt::Linger), read.get(SockOpt::Hops)), (Some(-1), None));
        assert_eq!(read.iter().count(), 2);
    }
}
