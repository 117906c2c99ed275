//! XDP features of drivers, from the kernel's `netdev` family of generic netlink (Linux 6.3 and later).

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType};
use rustix::net::{bind, socket_with};

use super::message::{Message, attr, u16_at};
use super::{NetlinkError, Rtnetlink};
use crate::sys::sockopt;

/// `GENL_ID_CTRL`, the family that knows the others, and its question for one.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET` and its attributes.
const DEV_GET: u8 = 1;
const IFINDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;
/// `NETDEV_XDP_ACT_BASIC`, `_REDIRECT`, `_NDO_XMIT`, `_XSK_ZEROCOPY`.
const BASIC: u64 = 1;
const REDIRECT: u64 = 1 << 1;
const SENDS: u64 = 1 << 2;
const ZERO_COPY: u64 = 1 << 3;

/// XDP features of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Runs programs in the driver, which may redirect to a socket: native mode.
    #[must_use]
    pub const fn native(self) -> bool {
        self.0 & (BASIC | REDIRECT) == BASIC | REDIRECT
    }

    /// Sends frames that programs of other interfaces redirect to it. A veth does as long as its other end has a program or
    /// GRO.
    #[must_use]
    pub const fn sends_redirected(self) -> bool {
        self.0 & SENDS != 0
    }

    /// Receives into the memory of a socket.
    #[must_use]
    pub const fn zero_copy(self) -> bool {
        self.0 & ZERO_COPY != 0
    }
}

/// Returns the XDP features of an interface; `None` of a kernel that does not tell.
///
/// # Errors
/// [`NetlinkError`].
pub fn xdp_features(ifindex: u32) -> Result<Option<XdpFeatures>, NetlinkError> {
    let mut netlink = open().map_err(NetlinkError::Open)?;
    let Some(family) = family(&mut netlink)? else { return Ok(None) };
    let mut features = None;
    let question = Message::new(family, libc::NLM_F_ACK, &[DEV_GET, 1, 0, 0]).u32(IFINDEX, ifindex);
    netlink.transact(question, &|| "read XDP features".to_owned(), |body| {
        let value = body.get(4..).and_then(|rest| attr(rest, XDP_FEATURES));
        features = value.and_then(|value| value.try_into().ok()).map(u64::from_ne_bytes);
    })?;
    Ok(features.map(XdpFeatures))
}

fn open() -> io::Result<Rtnetlink> {
    const GENERIC: Option<Protocol> = Some(rustix::net::netlink::GENERIC);
    let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, GENERIC)?;
    bind(&fd, &SocketAddrNetlink::new(0, 0))?;
    sockopt::set_receive_timeout(&fd, core::time::Duration::from_secs(5))?;
    Ok(Rtnetlink { fd, sequence: 0, buffer: vec![0; 1 << 16] })
}

/// Returns the number of the family; `None` if the kernel has none.
fn family(netlink: &mut Rtnetlink) -> Result<Option<u16>, NetlinkError> {
    let mut id = None;
    let question = Message::new(CONTROL, libc::NLM_F_ACK, &[GET_FAMILY, 1, 0, 0]).str(FAMILY_NAME, "netdev");
    let asked = netlink.transact(question, &|| "look for the netdev family".to_owned(), |body| {
        id = body.get(4..).and_then(|rest| attr(rest, FAMILY_ID)).and_then(|id| u16_at(id, 0));
    });
    match asked {
        Err(NetlinkError::Refused { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(why) => Err(why),
        Ok(()) => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_runs_no_programs_in_its_driver() {
        let lo = Rtnetlink::open().unwrap().link("lo").unwrap();
        if let Some(features) = xdp_features(lo.index).unwrap() {
            assert_eq!((features.native(), features.zero_copy()), (false, false));
        }
    }
}
