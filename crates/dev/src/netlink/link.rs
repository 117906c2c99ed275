//! Interfaces.

use std::os::fd::{AsFd, AsRawFd};

use super::message::{Message, attr, text, u16_at, u32_at};
use super::{NetlinkError, Rtnetlink};

/// An interface as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number in this namespace.
    pub index: u32,
    /// Its Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// The largest packet in bytes, without the link header.
    pub mtu: u32,
    /// Frames that may wait to be sent: of a TAP, to be read.
    pub queue_len: u32,
    /// Up, running, promiscuous …
    pub flags: LinkFlags,
    /// The driver kind: `veth`, `tun`, `bridge` …; none for hardware.
    pub kind: Option<String>,
    /// For a veth its peer, for a VLAN its parent; the number counts in the namespace where that one lives.
    pub peer: Option<u32>,
    /// The bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// For a TAP with several queues those that processes have open, detached ones among them.
    pub open_queues: Option<u32>,
    /// Receive and transmit queues.
    pub queues: (u32, u32),
    /// The XDP program on it.
    pub xdp: Option<XdpAttached>,
    /// The text that administrators and programs may give it (`ip link set dev NAME alias TEXT`).
    pub alias: Option<String>,
    /// Whether its wire carries, up or not; none as long as its driver has said nothing of it.
    pub carrier: Option<bool>,
}

/// Flags of an interface (`IFF_…` of `linux/if.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkFlags(pub u32);

impl LinkFlags {
    /// Administratively up.
    pub const UP: Self = Self(libc::IFF_UP as u32);
    /// The loopback interface.
    pub const LOOPBACK: Self = Self(libc::IFF_LOOPBACK as u32);
    /// Receives frames for others too.
    pub const PROMISC: Self = Self(libc::IFF_PROMISC as u32);
    /// Up, and the wire carries.
    pub const RUNNING: Self = Self(libc::IFF_RUNNING as u32);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An XDP program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpAttached {
    /// The kernel's number of the program (`bpftool prog show id N`).
    pub program_id: u32,
    /// Where it runs.
    pub mode: XdpAttachMode,
}

/// Where an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpAttachMode {
    /// In the driver.
    Native,
    /// On socket buffers, after the driver (`xdpgeneric`).
    Generic,
    /// In the device itself.
    Offloaded,
    /// Several at once.
    Multiple,
}

/// A pair of connected virtual Ethernet interfaces to be made.
#[derive(Debug, Clone)]
pub struct Veth<'a> {
    /// Both ends.
    pub ends: [VethEnd<'a>; 2],
    /// Receive and transmit queues of each end, 1 or more.
    pub queues: u32,
    /// The largest packet in bytes; `None`: 1500.
    pub mtu: Option<u32>,
}

/// One end of a veth pair.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// Its name, at most 15 bytes.
    pub name: &'a str,
    /// Its Ethernet address; `None`: the kernel draws one.
    pub mac: Option<[u8; 6]>,
}

impl<'a> Veth<'a> {
    /// One queue, 1500 bytes, random addresses.
    pub fn new(a: &'a str, b: &'a str) -> Self {
        let end = |name| VethEnd { name, mac: None };
        Self { ends: [end(a), end(b)], queues: 1, mtu: None }
    }
}

