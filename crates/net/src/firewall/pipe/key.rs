//! The flow of a packet: the bits of its headers that a mask selects.

use ipfw::command::FlowMask;
use pkt::Pkt;
use wire::Protocol;

use crate::firewall::pkt_info::PktInfo;

/// The masked bits that the packets of a flow have in common. Without a mask all packets have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Bits of the source address; an IPv4 address in the lower 32 bits.
    pub src: u128,
    /// Bits of the destination address.
    pub dst: u128,
    /// Bits of the flow label.
    pub flow_label: u32,
    /// Bits of the source port.
    pub src_port: u16,
    /// Bits of the destination port.
    pub dst_port: u16,
    /// Bits of the protocol.
    pub proto: u8,
    /// Whether the addresses are IPv4's.
    pub is_ip4: bool,
    /// Overflow: flows without room of their own share one.
    pub is_overflow: bool,
}

impl Key {
    /// The shared flow of those without room of their own.
    pub(super) const OVERFLOW: Self = Self {
        src: 0,
        dst: 0,
        flow_label: 0,
        src_port: 0,
        dst_port: 0,
        proto: 0,
        is_ip4: false,
        is_overflow: true,
    };

    /// All of it, for a hash.
    pub(super) fn to_bytes(self) -> [u8; 42] {
        let mut bytes = [0; 42];
        bytes[..16].copy_from_slice(&self.src.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.dst.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.flow_label.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.src_port.to_le_bytes());
        bytes[38..40].copy_from_slice(&self.dst_port.to_le_bytes());
        bytes[40] = self.proto;
        bytes[41] = u8::from(self.is_ip4) | u8::from(self.is_overflow) << 1;
        bytes
    }

    /// The flow of a packet. ICMP's type and code are no ports.
    pub(super) fn of(mask: &FlowMask, info: &PktInfo, pkt: &Pkt) -> Self {
        let ports = if has_ports(info.proto) { (info.src_port, info.dst_port) } else { (0, 0) };
        let (src, dst, flow_label) = if info.is_ip4 {
            (u128::from(mask.src_ip), u128::from(mask.dst_ip), 0)
        } else {
            (mask.src_ip6, mask.dst_ip6, mask.flow_label)
        };
        Self {
            src: info.src & src,
            dst: info.dst & dst,
            flow_label: if flow_label == 0 { 0 } else { flow_label & label(pkt) },
            src_port: ports.0 & mask.src_port,
            dst_port: ports.1 & mask.dst_port,
            proto: info.proto & mask.proto,
            is_ip4: info.is_ip4 && (src | dst) != 0,
            is_overflow: false,
        }
    }
}

/// The flow label of an IPv6 packet, which begins with its network header.
fn label(pkt: &Pkt) -> u32 {
    let [_, high, middle, low, ..] = *pkt.window(0);
    u32::from_be_bytes([0, high & 0xf, middle, low])
}

const fn has_ports(proto: u8) -> bool {
    proto == Protocol::TCP.0 || proto == Protocol::UDP.0 || proto == Protocol::SCTP.0
}
