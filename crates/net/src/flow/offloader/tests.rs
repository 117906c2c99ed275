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

fn far(family: Ip, host: u8) -> IpAddr {
    match family {
        Ip::V4 => IpAddr::from([198, 51, 100, host]),
        Ip::V6 => IpAddr::from([0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, host.into()]),
    }
}

/// Routes to one host by one gateway, and to another one by two.
fn config(family: Ip) -> Config {
    let via = |host| To::Gateway { ifindex: 2, via: family.addr(2, host) }.into();
    let route = |host, hops| Route { fib: 0, to: Prefix::host(far(family, host)), hops };
    Config {
        generation: 2,
        ifs: vec![ifnet(1), ifnet(2)],
        routes: vec![route(1, vec![via(100)]), route(2, vec![via(101), via(102)])],
        forwarding: true,
        ..Config::default()
    }
}

/// Lets some packets of two flows go to a host, and returns the records.
fn recorded(family: Ip, host: u8, rules: Option<&str>) -> Vec<OffloadedFlow> {
    let mut bench = Bench::with(2, 1, |config| *config = self::config(family));
    if let Some(rules) = rules {
        bench.set_rules(&mut crate::testkit::rules::rules(rules));
    }
    bench.netisrs[0].set_flows(Some(64));
    bench.netisrs[0].set_offload(Some(Box::new(Recorded::default())), 2);
    for port in [1, 2] {
        for _ in 0..8 {
            let packet = build::udp(family.addr(1, 9), far(family, host), (port, 7), b"datagram");
            bench.inject(1, build::frame(1, &packet));
            bench.run();
        }
    }
    bench.netisrs[0].offloaded(16).iter().map(|listed| listed.flow).collect()
}

#[test]
fn one_record_is_for_all_flows_to_a_destination_unless_rules_or_several_next_hops_tell_them_apart() {
    for family in FAMILIES {
        let scopes =
            |host, rules| recorded(family, host, rules).iter().map(|flow| flow.scope).collect::<Vec<_>>();
        let all = recorded(family, 1, None);
        let [only] = all[..] else { panic!("{all:?}") };
        let Ends { src, dst, src_port, dst_port } = only.before;
        assert_eq!((only.scope, only.protocol, only.after), (Scope::Destination, 0, only.before));
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