impl Rtnetlink {
    /// The interfaces of the namespace.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let mut found = Vec::new();
        let ask = Message::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &ifinfo(0, 0, 0));
        self.dump(ask, "list interfaces", |body| found.extend(parse(body)))?;
        Ok(found)
    }

    /// The interface of this name.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`].
    pub fn link(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let mut found = None;
        let ask =
            Message::new(libc::RTM_GETLINK, libc::NLM_F_ACK, &ifinfo(0, 0, 0)).str(libc::IFLA_IFNAME, name);
        let answer = self.dump(ask, "find an interface", |body| found = parse(body));
        match found {
            Some(link) => Ok(link),
            None => Err(answer.err().map_or_else(|| missing(name), |e| no_such(name, e))),
        }
    }

    /// Makes a veth pair; both ends are down.
    ///
    /// # Errors
    /// [`NetlinkError::Exists`] if a name is taken.
    pub fn add_veth(&mut self, veth: &Veth<'_>) -> Result<(), NetlinkError> {
        let [a, b] = veth.ends;
        let describe = |m: Message, end: VethEnd<'_>| describe_end(m, end, veth);
        let ask = describe(create(), a).nest(libc::IFLA_LINKINFO, &[], |m| {
            m.str(libc::IFLA_INFO_KIND, "veth").nest(libc::IFLA_INFO_DATA, &[], |m| {
                m.nest(VETH_INFO_PEER, &ifinfo(0, 0, 0), |m| describe(m, b))
            })
        });
        self.request(ask, || format!("make veth pair {} {}", a.name, b.name))
    }

    /// Deletes an interface that software made (of a veth pair, both ends).
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`].
    pub fn delete_link(&mut self, name: &str) -> Result<(), NetlinkError> {
        let ask =
            Message::new(libc::RTM_DELLINK, libc::NLM_F_ACK, &ifinfo(0, 0, 0)).str(libc::IFLA_IFNAME, name);
        self.request(ask, || format!("delete interface {name}")).map_err(|e| no_such(name, e))
    }

    /// Sets an interface up or down.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`], [`NetlinkError::Permission`].
    pub fn set_up(&mut self, name: &str, up: bool) -> Result<(), NetlinkError> {
        self.set_flag(name, LinkFlags::UP, up)
    }

    /// Sets promiscuous mode; it stays until it is set back ([`crate::sys::promisc`] is for the other kind).
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`], [`NetlinkError::Permission`].
    pub fn set_promisc(&mut self, name: &str, on: bool) -> Result<(), NetlinkError> {
        self.set_flag(name, LinkFlags::PROMISC, on)
    }

    /// Sets the largest packet, in bytes.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] if the device cannot.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), NetlinkError> {
        self.change(name, &format!("set MTU {mtu}"), |m| m.u32(libc::IFLA_MTU, mtu))
    }

    /// Sets how many frames may wait to be sent: of a TAP, to be read, in each of its queues.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] if the device cannot.
    pub fn set_queue_len(&mut self, name: &str, frames: u32) -> Result<(), NetlinkError> {
        self.change(name, &format!("set the length of queues to {frames}"), |m| {
            m.u32(libc::IFLA_TXQLEN, frames)
        })
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] if the device cannot.
    pub fn set_mac(&mut self, name: &str, mac: [u8; 6]) -> Result<(), NetlinkError> {
        self.change(name, "set Ethernet address", |m| m.attr(libc::IFLA_ADDRESS, &mac))
    }

    /// Sets whether a TAP has carrier.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] if the device cannot be told.
    pub fn set_carrier(&mut self, name: &str, on: bool) -> Result<(), NetlinkError> {
        self.change(name, "set carrier", |m| m.attr(libc::IFLA_CARRIER, &[u8::from(on)]))
    }

    /// Sets the text that describes it, at most [`ALIAS_MAX`] bytes.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] if it is longer.
    pub fn set_alias(&mut self, name: &str, text: &str) -> Result<(), NetlinkError> {
        self.change(name, "set its alias", |m| m.attr(libc::IFLA_IFALIAS, text.as_bytes()))
    }

    /// Renames an interface.
    ///
    /// # Errors
    /// [`NetlinkError::Exists`] if the new name is taken.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), NetlinkError> {
        self.change(name, &format!("rename to {new}"), |m| m.str(libc::IFLA_IFNAME, new))
    }

    /// Moves an interface into another network namespace.
    ///
    /// # Errors
    /// [`NetlinkError::Exists`] if its name is taken there.
    pub fn move_to(&mut self, name: &str, netns: impl AsFd) -> Result<(), NetlinkError> {
        let fd = netns.as_fd().as_raw_fd().cast_unsigned();
        self.change(name, "move to another network namespace", |m| m.u32(libc::IFLA_NET_NS_FD, fd))
    }

    /// Attaches an XDP program, for kernels without links for XDP (before 5.9); it stays until detached.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] with the reason of the driver.
    pub fn attach_xdp(&mut self, ifindex: u32, program: impl AsFd, flags: u32) -> Result<(), NetlinkError> {
        self.set_xdp(ifindex, program.as_fd().as_raw_fd(), flags | XDP_FLAGS_UPDATE_IF_NOEXIST)
    }

    /// Takes XDP programs off an interface, native and generic: what a crashed process left behind, where it
    /// was attached by netlink. (A program held by a link goes with the process; it cannot be detached here.)
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] with `EBUSY` if a link holds it; no program being there is not an error.
    pub fn detach_xdp(&mut self, ifindex: u32) -> Result<(), NetlinkError> {
        // Without a mode the kernel would look at the driver's best one only.
        [XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE].iter().try_for_each(|&mode| self.set_xdp(ifindex, -1, mode))
    }

    fn set_xdp(&mut self, ifindex: u32, fd: i32, flags: u32) -> Result<(), NetlinkError> {
        let ask = Message::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &ifinfo(ifindex, 0, 0)).nest(
            libc::IFLA_XDP,
            &[],
            |m| m.u32(IFLA_XDP_FD, fd.cast_unsigned()).u32(IFLA_XDP_FLAGS, flags),
        );
        self.request(ask, || format!("set the XDP program of interface {ifindex}"))
    }

    fn set_flag(&mut self, name: &str, flag: LinkFlags, on: bool) -> Result<(), NetlinkError> {
        let index = self.link(name)?.index;
        let fixed = ifinfo(index, if on { flag.0 } else { 0 }, flag.0);
        let ask = Message::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &fixed);
        self.request(ask, || format!("set flags of {name}"))
    }

    fn change(
        &mut self,
        name: &str,
        what: &str,
        add: impl FnOnce(Message) -> Message,
    ) -> Result<(), NetlinkError> {
        let index = self.link(name)?.index;
        let ask = add(Message::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &ifinfo(index, 0, 0)));
        self.request(ask, || format!("{name}: {what}"))
    }
}

fn create() -> Message {
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    Message::new(libc::RTM_NEWLINK, flags, &ifinfo(0, 0, 0))
}

fn describe_end(m: Message, end: VethEnd<'_>, veth: &Veth<'_>) -> Message {
    let m = m.str(libc::IFLA_IFNAME, end.name);
    let m = m.u32(libc::IFLA_NUM_TX_QUEUES, veth.queues).u32(libc::IFLA_NUM_RX_QUEUES, veth.queues);
    let m = if let Some(mtu) = veth.mtu { m.u32(libc::IFLA_MTU, mtu) } else { m };
    if let Some(mac) = end.mac { m.attr(libc::IFLA_ADDRESS, &mac) } else { m }
}

/// `struct ifinfomsg`: family, pad, type (u16), index, flags, change mask.
fn ifinfo(index: u32, flags: u32, change: u32) -> [u8; IFINFO] {
    let mut bytes = [0; IFINFO];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..].copy_from_slice(&change.to_ne_bytes());
    bytes
}

fn parse(body: &[u8]) -> Option<Link> {
    let rest = body.get(IFINFO..)?;
    let number = |kind| attr(rest, kind).and_then(|v| u32_at(v, 0));
    let info = attr(rest, libc::IFLA_LINKINFO).unwrap_or_default();
    Some(Link {
        name: text(attr(rest, libc::IFLA_IFNAME)?),
        index: u32_at(body, 4)?,
        mac: ethernet(body).then(|| attr(rest, libc::IFLA_ADDRESS)?.try_into().ok()).flatten(),
        mtu: number(libc::IFLA_MTU).unwrap_or(0),
        queue_len: number(libc::IFLA_TXQLEN).unwrap_or(0),
        flags: LinkFlags(u32_at(body, 8)?),
        kind: attr(info, libc::IFLA_INFO_KIND).map(text),
        peer: number(libc::IFLA_LINK),
        master: number(libc::IFLA_MASTER),
        open_queues: open_queues(info),
        queues: (
            number(libc::IFLA_NUM_RX_QUEUES).unwrap_or(1),
            number(libc::IFLA_NUM_TX_QUEUES).unwrap_or(1),
        ),
        xdp: attr(rest, libc::IFLA_XDP).and_then(parse_xdp),
        alias: attr(rest, libc::IFLA_IFALIAS).map(text),
        carrier: carrier(rest),
    })
}

/// The operational state is unknown (RFC 2863 §3.1.14) until a driver has changed the carrier.
fn carrier(rest: &[u8]) -> Option<bool> {
    const UNKNOWN: u8 = 0;
    let byte = |kind| attr(rest, kind).and_then(|value| value.first().copied());
    byte(libc::IFLA_OPERSTATE).filter(|state| *state != UNKNOWN)?;
    byte(libc::IFLA_CARRIER).map(|carries| carries != 0)
}

/// Reads `IFLA_LINKINFO`. A TAP with one queue has no number of queues.
fn open_queues(info: &[u8]) -> Option<u32> {
    let data = attr(info, libc::IFLA_INFO_DATA)
        .filter(|_| attr(info, libc::IFLA_INFO_KIND).map(text).as_deref() == Some("tun"))?;
    let count = |kind| attr(data, kind).and_then(|v| u32_at(v, 0));
    Some(count(IFLA_TUN_NUM_QUEUES)? + count(IFLA_TUN_NUM_DISABLED_QUEUES).unwrap_or(0))
}

fn ethernet(body: &[u8]) -> bool {
    u16_at(body, 2) == Some(libc::ARPHRD_ETHER)
}

fn parse_xdp(nested: &[u8]) -> Option<XdpAttached> {
    let mode = match attr(nested, IFLA_XDP_ATTACHED)?.first()? {
        1 => XdpAttachMode::Native,
        2 => XdpAttachMode::Generic,
        3 => XdpAttachMode::Offloaded,
        4 => XdpAttachMode::Multiple,
        _ => return None,
    };
    let program_id = attr(nested, IFLA_XDP_PROG_ID).and_then(|v| u32_at(v, 0)).unwrap_or(0);
    Some(XdpAttached { program_id, mode })
}

fn no_such(name: &str, error: NetlinkError) -> NetlinkError {
    match error {
        NetlinkError::Refused { source, .. } if source.raw_os_error() == Some(libc::ENODEV) => missing(name),
        other => other,
    }
}

fn missing(name: &str) -> NetlinkError {
    NetlinkError::NoSuchLink(name.to_owned())
}

/// The longest alias, bytes (`IFALIASZ`, which counts a zero behind it).
pub const ALIAS_MAX: usize = 255;
/// Length of `struct ifinfomsg`.
const IFINFO: usize = 16;
const IFLA_TUN_NUM_QUEUES: u16 = 8;
const IFLA_TUN_NUM_DISABLED_QUEUES: u16 = 9;
const VETH_INFO_PEER: u16 = 1;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_FLAGS: u16 = 3;
const IFLA_XDP_PROG_ID: u16 = 4;
const XDP_FLAGS_UPDATE_IF_NOEXIST: u32 = 1;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
