//! PPPoE sessions as interfaces: point-to-point links without rings, whose packets are frames of another interface.
//!
//! The control side finds an access concentrator and negotiates; it gets the frames of that from here ([`Control`]). Packets
//! of a session become packets of its interface before anything else is known of them, so that the CPU that owns the inner
//! flow takes them on; the link addresses of a session's frames stand in the tables.
//!
//! # Spec
//! RFC 2516 §4, §7.

mod io;

use wire::ether::Mac;
use wire::pppoe::SESSION_LEN;

pub use self::io::{Arrived, Control, Outgoing, Sink, send};
pub(crate) use self::io::{control_input, input, output};
use crate::link::logical::Kind;
use crate::link::tables::{IfIndex, Ifnet};

/// Bytes that a session puts in front of a packet, behind the Ethernet header.
#[expect(clippy::cast_possible_truncation, reason = "8")]
pub const OVERHEAD: u32 = SESSION_LEN as u32;
/// Bytes of the longest frame of the control side, without its Ethernet header.
pub const MESSAGE_MAX: usize = 1500;

/// A PPPoE interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pppoe {
    /// The interface whose frames carry its packets.
    pub parent: IfIndex,
    /// The session, once there is one.
    pub session: Option<Session>,
    /// Whether the maximum segment size that a SYN tells is lowered to what fits, in both directions.
    pub clamps_mss: bool,
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number, which the access concentrator has chosen.
    pub id: u16,
    /// The link address of the access concentrator.
    pub remote: Mac,
}

/// The sessions of a [`super::logical::Logical`], by the frames that they take.
#[derive(Debug, Default)]
pub struct Sessions {
    /// Sorted.
    all: Vec<(Key, IfIndex)>,
}

/// The interface below a session, its number, and the other end.
type Key = (IfIndex, u16, [u8; 6]);

impl Sessions {
    /// Returns the sessions among interfaces, those that are down included.
    pub(super) fn of(ifs: &[Ifnet]) -> Self {
        let session = |ifnet: &Ifnet| {
            let pppoe = ifnet.kind.pppoe()?;
            let Session { id, remote } = pppoe.session?;
            Some(((pppoe.parent, id, remote.octets()), ifnet.index))
        };
        let mut all: Vec<_> = ifs.iter().filter_map(session).collect();
        all.sort_unstable();
        Self { all }
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the interface of frames that come by `parent`, of this session and sender.
    #[must_use]
    pub fn find(&self, parent: IfIndex, id: u16, sender: Mac) -> Option<IfIndex> {
        let at = self.all.binary_search_by_key(&(parent, id, sender.octets()), |(key, _)| *key).ok()?;
        self.all.get(at).map(|(_, ifindex)| *ifindex)
    }
}

/// Lets sessions inherit from the interfaces below: they are up only with them, and have no larger MTU than those have room
/// for. They have no link address.
pub(super) fn inherit(ifs: &mut [Ifnet]) {
    for at in 0..ifs.len() {
        let Kind::Pppoe(Pppoe { parent, .. }) = ifs[at].kind else { continue };
        let below = ifs.iter().find(|below| below.index == parent && below.kind.pppoe().is_none());
        let (mtu, up) = below.map_or((0, false), |below| (below.mtu.saturating_sub(OVERHEAD), below.up));
        let own = &mut ifs[at];
        (own.mac, own.mtu, own.up) = (Mac::default(), own.mtu.min(mtu), own.up && up);
    }
}

#[cfg(test)]
mod tests;
