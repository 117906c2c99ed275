//! Logical interfaces: without rings of their own, over another interface.
//!
//! A frame that comes in by a device names the logical interface that it is for, and is that interface's from then on
//! ([`Logical::tagged`]). On the way out an interface's header stands ready made ([`Header`]); it is put into the frame
//! when everything else is done, and the frame goes on as one of the device. Stages in between see no difference.
//!
//! # Spec
//! IEEE 802.1Q §9.3 to §9.6 (C-TAG and S-TAG).

mod path;

pub use self::path::Path;

use pkt::{NoRoom, Pkt, PktVec};
use wire::ether::{EtherType, Mac};

use crate::base::count::IfCount;
use crate::link::bridge::{self, Bridge, Bridges};
use crate::link::driver::Caps;
use crate::link::ether::TAG_LEN;
use crate::link::pppoe::{self, Pppoe, Sessions};
use crate::link::tables::{IfIndex, Ifnet, Rxcsum};
use crate::link::tunnel::{self, Tunnel, Tunnels};
use crate::link::vxlan::{self, Vxlan, Vxlans};
use crate::turn::cpu::Cpu;

/// Bytes of the longest header that a logical interface puts into its frames.
pub const HEADER_MAX: usize = 128;
/// VLAN tags of a frame at the most: as many interfaces stand between a VLAN and its device, itself included.
pub const TAGS_MAX: usize = 2;
/// Where tags stand in a frame: behind its addresses.
const TAGS_AT: u8 = 12;
#[expect(clippy::cast_possible_truncation, reason = "4")]
const TAG: u8 = TAG_LEN as u8;

/// The lower layer of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The rings of a device.
    #[default]
    Device,
    /// The rings of a device of IP packets. Its driver puts a link header of zeros in front of each.
    RawIp,
    /// Frames with a tag on another interface.
    Vlan(Vlan),
    /// Packets between two addresses.
    Tunnel(Tunnel),
    /// Frames in datagrams.
    Vxlan(Vxlan),
    /// Frames of other interfaces, its ports.
    Bridge(Bridge),
    /// A PPPoE session on an interface.
    Pppoe(Pppoe),
    /// Addresses of this host alone: nothing leaves by it, and nothing arrives.
    Loopback,
}

/// A VLAN on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// The interface whose frames have its tag.
    pub parent: IfIndex,
    /// The type of its tag: [`EtherType::VLAN`] or [`EtherType::QINQ`].
    pub tpid: EtherType,
    /// VLAN identifier, 1 to 4094.
    pub vid: u16,
    /// Priority code point of what is sent, 0 to 7.
    pub pcp: u8,
}

impl Kind {
    /// Returns the interface below, if frames only get a tag for it.
    #[must_use]
    pub const fn parent(self) -> Option<IfIndex> {
        match self {
            Self::Device
            | Self::RawIp
            | Self::Tunnel(_)
            | Self::Vxlan(_)
            | Self::Bridge(_)
            | Self::Pppoe(_)
            | Self::Loopback => None,
            Self::Vlan(vlan) => Some(vlan.parent),
        }
    }

    /// Returns the tunnel, if it is one.
    #[must_use]
    pub const fn tunnel(self) -> Option<Tunnel> {
        match self {
            Self::Tunnel(tunnel) => Some(tunnel),
            _ => None,
        }
    }

    /// Returns the PPPoE interface, if it is one.
    #[must_use]
    pub const fn pppoe(self) -> Option<Pppoe> {
        match self {
            Self::Pppoe(pppoe) => Some(pppoe),
            _ => None,
        }
    }

    /// Returns whether it has one other end, or none, and no link addresses.
    #[must_use]
    pub const fn is_point_to_point(self) -> bool {
        matches!(self, Self::RawIp | Self::Tunnel(_) | Self::Pppoe(_) | Self::Loopback)
    }

    /// Returns whether it has addresses of this host and no link.
    #[must_use]
    pub const fn is_loopback(self) -> bool {
        matches!(self, Self::Loopback)
    }

    /// Returns whether it has rings.
    #[must_use]
    pub const fn is_device(self) -> bool {
        matches!(self, Self::Device | Self::RawIp)
    }

    /// Returns the VXLAN, if it is one.
    #[must_use]
    pub const fn vxlan(self) -> Option<Vxlan> {
        match self {
            Self::Vxlan(vxlan) => Some(vxlan),
            _ => None,
        }
    }

    /// Returns whether its frames or packets leave in packets that are made here.
    #[must_use]
    pub const fn encapsulates(self) -> bool {
        matches!(self, Self::Tunnel(_) | Self::Vxlan(_) | Self::Pppoe(_))
    }

    /// Returns whether a stage of its own chooses the interface by which its frames leave.
    #[must_use]
    pub const fn leaves_by_others(self) -> bool {
        self.encapsulates() || matches!(self, Self::Bridge(_) | Self::Loopback)
    }

