//! AF_XDP: an interface of the host is taken over. Its frames come to us and no longer to the kernel's stack, which may
//! still send some of its own (router solicitations, MLD, ARP for addresses that it has).

use core::ops::RangeInclusive;

use dev::af_xdp::{Mode, Options, Port, Programs, Share, SharedRing, XdpRing};
use dev::bpf::share::Claim;
use dev::netlink::{Link, Rtnetlink};
use dev::sys::ethtool::Ethtool;
use dev::sys::promisc::Promisc;
use net::ringmap::RingMap;
use net::tables::Rxcsum;
use wire::ether::Mac;

use super::super::cpus::NewRing;
use super::super::log;
use super::{
    Facts, Hold, Opened, Programmed, PutBack, Steering, Workshop, caps, mac_of, misfit, refused, rxcsum,
    takeover,
};
use crate::StackError;
use crate::api::{CopyMode, DeviceMode, Umem};
use crate::config::{Interface, XdpMode};

/// A device as the configuration has it.
pub(super) struct Wanted<'d> {
    pub(super) host: &'d str,
    pub(super) mode: XdpMode,
    pub(super) queues: Option<RangeInclusive<u32>>,
    pub(super) share: bool,
}

pub(super) fn open(
    interface: &Interface,
    unit: u16,
    wanted: Wanted<'_>,
    workshop: &mut Workshop,
) -> Result<Opened, StackError> {
    let no = |why: &dyn core::fmt::Display| refused(interface, why);
    let Wanted { host, mode, queues: chosen, share } = wanted;
    let queues = queues(interface, host, chosen, &mut workshop.netlink)?;
    let link = workshop.netlink.link(host).map_err(|why| no(&why))?;
    let mac = mac_of(&link, interface)?;
    clear_leftover(&link, &mut workshop.netlink);
    let mut put_back = PutBack::new(host).map_err(|why| no(&why))?;
    put_back.set_up().map_err(|why| no(&why))?;
    if workshop.busy_poll
        && let Err(why) = put_back.defer_interrupts()
    {
        log::info(&format!("interface {}: interrupts of {host} are not deferred: {why}", interface.name));
    }
    // Before the rings are there: some devices begin anew when their table is changed.
    let mut nic = None;
    let map = workshop.map(unit, queues.clone().count());
    let steering = Steering::ask(workshop.cpus, &map, || {
        nic = Some(program(host, &map, &queues)?);
        Ok(Steering::Nic)
    });
    let options = Options {
        ifindex: link.index,
        first_queue: *queues.start(),
        queues: queues.end() - queues.start() + 1,
        mtu: link.mtu,
        mode: attach_mode(mode),
        allowance: workshop.memory.allowance,
        busy_poll: workshop.busy_poll,
    };
    let user = super::xdp::in_kernel(interface)?;
    let Workshop { umem, netlink, patience, offload, .. } = workshop;
    let opened = if share {
        let share = share_of(&link, mac);
        let open = || Port::open_shared(umem, &options, &share, user.as_ref());
        takeover::open(open, host, netlink, *patience).map(|(port, rings)| (port, each(rings, shared_ring)))
    } else {
        let table = offload.table_for(interface);
        let programs = Programs { user: user.as_ref(), offload: table.as_deref() };
        let open = || Port::open_with(umem, &options, programs);
        takeover::open(open, host, netlink, *patience).map(|(port, rings)| (port, each(rings, new_ring)))
    };
    let (port, rings) = opened.map_err(|why| no(&why))?;
    warn(interface, &link, &port);
    let (first_queue, base) = (*queues.start(), facts(interface, &link, mac, &port, &rings, workshop));
    let facts = Facts { first_queue, steering, ..base };
    Ok(Opened {
        facts,
        rings,
        hold: Hold {
            port: Some(port),
            nic,
            _groups: groups(interface, &link, mac),
            put_back: Some(put_back),
            ..Hold::default()
        },
    })
}

/// The part of a shared interface that is ours: frames to a link address of our own, or else those to our addresses.
fn share_of(link: &Link, mac: Mac) -> Share {
    let claim = if is_own(link, mac) { Claim::LinkAddress } else { Claim::Addresses };
    Share { mac: mac.octets(), claim }
}

/// Whether the configuration has given us a link address beside the kernel's.
fn is_own(link: &Link, mac: Mac) -> bool {
    link.mac != Some(mac.octets())
}

fn each<R>(rings: Vec<R>, new: fn(R) -> NewRing) -> Vec<NewRing> {
    rings.into_iter().map(new).collect()
}

/// Lets the device deliver frames to all groups: which of them are for us, the stack knows, and the host's kernel does not. A port
/// of a bridge gets the frames for all stations; so does a shared interface with a second link address.
fn groups(interface: &Interface, link: &Link, mac: Mac) -> Option<Promisc> {
    let all = interface.is_port || (interface.device.is_shared() && is_own(link, mac));
    let held = if all { Promisc::hold(link.index) } else { Promisc::hold_groups(link.index) };
    if let Err(why) = &held {
        log::warning(&format!(
            "interface {}: {} may filter multicast frames: {why}",
            interface.name, link.name
        ));
    }
    held.ok()
}

