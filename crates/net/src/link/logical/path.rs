//! The frames of an interface as its users see them: those of a VLAN without its tags.

use wire::ether::HEADER_LEN;

use super::{Kind, TAGS_MAX};
use crate::link::ether::{TAG_LEN, TAG_VID};
use crate::link::tables::{IfIndex, Tables};

/// Bytes of the addresses of a frame, behind which its tags stand.
const ADDRS_LEN: usize = 12;

/// The interface that an interface's VLANs are over, a device as a rule, and the tags that its frames have there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The device.
    pub device: IfIndex,
    /// Type and identifier of each tag, the outer one first; only the first [`Self::len`] are there.
    tags: [(u16, u16); TAGS_MAX],
    len: usize,
}

impl Path {
    /// Returns the path of an interface; `None` if there is none of this number, or its frames come by no device.
    #[must_use]
    pub fn of(tables: &Tables, ifindex: IfIndex) -> Option<Self> {
        let is_device = |path: &Self| tables.ifnet(path.device).is_some_and(|ifnet| ifnet.kind.is_device());
        Self::over(tables, ifindex).filter(is_device)
    }

    /// Returns the path of an interface, to a device or what else its VLANs are over; `None` if there is none of this number.
    #[must_use]
    pub fn over(tables: &Tables, ifindex: IfIndex) -> Option<Self> {
        let mut path = Self { device: ifindex, tags: [(0, 0); TAGS_MAX], len: 0 };
        loop {
            match tables.ifnet(path.device)?.kind {
                Kind::Vlan(vlan) if path.len < TAGS_MAX => {
                    path.tags.copy_within(..path.len, 1);
                    path.tags[0] = (vlan.tpid.0, vlan.vid);
                    path.len += 1;
                    path.device = vlan.parent;
                }
                Kind::Vlan(_) => return None,
                Kind::Device
                | Kind::RawIp
                | Kind::Tunnel(_)
                | Kind::Vxlan(_)
                | Kind::Bridge(_)
                | Kind::Pppoe(_)
                | Kind::Loopback => return Some(path),
            }
        }
    }

    /// Bytes of the tags.
    #[must_use]
    pub const fn tags_len(&self) -> usize {
        self.len * TAG_LEN
    }

    /// Returns the frame as the interface has it: itself, or a copy in `room` without the tags. `None` if it has other tags.
    #[must_use]
    pub fn frame<'f>(&self, frame: &'f [u8], room: &'f mut Vec<u8>) -> Option<&'f [u8]> {
        if self.len == 0 {
            return Some(frame);
        }
        let (addrs, behind) = frame.split_at_checked(ADDRS_LEN)?;
        let (tags, rest) = behind.split_at_checked(self.tags_len())?;
        let has = |(tag, wanted): (&[u8; TAG_LEN], &(u16, u16))| {
            let [type_hi, type_lo, tci_hi, tci_lo] = *tag;
            let (tpid, tci) = (u16::from_be_bytes([type_hi, type_lo]), u16::from_be_bytes([tci_hi, tci_lo]));
            (tpid, tci & TAG_VID) == *wanted
        };
        if rest.len() < HEADER_LEN - ADDRS_LEN || !tags.as_chunks().0.iter().zip(&self.tags).all(has) {
            return None;
        }
        room.clear();
        room.extend_from_slice(addrs);
        room.extend_from_slice(rest);
        Some(room)
    }
}