    /// Returns whether it learns behind which end stations are.
    #[must_use]
    pub const fn learns(self) -> bool {
        matches!(self, Self::Vxlan(_) | Self::Bridge(_))
    }
}

impl Vlan {
    /// The tag: its type and its control information.
    const fn tag(self) -> [u8; TAG_LEN] {
        let [type_hi, type_lo] = self.tpid.0.to_be_bytes();
        let [tci_hi, tci_lo] = ((self.pcp as u16) << 13 | self.vid & 0x0fff).to_be_bytes();
        [type_hi, type_lo, tci_hi, tci_lo]
    }
}

/// The logical interfaces of [`super::tables::Tables`], as the way in and the way out need them.
#[derive(Debug, Default)]
pub struct Logical {
    /// By interface and tag, sorted.
    vlans: Vec<(TagKey, IfIndex)>,
    /// By interface index.
    headers: Vec<Option<Box<Header>>>,
    /// Tunnels by their outer addresses.
    pub tunnels: Tunnels,
    /// VXLAN interfaces by the datagrams that they take.
    pub vxlans: Vxlans,
    /// Bridges and their ports.
    pub bridges: Bridges,
    /// PPPoE sessions by their frames.
    pub sessions: Sessions,
}

/// An interface, and type and identifier of a tag of its frames.
type TagKey = (IfIndex, u16, u16);

/// The header that a logical interface puts into its frames, and the device that they leave by.
#[derive(Debug)]
pub struct Header {
    device: IfIndex,
    /// The logical interfaces that the frame passes, the first one first; 0 for none.
    passes: [IfIndex; TAGS_MAX],
    /// Where it stands in the frame.
    at: u8,
    len: u8,
    bytes: [u8; HEADER_MAX],
}

const _: () = assert!(size_of::<Header>() == 136, "docs/reference/LIMITS.md");

impl Logical {
    /// Derives it from interfaces that have inherited from their parents.
    #[must_use]
    pub(super) fn of(ifs: &[Ifnet]) -> Self {
        let mut all = Self {
            tunnels: Tunnels::of(ifs),
            vxlans: Vxlans::of(ifs),
            bridges: Bridges::of(ifs),
            sessions: Sessions::of(ifs),
            ..Self::default()
        };
        for ifnet in ifs {
            let (Kind::Vlan(vlan), Some(header)) = (ifnet.kind, Header::of(ifs, ifnet)) else { continue };
            all.vlans.push(((vlan.parent, vlan.tpid.0, vlan.vid), ifnet.index));
            let at = usize::from(ifnet.index);
            all.headers.resize_with(all.headers.len().max(at + 1), || None);
            all.headers[at] = Some(Box::new(header));
        }
        all.vlans.sort_unstable();
        all
    }

    /// Returns the VLAN of frames of `parent` with this tag.
    #[must_use]
    pub fn tagged(&self, parent: IfIndex, tpid: EtherType, vid: u16) -> Option<IfIndex> {
        let at = self.vlans.binary_search_by_key(&(parent, tpid.0, vid), |(key, _)| *key).ok()?;
        self.vlans.get(at).map(|(_, ifindex)| *ifindex)
    }

    /// Returns the header of a logical interface; `None` for a device.
    #[inline]
    #[must_use]
    pub fn header(&self, ifindex: IfIndex) -> Option<&Header> {
        self.headers.get(usize::from(ifindex))?.as_deref()
    }

    /// Returns the number of tags that a frame had which came in by this interface, a priority tag excepted.
    #[must_use]
    pub fn tags(&self, ifindex: IfIndex) -> usize {
        self.header(ifindex).map_or(0, |header| usize::from(header.len) / TAG_LEN)
    }
}

impl Header {
    /// `None` if the interface leads to no device.
    fn of(ifs: &[Ifnet], ifnet: &Ifnet) -> Option<Self> {
        let mut header =
            Self { device: 0, passes: [0; TAGS_MAX], at: TAGS_AT, len: 0, bytes: [0; HEADER_MAX] };
        let mut here = ifnet;
        for pass in 0..TAGS_MAX {
            let Kind::Vlan(vlan) = here.kind else { break };
            header.passes[pass] = here.index;
            // That of the interface below stands in front.
            header.bytes.copy_within(0..usize::from(header.len), TAG_LEN);
            header.bytes[..TAG_LEN].copy_from_slice(&vlan.tag());
            header.len += TAG;
            here = find(ifs, vlan.parent)?;
        }
        header.device = here.index;
        matches!(here.kind, Kind::Device | Kind::Vxlan(_) | Kind::Bridge(_)).then_some(header)
    }

