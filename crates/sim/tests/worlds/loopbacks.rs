//! Loopback interfaces: addresses of a host that are on no link.

use net::count::Count;
use net::drop::DropReason;
use net::time::Duration;
use sim::cable;
use sim::firewall::HostFirewall;
use sim::plan::Family;
use sim::station::IcmpError;

use crate::common::{Shape, pair_around};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_loopback_address_answers_whatever_link_is_down_and_nothing_is_sent_by_the_interface() {
    for shape in Shape::several() {
        let cables = [cable::Spec::default(); 2];
        let mut pair = pair_around("loopback", 1, shape, |router| router.loopback(7, 1), |port| port, cables);
        assert!(pair.world.of(pair.router).change(|spec| spec.ports[1].up = false));
        for (ident, family) in [1, 2].into_iter().zip(Family::BOTH) {
            pair.world.at(pair.a).ping(family.addr(7, 1), [ident, 1], 56);
            pair.world.run_for(SECOND);
            assert_eq!(
                pair.world.at(pair.a).replies(ident),
                1,
                "{family:?}, {shape:?} {}",
                pair.world.drops()
            );
            // Others of its prefix are nowhere.
            pair.world.at(pair.a).ping(family.addr(7, 9), [ident, 2], 56);
            pair.world.run_for(SECOND);
            let told: Vec<_> = pair.world.at(pair.a).errors().map(|(_, error)| error).collect();
            assert_eq!(told, vec![IcmpError::NoRoute; usize::from(ident)], "{family:?}, {shape:?}");
        }
        let router = pair.world.of(pair.router);
        assert_eq!(router.dropped(DropReason::InterfaceGone), 0, "{:?}", router.drops());
        pair.world.finish();
    }
}

#[test]
fn rules_know_a_loopback_address_as_one_of_this_host() {
    const RULES: &str = "add 5 allow ipv6-icmp from any to any icmp6types 133,134,135,136\n\
         add 10 deny icmp from any to 10.0.7.1\n\
         add 20 deny ipv6-icmp from any to 2001:db8:7::1 icmp6types 128\n\
         add 30 allow ip from any to me\nadd 40 allow ip from me to any\n";
    for shape in Shape::several() {
        let cables = [cable::Spec::default(); 2];
        let more = |router: sim::host::Spec| router.loopback(7, 1).loopback(8, 1);
        let mut pair = pair_around("loopback_rules", 1, shape, more, |port| port, cables);
        let mut firewall = HostFirewall::new(RULES, shape.cpus, 64);
        assert!(pair.world.of(pair.router).set_firewall(&mut firewall));
        pair.world.run_for(SECOND);
        for (ident, family) in [1, 3].into_iter().zip(Family::BOTH) {
            pair.world.at(pair.a).ping(family.addr(7, 1), [ident, 1], 56);
            pair.world.at(pair.a).ping(family.addr(8, 1), [ident + 1, 1], 56);
            pair.world.run_for(SECOND);
            let replies = [ident, ident + 1].map(|ident| pair.world.at(pair.a).replies(ident));
            assert_eq!(replies, [0, 1], "{family:?}, {shape:?} {}", pair.world.drops());
        }
        let router = pair.world.of(pair.router);
        assert_eq!(router.dropped(DropReason::FirewallDeny), 2);
        assert!(router.count(Count::TxPackets) > 0);
        pair.world.finish();
    }
}
