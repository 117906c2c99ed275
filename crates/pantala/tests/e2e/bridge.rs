//! Hosts on the ports of a bridge, beside the kernel's bridge with the same hosts.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use dev::netns::Netns;

use crate::lab::{Attach, Family, Lab, Link};
use crate::need;
use crate::socket::{ping, stream_arrives};

/// An address on the bridge's network; 1 is the bridge, 2 and more are hosts.
fn addr(family: Family, host: u16) -> IpAddr {
    let [_, small] = host.to_be_bytes();
    family.pick(Ipv4Addr::new(10, 99, 0, small).into(), Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, host).into())
}

fn ip(netns: &Netns, words: &str) {
    let status = netns.run(|| Command::new("ip").args(words.split(' ')).status()).unwrap().unwrap();
    assert!(status.success(), "ip {words}");
}

/// Everything that hosts of a bridge expect of it.
fn reach_each_other(lab: &Lab, what: &str) {
    lab.both(|family| {
        for from in &lab.hosts {
            assert_eq!(ping(&from.netns, addr(family, 1), 3), 3, "{what}: to the bridge");
            for to in lab.hosts.iter().filter(|to| to.number() != from.number()) {
                let there = addr(family, to.number() + 1);
                assert_eq!(ping(&from.netns, there, 3), 3, "{what}: to a host");
                assert!(stream_arrives(&from.netns, &to.netns, there, 1_000_000).unwrap(), "{what}");
            }
        }
    });
}

fn hosts_of_a_bridge_reach_each_other_and_it_as_they_do_on_the_kernels() {
    const NAME: &str = "bridge::hosts_of_a_bridge_reach_each_other_and_it_as_they_do_on_the_kernels";
    if !need::program("ip") {
        return;
    }
    for kinds in [[Attach::Native, Attach::Tap, Attach::Tap], [Attach::Native; 3]] {
        let links = kinds.map(Link::new);
        let Some(mut lab) = Lab::without_pantala(NAME, &links) else { return };
        let ports: Vec<_> = lab
            .hosts
            .iter()
            .map(|host| {
                let (name, port) = (host.ifname(), host.outside());
                let device = if host.link.attach == Attach::Tap {
                    format!("tap:{port}")
                } else {
                    format!("af_xdp:{port},mode=native")
                };
                format!("[[interface]]\nname = \"{name}\"\ndevice = \"{device}\"\n")
            })
            .collect();
        let names: Vec<_> = lab.hosts.iter().map(|host| host.ifname()).collect();
        let [v4, v6] = Family::BOTH.map(|family| addr(family, 1));
        let bridge = format!(
            "[[interface]]\nname = \"bridge0\"\ndevice = \"bridge:{}\"\naddress = [\"{v4}/24\", \"{v6}/64\"]\n",
            names.join(",")
        );
        lab.pantala = Some(crate::pantala::Pantala::start(&lab.router, &(ports.concat() + &bridge)));
        lab.attach();
        for host in &lab.hosts {
            for family in Family::BOTH {
                let own = addr(family, host.number() + 1);
                ip(&host.netns, &format!("address add {own}/{} dev eth0 nodad", family.pick(24, 64)));
            }
        }
        reach_each_other(&lab, "pantala");
        let shown = lab.pantala().interfaces();
        let bridge = shown.iter().find(|shown| shown.name == "bridge0").unwrap();
        for name in &names {
            assert!(bridge.fdb.iter().any(|station| station.port.as_ref() == Some(name)), "{:?}", bridge.fdb);
        }
        assert_eq!(bridge.device.as_ref().unwrap().bridge.as_ref().unwrap().members.len(), 3);
    }
    // The same hosts on the kernel's bridge.
    let Some(lab) = Lab::without_pantala(NAME, &[(); 3].map(|()| Link::new(Attach::Native))) else { return };
    ip(&lab.router, "link add br0 type bridge");
    ip(&lab.router, "link set br0 up");
    crate::lab::enable_ipv6(&lab.router, "br0");
    for family in Family::BOTH {
        ip(&lab.router, &format!("address add {}/{} dev br0 nodad", addr(family, 1), family.pick(24, 64)));
    }
    for host in &lab.hosts {
        ip(&lab.router, &format!("link set {} master br0 up", host.outside()));
        for family in Family::BOTH {
            let own = addr(family, host.number() + 1);
            ip(&host.netns, &format!("address add {own}/{} dev eth0 nodad", family.pick(24, 64)));
        }
    }
    reach_each_other(&lab, "the kernel");
}

harness::tests![hosts_of_a_bridge_reach_each_other_and_it_as_they_do_on_the_kernels];