    /// Puts it into a frame.
    #[inline]
    fn push(&self, frame: &mut Pkt) -> Result<(), NoRoom> {
        let (at, len) = (usize::from(self.at), usize::from(self.len));
        let none = NoRoom { wanted: len, have: frame.headroom() };
        let header = self.bytes.get(..len).ok_or(none)?;
        frame.prepend(len)?;
        let front = frame.head_mut().get_mut(..at + len).ok_or(none)?;
        front.copy_within(len.., 0);
        front.get_mut(at..).ok_or(none)?.copy_from_slice(header);
        Ok(())
    }
}

/// Puts the header of the logical interface `frame.outif` into a frame, which leaves by its device then.
///
/// # Errors
///
/// There is no such interface, or no headroom.
#[inline]
pub fn encapsulate(cpu: &mut Cpu, frame: &mut Pkt) -> Result<(), NoRoom> {
    let Cpu { tables, counters, .. } = cpu;
    let Some(header) = tables.logical.header(frame.outif) else {
        return Err(NoRoom { wanted: 0, have: frame.headroom() });
    };
    let len = frame.len() as u64;
    header.push(frame)?;
    frame.outif = header.device;
    for ifindex in header.passes.into_iter().take_while(|ifindex| *ifindex != 0) {
        counters.add_if(ifindex, IfCount::TxPackets, 1);
        counters.add_if(ifindex, IfCount::TxBytes, len);
    }
    Ok(())
}

/// [`encapsulate`] for frames that all leave by `outif`. Answers their device and their bytes; `None` if it is a device
/// itself, or is not up. One without headroom keeps its `outif`.
pub fn encapsulate_all(cpu: &mut Cpu, frames: &mut PktVec, outif: IfIndex) -> Option<(IfIndex, usize)> {
    cpu.tables.ifnet(outif).filter(|ifnet| ifnet.up)?;
    let device = cpu.tables.logical.header(outif)?.device;
    let mut bytes = 0_usize;
    for frame in frames.iter_mut() {
        _ = encapsulate(cpu, frame);
        bytes = bytes.wrapping_add(frame.len());
    }
    Some((device, bytes))
}

/// Lets logical interfaces inherit from those below: they are up only with them, and have their link address, their offloads,
/// and no larger MTU. `ifs` is sorted by index. A tunnel has neither a link address nor offloads, a VXLAN no offloads. Where a
/// device delivers partial checksums, what is encapsulated may have such ones, too.
pub(super) fn inherit(ifs: &mut [Ifnet]) {
    // Which device an encapsulated packet came by is not known of it any more.
    let is_partial = ifs.iter().any(|ifnet| ifnet.kind == Kind::Device && ifnet.rxcsum == Rxcsum::Complete);
    for ifnet in ifs.iter_mut().filter(|ifnet| ifnet.kind.encapsulates()) {
        ifnet.caps = tunnel::CAPS;
        ifnet.rxcsum = if is_partial { Rxcsum::Complete } else { Rxcsum::Verify };
    }
    // What a port's device cannot do is done when the frame leaves by it.
    const ALL: Caps = Caps { tx_csum: true, tso: true, uso: true, buffers_max: usize::MAX };
    for ifnet in ifs.iter_mut().filter(|ifnet| matches!(ifnet.kind, Kind::Bridge(_))) {
        ifnet.caps = ALL;
        ifnet.rxcsum = if is_partial { Rxcsum::Complete } else { Rxcsum::Verify };
    }
    vxlan::join_groups(ifs);
    for at in 0..ifs.len() {
        if ifs[at].kind.tunnel().is_some() || ifs[at].kind.is_loopback() {
            ifs[at].mac = Mac::default();
        }
        let Some(parent) = ifs[at].kind.parent() else { continue };
        let (mut next, mut mtu, mut up) = (parent, u32::MAX, true);
        let mut device = None;
        for _ in 0..TAGS_MAX {
            let Some(below) = find(ifs, next) else { break };
            (mtu, up) = (mtu.min(below.mtu), up && below.up);
            match below.kind.parent() {
                Some(further) => next = further,
                None => {
                    device = Some((below.mac, below.caps, below.rxcsum));
                    break;
                }
            }
        }
        let ifnet = &mut ifs[at];
        match device {
            Some((mac, caps, rxcsum)) => {
                (ifnet.mac, ifnet.caps, ifnet.rxcsum) = (mac, caps, rxcsum);
                (ifnet.mtu, ifnet.up) = (ifnet.mtu.min(mtu), ifnet.up && up);
            }
            None => ifnet.up = false,
        }
    }
    bridge::inherit(ifs);
    pppoe::inherit(ifs);
}

fn find(ifs: &[Ifnet], index: IfIndex) -> Option<&Ifnet> {
    ifs.binary_search_by_key(&index, |ifnet| ifnet.index).ok().and_then(|at| ifs.get(at))
}

#[cfg(test)]
mod tests;
