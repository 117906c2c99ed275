//! Attacks by any node on the link, and their bounds.

use core::net::{IpAddr, Ipv6Addr};

use net::count::Count;
use net::drop::DropReason;
use net::ip6::autoconf::{ADDRS_MAX, PREFIXES_MAX, ROUTERS_MAX};
use net::tables::IfAddr;
use net::time::Duration;
use sim::builder::{self, Ip};
use sim::frame::Frame;
use sim::host::{Port, Spec};
use sim::plan::{self, Family};
use wire::ether::{EtherType, Mac};
use wire::nd::{Message, Opt, RouterAdvert};
use wire::tcp::{Flags, Header, Options};
use wire::{Protocol, icmp4};

use super::link::{self, FAR, Link, advert, mac, nd_frame, ours, prefix, router};

/// A host that has one address and one router.
fn settled(name: &str, cpus: u16) -> Link {
    let mut link = Link::new(name, cpus, link::EUI64);
    link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
    link
}

#[test]
fn a_flood_of_advertisements_makes_a_bounded_number_of_everything_and_few_tables() {
    for cpus in link::CPUS {
        let mut link = settled("ra_flood", cpus);
        let before = link.host().cpus[0].netisr.cpu.tables.generation;
        for number in 0..2000_u16 {
            let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 1, 0, number);
            let [high, low] = number.to_be_bytes();
            let addr = Ipv6Addr::new(0x2001, 0xdb8, 0x1000 + number, 0, 0, 0, 0, 0);
            let prefix = wire::nd::Prefix { addr, ..prefix(1) };
            link.hear_from(from, Mac([2, 0, 0, 7, high, low]), advert(), &[Opt::Prefix(prefix)]);
        }
        let status = link.status().unwrap();
        let lens = (status.routers.len(), status.prefixes.len(), status.addrs.len());
        assert_eq!(lens, (ROUTERS_MAX, PREFIXES_MAX, ADDRS_MAX));
        for (count, least) in [
            (Count::NdRoutersFull, 2000 - ROUTERS_MAX),
            (Count::NdPrefixesFull, 2000 - PREFIXES_MAX),
            (Count::NdAddrsFull, 2000 - ADDRS_MAX),
        ] {
            let counted = usize::try_from(link.host().count(count)).unwrap();
            assert!(counted >= least, "{}: {counted}", count.name());
        }
        let tables = link.host().cpus[0].netisr.cpu.tables.generation - before;
        assert!(tables <= 2000 / 100 + 2, "{tables} tables in about two seconds");
        link.world.run_for(Duration::from_secs(3));
        assert_eq!(link.chosen(), Some(router(1)), "who was there first stays");
        assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
    }
}

#[test]
fn an_advertisement_that_breaks_a_rule_changes_nothing() {
    let mut link = settled("broken_ra", 2);
    let (before, host) = (link.status(), plan::mac(1, 2));
    let said = RouterAdvert { lifetime_s: 9000, reachable_ms: 7, ..advert() };
    let options = [Opt::SourceLinkAddr(mac(7)), Opt::Prefix(prefix(7))];
    let good =
        nd_frame(mac(7), [router(7), "ff02::1".parse().unwrap()], Message::RouterAdvert(said), &options);
    let change = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.bytes.clone();
        change(&mut bytes);
        Frame::new(bytes)
    };
    let broken = [
        ("a hop limit of 254", change(&|bytes| bytes[14 + 7] = 254), DropReason::NdHopLimit),
        ("a global source", nd_global(said, &options), DropReason::NdMalformed),
        ("a bad checksum", change(&|bytes| bytes[14 + 42] ^= 1), DropReason::IcmpBadChecksum),
        ("our own link address", nd_own(said, host), DropReason::NdMalformed),
        ("a group's link address", nd_own(said, Mac([3, 0, 0, 0, 0, 1])), DropReason::NdMalformed),
    ];
    for (what, frame, reason) in broken {
        let dropped = link.host().dropped(reason);
        link.inject(1, frame);
        assert_eq!(link.host().dropped(reason), dropped + 1, "{what}: {:?}", link.host().drops());
        assert_eq!(link.status(), before, "{what}");
    }
}