/// Lets the NIC bring frames to the CPUs of their flows, if it can.
fn program(host: &str, map: &RingMap, queues: &RangeInclusive<u32>) -> Result<Programmed, String> {
    let device = Ethtool::open(host).map_err(|why| why.to_string())?;
    Programmed::new(device, map, *queues.start(), queues.end() - queues.start() + 1)
}

fn new_ring(ring: XdpRing) -> NewRing {
    NewRing { waiter: ring.waiter(), driver: Box::new(ring) }
}

fn shared_ring(ring: SharedRing) -> NewRing {
    NewRing { waiter: ring.waiter(), driver: Box::new(ring) }
}

fn facts(
    interface: &Interface,
    link: &Link,
    mac: Mac,
    port: &Port,
    rings: &[NewRing],
    workshop: &Workshop,
) -> Facts {
    let generic = port.mode == Mode::Generic;
    let copy = if port.mode == Mode::ZeroCopy { CopyMode::ZeroCopy } else { CopyMode::Copy };
    Facts {
        mac,
        mtu_max: link.mtu,
        mtu: interface.mtu.unwrap_or(link.mtu),
        caps: caps(rings),
        rxcsum: rxcsum(interface.rxcsum, if is_veth(link) { Rxcsum::Complete } else { Rxcsum::Verify }),
        rings: rings.len(),
        first_queue: 0,
        steering: Steering::Needless,
        mode: if generic { DeviceMode::Generic } else { DeviceMode::Native },
        copy: Some(copy),
        umem: Some(umem(workshop)),
        host: Some((link.name.clone(), link.index)),
    }
}

fn umem(workshop: &Workshop) -> Umem {
    let chunk_bytes = u32::try_from(pkt::BUF_LEN).unwrap_or(u32::MAX);
    Umem { chunks: u32::try_from(workshop.buffers).unwrap_or(u32::MAX), chunk_bytes }
}

/// A veth delivers checksums as partial as its other end left them.
fn is_veth(link: &Link) -> bool {
    link.kind.as_deref() == Some("veth")
}

const fn attach_mode(mode: XdpMode) -> Mode {
    match mode {
        XdpMode::Auto => Mode::Auto,
        XdpMode::Native => Mode::Native,
        XdpMode::Generic => Mode::Generic,
        XdpMode::ZeroCopy => Mode::ZeroCopy,
    }
}

/// Says what is less than one might expect.
fn warn(interface: &Interface, link: &Link, port: &Port) {
    let (name, host) = (&interface.name, &link.name);
    if let Some(why) = &port.fell_back {
        log::warning(&format!("interface {name}: {host} is used in generic mode: {why}"));
    }
    if let Some(why) = &port.copies_because {
        log::debug(&format!("interface {name}: frames of {host} are copied: {why}"));
    }
    if interface.offload && port.is_shared() {
        log::warning(&format!("interface {name}: flows are not offloaded: {host} is shared with the kernel"));
    }
    if let Some(why) = &port.no_offload_because {
        log::warning(&format!("interface {name}: flows are not offloaded: {why}"));
    }
    if !port.ends_with_process() {
        log::debug(&format!("{host}: this kernel leaves the XDP program there if pantala is killed"));
    }
}

/// The queues to be taken over.
pub(super) fn queues(
    interface: &Interface,
    host: &str,
    chosen: Option<RangeInclusive<u32>>,
    netlink: &mut Rtnetlink,
) -> Result<RangeInclusive<u32>, StackError> {
    let link = netlink.link(host).map_err(|why| refused(interface, &why))?;
    let there = queue_count(&link);
    let queues = chosen.unwrap_or_else(|| 0..=interface.rings.unwrap_or(there).saturating_sub(1));
    let wanted = queues.end() + 1;
    if wanted > there {
        let most = if there == 1 { "1 queue".to_owned() } else { format!("{there} queues") };
        return Err(misfit(
            interface,
            &format!(
                "{host} has {most}, and {wanted} are asked for; \
                 use rings = {there} or less, or `ethtool -L {host} combined {wanted}` if it can have more"
            ),
        ));
    }
    warn_of_unused(interface, host, &queues, there);
    Ok(queues)
}

fn warn_of_unused(interface: &Interface, host: &str, queues: &RangeInclusive<u32>, there: u32) {
    let used = queues.end() - queues.start() + 1;
    if used < there {
        log::warning(&format!(
            "interface {}: {used} of the {there} queues of {host} are used; frames that arrive at the others go to the \
             kernel (`ethtool -L {host} combined {used}` leaves no others)",
            interface.name
        ));
    }
}

fn queue_count(link: &Link) -> u32 {
    let channels = Ethtool::open(&link.name).and_then(|device| device.channels());
    channels.map_or(link.queues.0, |channels| channels.rx).max(1)
}

/// Takes a program of ours off that a killed process left behind, where the kernel did not.
fn clear_leftover(link: &Link, netlink: &mut Rtnetlink) {
    let Some(xdp) = link.xdp else { return };
    let ours = dev::bpf::prog::name_of(xdp.program_id).is_ok_and(|name| name == dev::bpf::redirect::NAME);
    // One that a living process holds is not to be had, and the attempt to attach ours will say so.
    if ours && netlink.detach_xdp(link.index).is_ok() {
        log::info(&format!("{}: removed an XDP program left behind by an earlier run", link.name));
    }
}
