//! The link header of a packet that is dropped somewhere in the stack.

use pkt::{Flags, Pkt};
use wire::ether::{EtherType, HEADER_LEN};
use wire::{ip4, ip6};

use crate::base::drop::DropReason;
use crate::base::stage::Stage;
use crate::link::ether::TAG_LEN;

/// Tags that a frame may have.
const TAGS_MAX: usize = 2;

/// Shows the link header that lies in front of a packet, or makes one without addresses; nothing if the packet begins with a
/// link header itself.
pub(super) fn of(pkt: &Pkt, reason: DropReason, show: impl FnOnce(&[u8])) {
    let ethertype = match begin(pkt, reason) {
        Begin::Frame => return,
        Begin::Unknown => return show(pkt.before(removed(pkt)).unwrap_or_default()),
        Begin::Network(ethertype) => ethertype,
    };
    if let Some(header) = in_front(pkt, ethertype) {
        return show(header);
    }
    let mut header = [0; HEADER_LEN];
    if let Some(last) = header.last_chunk_mut() {
        *last = ethertype.0.to_be_bytes();
    }
    show(&header);
}

/// The header that a packet begins with.
enum Begin {
    /// A frame's.
    Frame,
    /// One of the network layer.
    Network(EtherType),
    /// The one behind a frame's, of a protocol that the stack does not speak.
    Unknown,
}

/// Some stages see frames, most see packets, and some see both: there the bytes tell.
fn begin(pkt: &Pkt, reason: DropReason) -> Begin {
    use DropReason::{
        EtherLength, EtherMulticastSource, EtherNotForUs, EtherShort, EtherUnknownType, InterfaceDown,
        Monitor, VlanUnknown, XdpAborted, XdpDrop, XdpRedirect,
    };
    match reason {
        EtherShort | EtherNotForUs | EtherMulticastSource | InterfaceDown | Monitor | XdpDrop
        | XdpAborted | XdpRedirect => return Begin::Frame,
        EtherUnknownType | EtherLength | VlanUnknown => return Begin::Unknown,
        _ => {}
    }
    let by_stage = match reason.stage() {
        Stage::Arp => Some(EtherType::ARP),
        Stage::Ip4 => Some(EtherType::IPV4),
        Stage::Ip6 => Some(EtherType::IPV6),
        _ => None,
    };
    by_stage.or_else(|| by_bytes(pkt)).map_or(Begin::Frame, Begin::Network)
}

/// The type of a packet that begins with its network header.
fn by_bytes(pkt: &Pkt) -> Option<EtherType> {
    let (bytes, len) = (pkt.head(), pkt.len());
    if ip4::View::new_quoted(bytes).is_ok_and(|view| usize::from(view.total_len()) <= len) {
        return (!is_frame(bytes, EtherType::IPV4, 4)).then_some(EtherType::IPV4);
    }
    let is_ip6 = |view: ip6::View<'_>| usize::from(view.payload_len()) + ip6::HEADER_LEN <= len;
    if ip6::View::new_quoted(bytes).is_ok_and(is_ip6) {
        return (!is_frame(bytes, EtherType::IPV6, 6)).then_some(EtherType::IPV6);
    }
    None
}

/// Whether bytes that look like a packet are a frame that carries one.
fn is_frame(bytes: &[u8], ethertype: EtherType, version: u8) -> bool {
    let is_type = bytes.get(HEADER_LEN - 2..HEADER_LEN) == Some(&ethertype.0.to_be_bytes()[..]);
    is_type && bytes.get(HEADER_LEN).is_some_and(|byte| byte >> 4 == version)
}

/// The header of the frame that a packet has come in.
fn in_front(pkt: &Pkt, ethertype: EtherType) -> Option<&[u8]> {
    if pkt.moved || pkt.rcvif == 0 || pkt.flags.any(Flags::LOCAL.with(Flags::REASSEMBLED)) {
        return None;
    }
    let tags = if pkt.flags.has(Flags::VLAN) { 1..=TAGS_MAX } else { 0..=0 };
    let mut headers = tags.filter_map(|tags| pkt.before(HEADER_LEN + tags * TAG_LEN));
    headers.find(|header| {
        let is_tagged = matches!(outer(header), EtherType::VLAN | EtherType::QINQ);
        header.ends_with(&ethertype.0.to_be_bytes()) && is_tagged == (header.len() > HEADER_LEN)
    })
}

/// The type in a frame's header, which may be that of a tag.
fn outer(header: &[u8]) -> EtherType {
    let two = header.get(HEADER_LEN - 2..).and_then(|bytes| bytes.first_chunk());
    EtherType(u16::from_be_bytes(*two.unwrap_or(&[0; 2])))
}

/// Bytes of a frame's header that have been removed.
fn removed(pkt: &Pkt) -> usize {
    HEADER_LEN + if pkt.flags.has(Flags::VLAN) { TAG_LEN } else { 0 }
}