/// From an address that is no link-local one.
fn nd_global(said: RouterAdvert, options: &[Opt<'_>]) -> Frame {
    nd_frame(
        mac(7),
        ["2001:db8:1::7".parse().unwrap(), wire::addr::ALL_NODES],
        Message::RouterAdvert(said),
        options,
    )
}

/// With a link address that no router has.
fn nd_own(said: RouterAdvert, named: Mac) -> Frame {
    let options = [Opt::SourceLinkAddr(named)];
    nd_frame(mac(7), [router(7), wire::addr::ALL_NODES], Message::RouterAdvert(said), &options)
}

#[test]
fn parameters_out_of_range_are_not_believed() {
    let mut link = settled("parameters", 1);
    let before = link.status().unwrap().learned;
    let bad = [
        (RouterAdvert { hop_limit: 1, ..advert() }, 1500),
        (RouterAdvert { reachable_ms: 3_600_001, ..advert() }, 1501),
        (RouterAdvert { retrans_ms: 1, ..advert() }, 1279),
        (RouterAdvert { retrans_ms: u32::MAX, ..advert() }, 0),
    ];
    for (said, mtu) in bad {
        link.hear(1, said, &[Opt::Mtu(mtu)]);
        let learned = link.status().unwrap().learned;
        assert_eq!(
            (learned.hop_limit, learned.reachable, learned.retrans),
            (None, before.reachable, before.retrans)
        );
        assert!(learned.mtu.is_none_or(|mtu| mtu == 1500), "{learned:?}");
    }
    let good = RouterAdvert { hop_limit: 99, reachable_ms: 5000, retrans_ms: 2000, ..advert() };
    link.hear(1, good, &[Opt::Mtu(1400)]);
    let learned = link.status().unwrap().learned;
    let seconds = [learned.reachable.as_secs(), learned.retrans.as_secs()];
    assert_eq!((learned.hop_limit, learned.mtu, seconds), (Some(99), Some(1400), [5, 2]));
}

#[test]
fn a_redirect_that_the_router_in_use_did_not_send_is_ignored() {
    for cpus in link::CPUS {
        let mut link = settled("forged_redirect", cpus);
        let quoted = link.datagram_to(FAR);
        let option = [Opt::TargetLinkAddr(mac(2)), Opt::Redirected(&quoted)];
        link.redirect_by(router(2), mac(2), router(2), FAR, &option);
        link.redirect_by("2001:db8:1::7".parse().unwrap(), mac(1), router(2), FAR, &option);
        link.redirect_by(router(1), mac(1), "2001:db8:1::7".parse().unwrap(), FAR, &option);
        link.redirect_by(router(1), mac(1), router(2), "ff05::1".parse().unwrap(), &option);
        link.redirect_by(router(1), mac(1), ours(), FAR, &option);
        let to = ours();
        let message = Message::Redirect { target: router(2), destination: FAR };
        let mut hopped = nd_frame(mac(1), [router(1), to], message, &option);
        hopped.bytes[14 + 7] = 64;
        link.inject(1, hopped);
        assert_eq!(link.host().count(Count::NdRedirectsIn), 0);
        link.pings(FAR);
        assert_eq!(link.heard_pings(2), 0, "all go by the router in use");
    }
}

/// IPv4's are obeyed by no host.
#[test]
fn a_redirect_about_a_packet_that_no_socket_can_have_sent_is_not_obeyed() {
    for (cpus, family) in link::CPUS.into_iter().flat_map(|cpus| Family::BOTH.map(|family| (cpus, family))) {
        let mut link = Link::around("redirect_of_nothing", |cable| {
            let mut port = Port::new(cable, 1, 2).autoconf(link::EUI64);
            port.addrs = vec![IfAddr { addr: Family::V4.addr(1, 2), prefix_len: 24 }];
            Spec::host("host").cpus(cpus).port(port)
        });
        link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
        link.binds(family);
        let (far, near): (IpAddr, _) = match family {
            Family::V4 => (Family::V4.addr(9, 9), Family::V4.addr(1, 7)),
            Family::V6 => (FAR.into(), "2001:db8:1::7".parse().unwrap()),
        };
        let own = match family {
            Family::V4 => Family::V4.addr(1, 2),
            Family::V6 => link.speaker(far_v6(far)),
        };
        let udp = |from, to, port| builder::udp(Ip::new(from, to), [port, 9], &[0; 56]);
        let (flags, options) = (Flags::ACK, Options::NONE);
        let segment = Header {
            src_port: link::PORT,
            dst_port: 9,
            seq: 1,
            ack: 1,
            flags,
            window: 1000,
            urgent: 0,
            options,
        };
        for (what, quoted) in [
            ("too little", Some(udp(own, far, link::PORT)[..24].to_vec())),
            ("a datagram of another host", Some(udp(near, far, link::PORT))),
            ("a datagram to another host", Some(udp(own, near, link::PORT))),
            ("a datagram from a port without a socket", Some(udp(own, far, link::PORT + 1))),
            ("a segment of no connection", Some(builder::tcp(Ip::new(own, far), &segment, &[]))),
            ("a request of no ping", Some(builder::echo(Ip::new(own, far), false, [1, 1], &[0; 56]))),
        ] {
            let before = link.host().dropped(DropReason::IcmpNotSent);
            redirected(&mut link, own, far, quoted.as_deref());
            let is_counted = link.host().dropped(DropReason::IcmpNotSent) - before == 1;
            assert_eq!(is_counted, family == Family::V6, "{what}: {:?}", link.host().drops());
            assert!(has_learned_nothing(&mut link), "{family:?} {what}");
        }
        redirected(&mut link, own, far, Some(&udp(own, far, link::PORT)));
        assert_eq!(has_learned_nothing(&mut link), family == Family::V4);
        let all = link.host().dropped(DropReason::IcmpRedirect);
        assert_eq!(all, if family == Family::V4 { 7 } else { 0 });
    }
}

/// Router 1 says that router 2 is the better way to `far`.
fn redirected(link: &mut Link, own: IpAddr, far: IpAddr, quoted: Option<&[u8]>) {
    let IpAddr::V4(gateway) = Family::V4.addr(1, 202) else { return };
    if own.is_ipv6() {
        let quoted = quoted.map(Opt::Redirected);
        let options: Vec<_> = core::iter::once(Opt::TargetLinkAddr(mac(2))).chain(quoted).collect();
        return link.redirect_by(router(1), mac(1), router(2), far_v6(far), &options);
    }
    let quote = quoted.unwrap_or_default();
    let header = icmp4::Message::Redirect { code: icmp4::redirect::HOST, gateway }.to_bytes(quote);
    let ip = Ip::new(Family::V4.addr(1, 201), own);
    let packet = builder::packet(ip, Protocol::ICMP, &[&header[..], quote].concat());
    link.inject(1, Frame::around(mac(1), plan::mac(1, 2), EtherType::IPV4, &packet));
}

fn far_v6(far: IpAddr) -> Ipv6Addr {
    match far {
        IpAddr::V6(far) => far,
        IpAddr::V4(_) => FAR,
    }
}

fn has_learned_nothing(link: &mut Link) -> bool {
    link.host().cpus.iter().all(|cpu| cpu.netisr.cpu.dests.is_empty())
}

#[test]
fn redirects_without_end_take_a_bounded_place() {
    let mut link = settled("many_redirects", 2);
    for number in 0..3000_u16 {
        let far = Ipv6Addr::new(0x2001, 0xdb8, 0xfff, number, 0, 0, 0, 1);
        link.redirect(1, 2, far);
    }
    assert_eq!(link.host().count(Count::NdRedirectsIn), 3000);
    for cpu in &link.host().cpus {
        assert_eq!(cpu.netisr.cpu.dests.len(), net::host_cache::DESTS_MAX);
    }
    assert!(link.host().count(Count::DestEvicted) >= 2 * (3000 - net::host_cache::DESTS_MAX as u64));
    assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
}

#[test]
fn a_host_that_answers_every_dad_probe_denies_addresses_without_load() {
    let mut link = Link::around("dad_dos", |cable| {
        let port = Port::new(cable, 1, 2).autoconf(link::STABLE);
        Spec::host("host").port(port)
    });
    link.router_has_everything(2);
    link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
    link.world.run_for(Duration::from_secs(60));
    let asked = link.host().count(Count::NdSolicitsSent);
    link.world.run_for(Duration::from_secs(600));
    assert_eq!(link.host().count(Count::NdSolicitsSent), asked, "it has given up");
    let addr: Ipv6Addr = link.addrs().remove(0).parse().unwrap();
    let key = net::addr::Key { ifindex: 1, addr: addr.into() };
    let state = link.host().cpus[0].netisr.cpu.addrs.state(&key);
    assert_eq!(state, Some(net::addr::State::Duplicated), "and says so");
}
