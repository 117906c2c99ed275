//! Datagrams for a host that come in fragments.

use net::time::Duration;
use sim::cable;
use sim::host::Port;
use sim::mem::Rss;
use sim::plan::{Family, mac};
use sim::station::{Content, IcmpError};

use crate::common::{Shape, pair, pair_with};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_host_answers_pings_of_all_sizes_from_near_and_far() {
    for family in Family::BOTH {
        for shape in Shape::several() {
            let mut pair = pair("ping_host", 1, shape);
            let far = family.addr(2, 1);
            let sizes = [0, 1, 56, 1400, 1472, 3000, 9000];
            for (seq, len) in (0..).zip(sizes) {
                pair.world.at(pair.a).ping(family.addr(1, 1), [1, seq], len);
                pair.world.at(pair.a).ping(far, [2, seq], len);
                pair.world.run_for(SECOND);
            }
            for id in [1, 2] {
                for len in sizes {
                    let is_it = |what| matches!(what, Content::EchoReply { id: of, len: its, .. } if (of, its) == (id, len));
                    let heard = pair.world.at(pair.a).has_heard(|heard| is_it(heard.what));
                    assert!(heard, "no reply {id} of {len} bytes, {family:?}\n{}", pair.world.drops());
                }
            }
            pair.world.finish();
        }
    }
}

#[test]
fn fragments_that_never_become_whole_are_given_up() {
    for family in Family::BOTH {
        let mut pair = pair("never_whole", 1, Shape { cpus: 4, rings: 2, rss: Rss::Wrong });
        let sent_by = pair.world.at(pair.a).ip_to(family.addr(1, 1));
        let whole = sim::builder::echo(sent_by, false, [1, 1], &[0; 4000]);
        let to = mac(1, 1);
        for (at, fragment) in sim::builder::fragments(&whole, 1280, 77).into_iter().enumerate() {
            if at != 1 {
                let ethertype =
                    if family == Family::V4 { wire::EtherType::IPV4 } else { wire::EtherType::IPV6 };
                let frame = sim::frame::Frame::around(mac(1, 2), to, ethertype, &fragment);
                pair.world.at(pair.a).send_frame(frame);
            }
        }
        pair.world.run_for(100 * SECOND);
        let said: Vec<_> = pair.world.at(pair.a).errors().collect();
        assert_eq!(said, [(family.addr(1, 1), IcmpError::ReassemblyTime)], "{}", pair.world.drops());
        pair.world.finish();
    }
}

#[test]
fn fragments_that_never_become_whole_do_not_silence_the_ring_that_they_came_by() {
    for family in Family::BOTH {
        for cpus in [1, 3] {
            let shape = Shape { cpus, rings: 1, rss: Rss::Absent };
            let small = |port: Port| port.card(|card| (card.ring_len, card.allowance) = (8, 32));
            let mut pair = pair_with("silent_ring", 1, shape, small, [cable::Spec::default(); 2]);
            for id in 0..100 {
                let sent_by = pair.world.at(pair.a).ip_to(family.addr(1, 1));
                let whole = sim::builder::echo(sent_by, false, [1, 1], &[0; 2000]);
                let ethertype =
                    if family == Family::V4 { wire::EtherType::IPV4 } else { wire::EtherType::IPV6 };
                let first = sim::builder::fragments(&whole, 1280, id).swap_remove(0);
                let frame = sim::frame::Frame::around(mac(1, 2), mac(1, 1), ethertype, &first);
                pair.world.at(pair.a).send_frame(frame);
                pair.world.run_for(Duration::from_millis(1));
            }
            pair.world.at(pair.a).ping(family.addr(1, 1), [7, 7], 8);
            pair.world.run_for(SECOND);
            assert_eq!(
                pair.world.at(pair.a).replies(7),
                1,
                "{family:?}, {cpus} CPUs\n{}",
                pair.world.drops()
            );
            pair.world.run_for(100 * SECOND);
            pair.world.finish();
        }
    }
}
