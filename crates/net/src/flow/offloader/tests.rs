use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::*;
use crate::fib::{Prefix, Route};
use crate::link::tables::Config;
use crate::testkit::link::{FAMILIES, Family as Ip};
use crate::testkit::{Bench, build, ifnet};

/// A table that drivers would read.
#[derive(Default)]
struct Recorded {
    generation: AtomicU32,
    flows: Vec<(Scope, Ends)>,
}

impl FlowTable for Recorded {
    fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    fn invalidate(&self) {
        self.generation.fetch_add(1, Relaxed);
    }

    fn insert(&mut self, flow: &OffloadedFlow) -> Result<RecordId, Refused> {
        let key = (flow.scope, flow.before);
        if self.flows.contains(&key) {
            return Err(Refused::Known);
        }
        self.flows.push(key);
        Ok(RecordId { scope: flow.scope, is_ip4: true, at: 0 })
    }

    fn counted(&self, _: RecordId) -> Forwarded {
        Forwarded::default()
    }

    fn remove(&mut self, _: RecordId) {}
}

fn pick<T>(family: Ip, v4: T, v6: T) -> T {
    match family {
        Ip::V4 => v4,
        Ip::V6 => v6,
    }
}

fn far(family: Ip, host: u8) -> IpAddr {
    match family {
        Ip::V4 => IpAddr::from([198, 51, 100, host]),
        Ip::V6 => IpAddr::from([0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, host.into()]),
    }
}

/// Routes to one host by one gateway, to another one by two, and to a network by one, of which another one has a part.
fn config(family: Ip) -> Config {
    let via = |host| To::Gateway { ifindex: 2, via: family.addr(2, host) }.into();
    let route = |host, hops| Route { fib: 0, to: Prefix::host(far(family, host)), hops };
    let net = |v4: (&str, u8), v6: (&str, u8), hop| {
        let (addr, len) = pick(family, v4, v6);
        Route { fib: 0, to: Prefix::new(addr.parse().unwrap(), len).unwrap(), hops: vec![hop] }
    };
    Config {
        generation: 2,
        ifs: vec![ifnet(1), ifnet(2)],
        routes: vec![
            route(1, vec![via(100)]),
            route(2, vec![via(101), via(102)]),
            net(("203.16.0.0", 12), ("2a00::", 12), via(100)),
            net(("203.16.0.1", 32), ("2a00::1", 128), via(101)),
        ],
        forwarding: true,
        ..Config::default()
    }
}

/// Lets some packets of two flows go to a host, and returns the records.
fn recorded(family: Ip, dst: IpAddr, rules: Option<&str>) -> Vec<OffloadedFlow> {
    let mut bench = Bench::with(2, 1, |config| *config = self::config(family));
    if let Some(rules) = rules {
        bench.set_rules(&mut crate::testkit::rules::rules(rules));
    }
    bench.netisrs[0].set_flows(Some(64));
    bench.netisrs[0].set_offload(Some(Box::new(Recorded::default())), 2);
    for port in [1, 2] {
        for _ in 0..8 {
            let packet = build::udp(family.addr(1, 9), dst, (port, 7), b"datagram");
            bench.inject(1, build::frame(1, &packet));
            bench.run();
        }
    }
    bench.netisrs[0].offloaded(16).iter().map(|listed| listed.flow).collect()
}

#[test]
fn one_record_is_for_all_flows_to_a_destination_unless_rules_or_several_next_hops_tell_them_apart() {
    for family in FAMILIES {
        let scopes = |host, rules| {
            let all = recorded(family, far(family, host), rules);
            all.iter().map(|flow| flow.scope).collect::<Vec<_>>()
        };
        let all = recorded(family, far(family, 1), None);
        let [only] = all[..] else { panic!("{all:?}") };
        let Ends { src, dst, src_port, dst_port } = only.before;
        assert_eq!(
            (only.scope, only.protocol, only.after),
            (Scope::Destination(pick(family, 32, 128)), 0, only.before)
        );
        assert_eq!((dst, src_port, dst_port), (far(family, 1), 0, 0));
        assert!(src.is_unspecified() && src.is_ipv4() == dst.is_ipv4());
        assert_eq!(scopes(2, None), [Scope::Flow; 2], "by two gateways");
        assert_eq!(
            scopes(1, Some("add 1 count udp from any to any\nadd 2 allow ip from any to any")),
            [Scope::Flow; 2],
            "with rules"
        );
    }
}

#[test]
fn one_record_is_for_all_destinations_that_are_looked_up_alike() {
    for (v4, v6) in [
        // Nothing else is near; the host's route is near; it is beside it.
        (("203.17.5.9", "203.17.0.0", 16), ("2a01:5::9", "2a01:5::", 32)),
        (("203.16.5.9", "203.16.5.0", 24), ("2a00:0:1::9", "2a00:0:1::", 48)),
        (("203.16.0.9", "203.16.0.9", 32), ("2a00::9", "2a00::9", 128)),
        (("203.16.0.1", "203.16.0.1", 32), ("2a00::1", "2a00::1", 128)),
        // Hosts of a link are neighbours of their own.
        (("10.0.2.7", "10.0.2.7", 32), ("2001:db8:2::7", "2001:db8:2::7", 128)),
    ] {
        for family in FAMILIES {
            let (dst, of, bits) = pick(family, v4, v6);
            let all = recorded(family, dst.parse().unwrap(), None);
            let [only] = all[..] else { panic!("{dst}: {all:?}") };
            let expected = (Scope::Destination(bits), of.parse().unwrap());
            assert_eq!((only.scope, only.before.dst), expected, "{dst}");
        }
    }
}

#[test]
fn addresses_that_no_router_forwards_to_are_in_no_record_of_others() {
    let of = |dst: &str, decide| common_bits(dst.parse().unwrap(), decide);
    assert_eq!((of("::2:1", 16), of("1::2:1", 16), of("1::2:1", 49)), (128, 32, 64));
    assert_eq!((of("0.0.0.1", 1), of("203.0.113.1", 17), of("203.0.113.1", 25)), (16, 24, 32));
}
