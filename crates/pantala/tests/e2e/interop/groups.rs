//! Groups that pantala joins and leaves, as a Linux host on the link sees it.

use core::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::net::UdpSocket;

use rustix::net::{AddressFamily, SocketType, ipproto, socket};
use wire::membership::{Kind, Records};
use wire::{igmp, mld};

use super::{ECHO, lab};
use crate::lab::{Family, Host, Lab};
use crate::wait::until;

/// The groups of both families; the second one is of the link.
const GROUPS: [&str; 2] = ["239.1.2.3", "ff12::1:2:3"];

pub(super) fn group(family: Family) -> IpAddr {
    family.pick(GROUPS[0], GROUPS[1]).parse().unwrap()
}

/// A Linux host that hears what is reported to routers, and sends to the group.
struct Linux {
    ear: UdpSocket,
    mouth: UdpSocket,
    family: Family,
    /// The group, and where the service waits.
    to: SocketAddr,
    pantala: IpAddr,
}

impl Linux {
    fn new(host: &Host, family: Family) -> Self {
        let ifindex = host.netns.netlink().unwrap().link(&host.inside()).unwrap().index;
        let here = host.addr(family);
        let [ear, mouth] =
            host.netns.run(|| [ear(here, ifindex), UdpSocket::bind((here, 0)).unwrap()]).unwrap();
        mouth.set_nonblocking(true).unwrap();
        let to = match group(family) {
            IpAddr::V4(group) => (group, ECHO).into(),
            IpAddr::V6(group) => SocketAddrV6::new(group, ECHO, 0, ifindex).into(),
        };
        Self { ear, mouth, family, to, pantala: host.router(family) }
    }

    /// Waits until pantala has reported such a change of the group.
    fn hears(&self, kind: Kind) {
        until(&format!("a report of {kind:?}"), || {
            let mut packet = [0; 1500];
            let len = self.ear.recv(&mut packet).ok()?;
            says(self.family, &packet[..len], kind).then_some(())
        });
    }

    fn sends(&self) {
        assert_eq!(self.mouth.send_to(b"who?", self.to).unwrap(), 4);
    }

    /// Whether an answer has come, which is of pantala then.
    fn has_heard(&self) -> Option<()> {
        let (len, from) = self.mouth.recv_from(&mut [0; 100]).ok()?;
        assert_eq!((len, from), (4, (self.pantala, ECHO).into()));
        Some(())
    }
}

/// A raw socket in the group of all routers, to which reports are sent.
fn ear(here: IpAddr, ifindex: u32) -> UdpSocket {
    let (family, protocol) = match here {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::IGMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let ear = UdpSocket::from(socket(family, SocketType::RAW, Some(protocol)).unwrap());
    match here {
        IpAddr::V4(here) => ear.join_multicast_v4(&igmp::ALL_IGMP3_ROUTERS, &here).unwrap(),
        IpAddr::V6(_) => ear.join_multicast_v6(&mld::ALL_MLD2_ROUTERS, ifindex).unwrap(),
    }
    ear.set_nonblocking(true).unwrap();
    ear
}

/// Whether a report has a record of this kind about the group.
fn says(family: Family, packet: &[u8], kind: Kind) -> bool {
    let is_it = |records: Records<'_>| {
        records.into_iter().any(|record| (record.kind, record.group) == (kind, group(family)))
    };
    match family {
        // IPv4's raw sockets show the header too.
        Family::V4 => packet
            .get(usize::from(packet[0] & 15) * 4..)
            .and_then(igmp::Message::parse)
            .is_some_and(|message| matches!(message, igmp::Message::Report3(records) if is_it(records))),
        Family::V6 => mld::Message::parse(packet)
            .is_some_and(|message| matches!(message, mld::Message::Report2(records) if is_it(records))),
    }
}

/// Returns the count of datagrams to groups without a listener.
fn unwanted(lab: &Lab) -> u64 {
    lab.pantala().dropped("group_not_joined") + lab.pantala().dropped("forward_multicast")
}

fn what_linux_sends_to_a_group_comes_to_pantala_from_its_first_report_to_its_last() {
    let test =
        "interop::groups::what_linux_sends_to_a_group_comes_to_pantala_from_its_first_report_to_its_last";
    let Some(lab) = lab(test, "") else { return };
    lab.both(|family| {
        let hosts: Vec<_> = lab.hosts.iter().map(|host| Linux::new(host, family)).collect();
        let service = format!("[[service]]\nkind = \"echo\"\naddress = \"{}\"\n", group(family));
        lab.pantala().rewrite_config(&lab.config(&service));
        lab.pantala().shows("reload");
        for host in &hosts {
            host.hears(Kind::ToExclude);
            host.sends();
            until("an answer", || host.has_heard());
        }
        lab.pantala().rewrite_config(&lab.config(""));
        lab.pantala().shows("reload");
        for host in &hosts {
            host.hears(Kind::ToInclude);
            let before = unwanted(&lab);
            host.sends();
            until("the datagram dies", || (unwanted(&lab) > before).then_some(()));
            assert!(host.has_heard().is_none(), "pantala has left");
        }
    });
}

harness::tests![what_linux_sends_to_a_group_comes_to_pantala_from_its_first_report_to_its_last];
