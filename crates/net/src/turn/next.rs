//! Where a packet may go from a stage.

use crate::base::drop::DropReason;
use crate::firewall::{HandoffPoint, Shape, Via};
use crate::ip::icmp::Problem;
use crate::turn::cpu::CpuId;

/// The places that a packet may go to: a stage's result for one packet.
///
/// Stages on the fast path leave the vector where it is and answer one of these per packet. Only when an answer is
/// not the usual one does a cold function ([`crate::turn::netisr::dispatch`]) take the packet out of the vector.
///
/// Which one it is stands in a byte of its own, so that asking costs one comparison whatever else some answers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Next {
    /// [`crate::ip::ip4::input`]: an IPv4 packet on the CPU that owns it.
    Ip4,
    /// [`crate::ip::ip6::input`]: an IPv6 packet on the CPU that owns it.
    Ip6,
    /// [`crate::fib`]: a valid IPv4 packet; look its destination up.
    Route4,
    /// [`crate::fib`]: a valid IPv6 packet; look its destination up.
    Route6,
    /// [`crate::out::ifq`]: has its link header and leaves by `outif`.
    Output,
    /// [`crate::ip::tunnel_io::output`]: leaves by the tunnel `outif`, and has a link header that means nothing.
    Encapsulate,
    /// [`crate::ip::arp::input`].
    Arp,
    /// [`mod@crate::link::pppoe`]: for the control side, with its PPPoE header.
    Pppoe,
    /// [`crate::ip::bridge_io::input`]: a frame of a bridge's port, with its Ethernet header.
    Bridge,
    /// [`crate::ip::punt::input`]: a frame of a protocol that is not spoken here, for the kernel's twin, without its Ethernet header.
    Punt,
    /// [`crate::ip::punt::from_kernel`]: a frame of the kernel's twin, with its Ethernet header.
    FromTwin,
    /// [`crate::ip::ip4::local`]: for this host.
    Local4,
    /// [`crate::ip::ip6::local`]: for this host.
    Local6,
    /// [`crate::ip::neigh::hold`]: waits for the link address of its next hop on `outif`.
    Resolve,
    /// [`crate::ip::output`]: must be cut to pieces of its route's MTU.
    Fragment,
    /// Another CPU owns it.
    HandOff(CpuId),
    /// [`crate::ip::icmp::answer`]: dies, and its sender is told why.
    Answer(Problem),
    /// [`crate::host::tcp::refuse`]: dies, and if it is TCP, its sender gets a reset.
    Reset,
    /// [`crate::firewall::fwd`]: a rule says to which next hop it goes.
    Via(Via),
    /// [`mod@crate::firewall::pipe_io`]: a rule sends it through a pipe.
    Shape(Shape),
    /// [`crate::firewall::handoff`]: another CPU can do what a rule says.
    Away(HandoffPoint),
    /// [`crate::firewall`]: on from the first hook, as a packet of the other family, which a rule has made it.
    Onward,
    /// [`crate::ip::reass::in_transit`]: a rule needs its datagram whole.
    Reassemble,
    /// [`crate::ip::output`]: made here by another CPU, of a flow that lives on this one.
    Send,
    /// Came in under tables that this CPU gets next: waits for them.
    Wait,
    /// Dies.
    Drop(DropReason),
}

/// Where a packet goes on after another CPU handed it over: the code in `pkt.resume`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Resume {
    /// From the start: a frame as a device delivered it.
    Frame = 0,
    /// At [`Next::Ip4`].
    Ip4,
    /// At [`Next::Ip6`].
    Ip6,
    /// At [`Next::Arp`].
    Arp,
    /// At [`Next::Local4`]: reassembled, and of a flow that lives here.
    Local4,
    /// At [`Next::Local6`].
    Local6,
    /// At the transmit ring that this CPU owns.
    Transmit,
    /// At [`Next::Send`].
    Send,
}

/// Bits of a code left for the [`Stamp`].
const PLACE: u8 = 7;

/// The number of the tables under which a packet was handed over, as the upper bits of its code: the lower ones say where it
/// goes on. Numbers go round; two that are compared are a few apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u8);

/// The age of a packet that another CPU has handed over under other tables than this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// The other CPU had older tables.
    Older,
    /// The other CPU has the next tables already.
    Newer,
}

impl Stamp {
    /// The stamp of the tables of this generation.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "numbers go round")]
    pub const fn of(generation: u64) -> Self {
        Self((generation as u8) << PLACE.count_ones())
    }

    /// The code of a place with this stamp.
    #[inline]
    #[must_use]
    pub const fn on(self, place: u8) -> u8 {
        place & PLACE | self.0
    }

    /// The code without the stamp if it bears this one; else none that [`Resume::next`] knows.
    #[inline]
    #[must_use]
    pub const fn off(self, code: u8) -> u8 {
        code ^ self.0
    }

    /// Compares the tables of a packet with this code with those of this stamp; `None` if they are the same.
    #[must_use]
    pub const fn age(self, code: u8) -> Option<Age> {
        const HALF: u8 = 1 << 7;
        match (code & !PLACE).wrapping_sub(self.0) {
            0 => None,
            ahead if ahead < HALF => Some(Age::Newer),
            _ => Some(Age::Older),
        }
    }
}

impl Resume {
    /// The place in a code with whatever stamp.
    #[must_use]
    pub const fn place(code: u8) -> Option<Next> {
        Self::next(code & PLACE)
    }

    /// The code for going on at `next`. Only places that a packet can be handed over to have one.
    #[must_use]
    pub const fn at(next: Next) -> Self {
        match next {
            Next::Ip4 => Self::Ip4,
            Next::Ip6 => Self::Ip6,
            Next::Arp => Self::Arp,
            Next::Local4 => Self::Local4,
            Next::Local6 => Self::Local6,
            Next::Output => Self::Transmit,
            Next::Send => Self::Send,
            _ => Self::Frame,
        }
    }

    /// Where `code` says to go on; `None` for a frame that starts from the beginning.
    #[must_use]
    pub const fn next(code: u8) -> Option<Next> {
        match code {
            1 => Some(Next::Ip4),
            2 => Some(Next::Ip6),
            3 => Some(Next::Arp),
            4 => Some(Next::Local4),
            5 => Some(Next::Local6),
            6 => Some(Next::Output),
            7 => Some(Next::Send),
            _ => None,
        }
    }
}
