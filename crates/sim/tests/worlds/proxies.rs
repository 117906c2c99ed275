//! Proxy ARP and proxy neighbour discovery: two links that look like one.

use std::sync::Arc;

use net::count::Count;
use net::tables::{Publication, Published};
use net::time::Duration;
use sim::plan::Family;
use sim::world::Permit;

use crate::common::{BOOT, Shape, pair};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_host_whose_prefix_covers_both_links_reaches_the_other_link_through_a_proxy() {
    for family in Family::BOTH {
        for shape in Shape::several() {
            let mut pair = pair("proxy", 1, shape);
            pair.world.allow(Permit::Loss);
            // Host 2 of network 1 takes both networks for its link, and has no router.
            pair.world.at(pair.a).stretch_prefixes(16);
            let target = family.addr(2, 2);
            pair.world.at(pair.a).ping(target, [1, 1], 56);
            pair.world.run_for(5 * SECOND);
            assert_eq!(pair.world.at(pair.a).replies(1), 0, "no proxy, no answer");
            // As `arp -s ADDRESS MAC pub` and `ndp -s ADDRESS MAC proxy` do.
            let list = vec![Publication { addr: target, mac: None }];
            let published = Arc::new(Published::new(list, false));
            pair.world.of(pair.router).change(|spec| spec.ports[0].published = published);
            pair.world.run_for(BOOT);
            pair.world.at(pair.a).forget_neighbours();
            for seq in 0..20 {
                pair.world.at(pair.a).ping(target, [2, seq], 56);
                pair.world.run_for(SECOND / 10);
            }
            pair.world.run_for(SECOND);
            assert_eq!(pair.world.at(pair.a).replies(2), 20, "{}", pair.world.drops());
            let router = pair.world.of(pair.router);
            let proxied = router.count(Count::ArpProxied) + router.count(Count::NdProxied);
            assert!(proxied >= 1);
            // As `arp -d ADDRESS` does.
            pair.world.of(pair.router).change(|spec| spec.ports[0].published = Arc::default());
            pair.world.run_for(SECOND);
            pair.world.at(pair.a).forget_neighbours();
            pair.world.at(pair.a).ping(target, [3, 1], 56);
            pair.world.run_for(5 * SECOND);
            assert_eq!(pair.world.at(pair.a).replies(3), 0, "the entry is gone");
            pair.world.finish();
        }
    }
}
