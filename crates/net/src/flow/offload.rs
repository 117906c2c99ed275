//! Flow offload: established flows that the device's driver forwards, so that their packets do not come up.
//!
//! The stack decides and the driver forwards: a [`FlowTable`] holds one record for each flow, with all that its packets
//! need ([`OffloadedFlow`]). Packets of a kind that the record does not describe come up as before. Where no rule looks at
//! packets, one record is for all flows to a [destination](Scope::Destination).

use core::net::IpAddr;

use crate::ip::neigh::LINK_ADDRS;
use crate::link::tables::IfIndex;

/// The flows that a driver forwards: shared by all CPUs, and read by the driver for each packet.
pub trait FlowTable: Send {
    /// Returns the generation of records that are valid now. A decision that is to become a record was made after this was
    /// read.
    fn generation(&self) -> u32;

    /// Invalidates all records. Packets that the driver has begun with may still go by one for a moment.
    fn invalidate(&self);

    /// Adds a record.
    ///
    /// # Errors
    /// [`Refused`].
    fn insert(&mut self, flow: &OffloadedFlow) -> Result<RecordId, Refused>;

    /// Returns the packets and bytes that have gone by a record since it was added.
    fn counted(&self, record: RecordId) -> Forwarded;

    /// Removes a record, which the driver does not find from now on.
    fn remove(&mut self, record: RecordId);
}

/// Numbers of bits that destinations of one record may have in common: the driver looks for each of them.
pub const BITS_V4: [u8; 3] = [16, 24, 32];
/// [`BITS_V4`] of IPv6.
pub const BITS_V6: [u8; 4] = [32, 48, 64, 128];

/// Packets that a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Packets of one flow.
    Flow,
    /// All that come by its interface to destinations that have so many bits of its own, one of [`BITS_V4`] or [`BITS_V6`], whatever
    /// their source and protocol: ends have no other fields then, and are the same before and after.
    Destination(u8),
}

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordId {
    /// Packets that it is for.
    pub scope: Scope,
    /// Whether it is a record of IPv4.
    pub is_ip4: bool,
    /// Its number.
    pub at: u32,
}

/// Packets that a driver has forwarded by a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Packets.
    pub packets: u64,
    /// Bytes of them, from the IP header on.
    pub bytes: u64,
}

/// Why a flow is not offloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// No place is left where the record would be found.
    Full,
    /// The driver's table of next hops is full.
    HopsFull,
    /// One of the interfaces has no offload.
    Interface,
    /// The table is being written by another CPU: try again.
    Busy,
    /// The flow has a record already.
    Known,
}

/// A flow as a driver is to forward it. Both ends of a packet are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadedFlow {
    /// The generation of the decision ([`FlowTable::generation`]).
    pub generation: u32,
    /// Packets that these are.
    pub scope: Scope,
    /// By which interface packets come.
    pub rcvif: IfIndex,
    /// TCP or UDP; 0 for a destination.
    pub protocol: u8,
    /// Traffic class; the two bits of congestion notification are not looked at.
    pub class: u8,
    /// Addresses and ports of packets as they come.
    pub before: Ends,
    /// Addresses and ports of packets as they leave.
    pub after: Ends,
    /// The interface by which they leave.
    pub outif: IfIndex,
    /// Link addresses with which they leave: destination, source.
    pub link: [u8; LINK_ADDRS],
    /// Bytes of the largest packet that may leave.
    pub mtu: u16,
}

/// Addresses and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}
