//! A binding: inside, outside and remote end.

use super::{By, Key, Tick};
use crate::firewall::nat::headers::{End, Kind};

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// An inside end, the outside end that stands for it, and the remote end that it speaks to.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    inside: u128,
    outside: u32,
    remote: u32,
    inside_port: u16,
    outside_port: u16,
    remote_port: u16,
    protocol: u8,
    /// Flags of TCP segments seen.
    said: u8,
    /// The last tick in which it lives.
    pub(super) expires: Tick,
    /// Packets, out and in.
    packets: [u32; 2],
    /// Which of all bindings of the table it is, counted from 1, the lower half.
    pub(super) serial: u32,
}

/// Where a binding hangs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// The next in its chains.
    pub(super) chain: [u32; 2],
    /// The next of those that may end then.
    pub(super) next: u32,
    /// The one before, or the slot of the wheel.
    pub(super) prev: u32,
}

impl Links {
    /// Hangs nowhere.
    pub(super) const NONE: Self = Self { chain: [NONE; 2], next: NONE, prev: NONE };
}

/// Which way a packet goes through a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingDirection {
    /// From inside.
    Out = 0,
    /// From the remote end.
    In = 1,
}

/// Lifetimes of bindings after their last packet, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// TCP, when both ends have acknowledged something.
    //= https://www.rfc-editor.org/rfc/rfc5382#section-5
    //# The value of the "established connection idle-timeout" MUST NOT be
    //# less than 2 hours 4 minutes.
    pub tcp_established_s: u32,
    /// TCP that opens or closes.
    //= https://www.rfc-editor.org/rfc/rfc5382#section-5
    //# The value of the "transitory connection idle-timeout" MUST NOT be less
    //# than 4 minutes.
    pub tcp_transitory_s: u32,
    /// UDP.
    //= https://www.rfc-editor.org/rfc/rfc4787#section-4.3
    //# A value of 5 minutes or more is RECOMMENDED.
    pub udp_s: u32,
    /// ICMP queries.
    //= https://www.rfc-editor.org/rfc/rfc5508#section-3.2
    //# An ICMP Query session timer MUST NOT expire in less than 60 seconds.
    pub icmp_s: u32,
    /// Anything else.
    pub other_s: u32,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { tcp_established_s: 7440, tcp_transitory_s: 240, udp_s: 300, icmp_s: 60, other_s: 300 }
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Flags of TCP segments seen: acknowledgment and FIN by direction; and a reset.
const ACKED: [u8; 2] = [1, 2];
const ENDED: [u8; 2] = [4, 8];
const RESET: u8 = 16;
const BOTH_ACKED: u8 = ACKED[0] | ACKED[1];
const BOTH_ENDED: u8 = ENDED[0] | ENDED[1];

impl Binding {
    /// A binding that no packet has gone through; the remote end's and the outside end's addresses are of IPv4.
    #[must_use]
    pub fn new(inside: End, outside: End, remote: End, protocol: u8) -> Self {
        let ip4 = |end: End| u32::try_from(end.addr).unwrap_or_default();
        Self {
            inside: inside.addr,
            outside: ip4(outside),
            remote: ip4(remote),
            inside_port: inside.port,
            outside_port: outside.port,
            remote_port: remote.port,
            protocol,
            said: 0,
            expires: Tick::default(),
            packets: [0; 2],
            serial: 0,
        }
    }

    /// Returns the inside end.
    #[must_use]
    pub const fn inside(&self) -> End {
        End { addr: self.inside, port: self.inside_port }
    }

    /// Returns the outside end.
    #[must_use]
    pub fn outside(&self) -> End {
        End { addr: self.outside.into(), port: self.outside_port }
    }

    /// Returns the remote end. A query's has no port.
    #[must_use]
    pub fn remote(&self) -> End {
        End { addr: self.remote.into(), port: self.remote_port }
    }

    /// The upper layer's protocol.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Packets that went out and that came in, as many as fit.
    #[must_use]
    pub const fn packets(&self) -> [u32; 2] {
        self.packets
    }

    /// Seconds that it will live, if no packet comes.
    #[must_use]
    pub fn left_s(&self, now: Tick) -> u32 {
        let ticks = u64::from(self.expires.0.saturating_sub(now.0));
        u32::try_from((ticks << 30) / 1_000_000_000).unwrap_or(u32::MAX)
    }

    /// Whether a key finds it.
    #[inline]
    pub(super) fn is(&self, by: By, key: &Key) -> bool {
        let is_end = match by {
            By::Inside => self.inside == key.end.addr && self.inside_port == key.end.port,
            By::Outside => u128::from(self.outside) == key.end.addr && self.outside_port == key.end.port,
        };
        let is_remote = u128::from(self.remote) == key.remote.addr && self.remote_port == key.remote.port;
        is_end && is_remote && self.protocol == key.protocol
    }

    #[inline]
    pub(super) fn key(&self, by: By) -> Key {
        let end = match by {
            By::Inside => self.inside(),
            By::Outside => self.outside(),
        };
        Key { end, remote: self.remote(), protocol: self.protocol }
    }

    /// A packet goes through.
    #[inline]
    pub fn pass(&mut self, direction: BindingDirection, kind: Kind, now: Tick, lifetimes: &Lifetimes) {
        let count = &mut self.packets[direction as usize];
        *count = count.saturating_add(1);
        if let Kind::Tcp(flags) = kind {
            self.hear(direction, flags);
        }
        self.expires = Tick(now.0.saturating_add(ticks(self.lifetime_s(kind, lifetimes))));
    }

    /// Notes the flags of a segment. A reset may be forged and ends nothing by itself: the binding lives on for a while, and
    /// for long again once both ends have acknowledged something since. Segments of one end alone were in flight when the
    /// other end reset the connection.
    //= https://www.rfc-editor.org/rfc/rfc7857#section-2.2
    fn hear(&mut self, direction: BindingDirection, flags: u8) {
        if flags & RST != 0 {
            self.said = self.said & !BOTH_ACKED | RESET;
            return;
        }
        let is_over = self.said & RESET != 0 || self.said & BOTH_ENDED == BOTH_ENDED;
        if is_over && flags & (SYN | ACK) == SYN {
            self.said = 0;
        }
        if flags & ACK != 0 {
            self.said |= ACKED[direction as usize];
        }
        if self.said & BOTH_ACKED == BOTH_ACKED {
            self.said &= !RESET;
        }
        if flags & FIN != 0 {
            self.said |= ENDED[direction as usize];
        }
    }

    const fn lifetime_s(&self, kind: Kind, lifetimes: &Lifetimes) -> u32 {
        match kind {
            Kind::Tcp(_) if self.is_established() => lifetimes.tcp_established_s,
            Kind::Tcp(_) => lifetimes.tcp_transitory_s,
            Kind::Udp => lifetimes.udp_s,
            Kind::Query => lifetimes.icmp_s,
            _ => lifetimes.other_s,
        }
    }

    /// Whether it is of a connection of which not both ends have acknowledged something.
    #[must_use]
    pub const fn is_half_open(&self) -> bool {
        self.protocol == wire::Protocol::TCP.0 && self.said & BOTH_ACKED != BOTH_ACKED
    }

    const fn is_established(&self) -> bool {
        self.said & BOTH_ACKED == BOTH_ACKED && self.said & BOTH_ENDED != BOTH_ENDED && self.said & RESET == 0
    }
}

/// Ticks that are not less than so many seconds, and the one that has begun.
fn ticks(seconds: u32) -> u32 {
    u32::try_from(((u64::from(seconds) * 1_000_000_000) >> 30) + 1).unwrap_or(u32::MAX)
}
