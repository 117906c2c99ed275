//! A blocking rtnetlink client: interfaces, addresses and routes of one network namespace.
//!
//! One [`Rtnetlink`] belongs to the namespace in which it was opened, wherever it is used later.

mod addr;
mod link;
mod message;
mod monitor;
mod netdev;
mod route;
mod route_monitor;

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with};

use crate::sys::sockopt;
use message::{Message, answers, attr, text};

pub use addr::Address;
pub use link::{ALIAS_MAX, Link, LinkFlags, Veth, VethEnd, XdpAttachMode, XdpAttached};
pub use monitor::{LinkChanges, LinkMonitor};
pub use netdev::{XdpFeatures, xdp_features};
pub use route::Route;
pub use route_monitor::{Heard, Listing, RouteMonitor};

/// Why the kernel did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetlinkError {
    /// No socket.
    #[error("cannot open an rtnetlink socket: {0}")]
    Open(#[source] io::Error),
    /// No interface of this name.
    #[error("no interface named {0} in this network namespace; `ip link` lists them")]
    NoSuchLink(String),
    /// The process may not do this.
    #[error("{doing}: needs CAP_NET_ADMIN (run as root, or in a user namespace)")]
    Permission {
        /// The operation.
        doing: String,
    },
    /// The interface, address or route is there already.
    #[error("{doing}: already exists")]
    Exists {
        /// The operation.
        doing: String,
    },
    /// The kernel refused for another reason.
    #[error("{doing}: {source}{}", said(kernel_says))]
    Refused {
        /// The operation.
        doing: String,
        /// The kernel's error number.
        source: io::Error,
        /// The kernel's own words; often empty.
        kernel_says: String,
    },
    /// The kernel's answer could not be received or understood.
    #[error("{doing}: no answer from the kernel: {source}")]
    NoAnswer {
        /// The operation.
        doing: String,
        /// Why.
        source: io::Error,
    },
}

impl From<NetlinkError> for io::Error {
    fn from(e: NetlinkError) -> Self {
        let kind = match &e {
            NetlinkError::NoSuchLink(_) => io::ErrorKind::NotFound,
            NetlinkError::Permission { .. } => io::ErrorKind::PermissionDenied,
            NetlinkError::Exists { .. } => io::ErrorKind::AlreadyExists,
            NetlinkError::Open(s)
            | NetlinkError::Refused { source: s, .. }
            | NetlinkError::NoAnswer { source: s, .. } => s.kind(),
        };
        Self::new(kind, e)
    }
}

/// An open rtnetlink socket.
#[derive(Debug)]
pub struct Rtnetlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Rtnetlink {
    /// Opens a socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`NetlinkError::Open`].
    pub fn open() -> Result<Self, NetlinkError> {
        Self::try_open().map_err(NetlinkError::Open)
    }

    fn try_open() -> io::Result<Self> {
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?; // protocol 0 is NETLINK_ROUTE
        bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        sockopt::set_int(&fd, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, 1)?;
        // An answer is there when the request returns; the limit turns a surprise into an error.
        sockopt::set_receive_timeout(&fd, core::time::Duration::from_secs(5))?;
        Ok(Self { fd, sequence: 0, buffer: vec![0; 1 << 16] })
    }

    /// Sends a request and waits for its acknowledgement.
    fn request(&mut self, message: Message, doing: impl Fn() -> String) -> Result<(), NetlinkError> {
        self.transact(message, &doing, |_| {})
    }

    /// Sends a dump request and shows `each` message of the answer to the closure.
    fn dump(
        &mut self,
        message: Message,
        doing: &str,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), NetlinkError> {
        self.transact(message, &|| doing.to_owned(), |body| each(body))
    }

    fn transact(
        &mut self,
        message: Message,
        doing: &dyn Fn() -> String,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let lost = |source: io::Error| NetlinkError::NoAnswer { doing: doing(), source };
        send(&self.fd, &message.finish(self.sequence), SendFlags::empty()).map_err(|e| lost(e.into()))?;
        loop {
            let (_, len) =
                recv(&self.fd, self.buffer.as_mut_slice(), RecvFlags::TRUNC).map_err(|e| lost(e.into()))?;
            let datagram = self.buffer.get(..len).ok_or_else(|| lost(io::ErrorKind::InvalidData.into()))?;
            for answer in answers(datagram).filter(|a| a.sequence == self.sequence) {
                match i32::from(answer.kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => return verdict(answer, doing),
                    _ => each(answer.body),
                }
            }
        }
    }
}

/// Reads an `NLMSG_ERROR`: 0 is the acknowledgement.
fn verdict(answer: message::Answer<'_>, doing: &dyn Fn() -> String) -> Result<(), NetlinkError> {
    let code = message::u32_at(answer.body, 0).map_or(libc::EBADMSG, |c| c.cast_signed().wrapping_neg());
    match code {
        0 => Ok(()),
        libc::EPERM | libc::EACCES => Err(NetlinkError::Permission { doing: doing() }),
        libc::EEXIST => Err(NetlinkError::Exists { doing: doing() }),
        _ => Err(NetlinkError::Refused {
            doing: doing(),
            source: io::Error::from_raw_os_error(code),
            kernel_says: extended_message(answer).unwrap_or_default(),
        }),
    }
}

/// The text of an extended acknowledgement, which follows the (possibly capped) copy of the request.
fn extended_message(answer: message::Answer<'_>) -> Option<String> {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    let flags = i32::from(answer.flags);
    if flags & libc::NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let copied = if flags & libc::NLM_F_CAPPED != 0 {
        message::HEADER
    } else {
        message::u32_at(answer.body, 4)? as usize
    };
    let tlvs = answer.body.get(4 + copied.next_multiple_of(4)..)?;
    attr(tlvs, NLMSGERR_ATTR_MSG).map(text)
}

fn said(kernel_says: &str) -> String {
    if kernel_says.is_empty() { String::new() } else { format!(" (the kernel says: {kernel_says})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_by_name_and_in_the_list() {
        let mut nl = Rtnetlink::open().unwrap();
        let lo = nl.link("lo").unwrap();
        assert!(lo.flags.contains(LinkFlags::LOOPBACK));
        assert!(nl.links().unwrap().iter().any(|l| l.index == lo.index && l.name == "lo"));
    }

    #[test]
    fn a_missing_interface_is_named_and_the_user_is_told_where_to_look() {
        let error = Rtnetlink::open().unwrap().link("nope7").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no interface named nope7 in this network namespace; `ip link` lists them"
        );
    }
}
