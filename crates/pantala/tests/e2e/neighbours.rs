//! ARP and neighbour discovery against Linux, seen through `arp` and `ndp`.

use core::time::Duration;

use serde_json::Value;

use crate::lab::{Attach, Family, Host, Lab, Link, at};
use crate::socket::{ping, udp};
use crate::wait::{until, until_right, within};

fn lab(test: &str) -> Option<Lab> {
    Lab::start(test, &[Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2)])
}

fn word(family: Family) -> &'static str {
    family.pick("arp", "ndp")
}

/// Returns pantala's entry of an address.
fn entry(lab: &Lab, family: Family, address: core::net::IpAddr) -> Option<Value> {
    let all = lab.pantala().json(&format!("{} -an", word(family)));
    let named = |entry: &&Value| entry["address"] == address.to_string();
    all.as_array().unwrap().iter().find(named).cloned()
}

fn mac(host: &Host) -> String {
    let mac = host.netns.netlink().unwrap().link(&host.inside()).unwrap().mac.unwrap();
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn a_host_that_was_spoken_to_is_known_and_its_entry_runs_out() {
    let Some(lab) = lab("neighbours::a_host_that_was_spoken_to_is_known_and_its_entry_runs_out") else {
        return;
    };
    let (a, b) = lab.pair();
    lab.both(|family| {
        assert_eq!(ping(&a.netns, b.addr(family), 2), 2);
        for host in [a, b] {
            let found = until("the entry is there", || entry(&lab, family, host.addr(family)));
            assert_eq!(found["mac"], mac(host), "{found}");
            assert_eq!(found["interface"], host.ifname(), "{found}");
            assert_eq!(found["permanent"], false, "{found}");
            let life = |entry: &Value| entry["expires_s"].as_u64().unwrap();
            let first = life(&found);
            let aged = || entry(&lab, family, host.addr(family)).map(|entry| (life(&entry), entry));
            until_right("it ages", aged, |aged| aged.as_ref().is_some_and(|(left, _)| *left < first));
        }
    });
}

fn an_unused_entry_goes_stale_and_is_confirmed_on_its_next_use() {
    /// Above the longest `ReachableTime` that may be drawn (RFC 4861 §6.3.2: half as long again as 30 s).
    const LONGEST: Duration = Duration::from_secs(50);
    let test = "neighbours::an_unused_entry_goes_stale_and_is_confirmed_on_its_next_use";
    let Some(lab) = lab(test) else { return };
    let (a, b) = lab.pair();
    let state = |family| Some(entry(&lab, family, b.addr(family))?["state"].as_str()?.to_owned());
    lab.both(|family| until("it answers", || (ping(&a.netns, b.addr(family), 1) == 1).then_some(())));
    lab.both(|family| {
        let is_stale = || (state(family)? == "stale").then_some(());
        assert_eq!(within(LONGEST, is_stale), Some(()), "{:?}", state(family));
    });
    lab.both(|family| {
        assert_eq!(ping(&a.netns, b.addr(family), 1), 1);
        until_right("it is confirmed", || state(family), |state| state.as_deref() == Some("reachable"));
    });
}

fn one_that_does_not_answer_is_incomplete_and_then_gone() {
    let Some(lab) = lab("neighbours::one_that_does_not_answer_is_incomplete_and_then_gone") else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let nobody = b.neighbour(family, 88);
        let socket = udp(&a.netns, nobody);
        socket.send_to(&[0; 8], at(nobody, 9)).unwrap();
        let found = until("it is asked for", || entry(&lab, family, nobody));
        assert_eq!((&found["state"], &found["mac"]), (&"incomplete".into(), &Value::Null), "{found}");
        let is_given_up = || entry(&lab, family, nobody);
        until_right("it is given up", is_given_up, Option::is_none);
    });
}

fn entries_are_deleted_and_learnt_again() {
    let Some(lab) = lab("neighbours::entries_are_deleted_and_learnt_again") else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        assert_eq!(ping(&a.netns, b.addr(family), 1), 1);
        until("the entry is there", || entry(&lab, family, b.addr(family)));
        lab.pantala().shows(&format!("{} -d {}", word(family), b.addr(family)));
        assert_eq!(entry(&lab, family, b.addr(family)), None);
        assert_eq!(ping(&a.netns, b.addr(family), 3), 3, "learnt again");
        lab.pantala().shows(&format!("{} -ad", word(family)));
        assert_eq!(ping(&a.netns, b.addr(family), 3), 3, "learnt again after all were forgotten");
        let said = lab.pantala().command(&format!("{} -d {}", word(family), b.neighbour(family, 200)));
        assert_eq!(said.code, Some(1), "{said:?}");
    });
}

fn a_static_entry_is_obeyed_and_not_overwritten() {
    let Some(lab) = lab("neighbours::a_static_entry_is_obeyed_and_not_overwritten") else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let (word, address) = (word(family), b.addr(family));
        lab.pantala().shows(&format!("{word} -s {address} 02:00:00:00:0e:0e"));
        let found = entry(&lab, family, address).unwrap();
        assert_eq!(
            (&found["mac"], &found["permanent"]),
            (&"02:00:00:00:0e:0e".into(), &true.into()),
            "{found}"
        );
        // The host's own packets, and its questions for pantala, say otherwise.
        assert_eq!(ping(&b.netns, a.addr(family), 1), 0, "the reply goes to the wrong place");
        assert_eq!(entry(&lab, family, address).unwrap()["mac"], "02:00:00:00:0e:0e");
        lab.pantala().shows(&format!("{word} -s {address} {}", mac(b)));
        assert_eq!(ping(&b.netns, a.addr(family), 2), 2);
        lab.pantala().shows(&format!("{word} -d {address}"));
        assert_eq!(ping(&a.netns, address, 2), 2);
    });
}

fn an_address_that_a_host_has_too_is_reported() {
    let links = [Link::new(Attach::Native), Link::new(Attach::Native)];
    let test = "neighbours::an_address_that_a_host_has_too_is_reported";
    let Some(mut lab) = Lab::without_pantala(test, &links) else { return };
    let thief = &lab.hosts[0];
    let mut netlink = thief.netns.netlink().unwrap();
    for (family, length) in [(Family::V4, 24), (Family::V6, 64)] {
        netlink.add_address(&thief.inside(), ipnet::IpNet::new_assert(thief.router(family), length)).unwrap();
    }
    lab.run_pantala("");
    let thief = &lab.hosts[0];
    let ifname = thief.ifname();
    // Linux does not answer announcements; but it asks for others with its own address.
    let stolen = thief.router(Family::V4);
    let asks = thief.netns.run(|| std::net::UdpSocket::bind((stolen, 0))).unwrap().unwrap();
    let states = || {
        asks.send_to(&[0; 8], at(thief.neighbour(Family::V4, 77), 9)).unwrap();
        let text = lab.pantala().json(&format!("ifconfig {ifname}")).to_string();
        (text, lab.pantala().counter("arp_conflicts"), lab.pantala().counter("nd_conflicts"))
    };
    until_right("the conflicts are seen", states, |(text, arp, nd)| {
        text.contains("duplicated") && *arp > 0 && *nd > 0
    });
    let (_, other) = lab.pair();
    lab.both(|family| assert_eq!(ping(&other.netns, other.router(family), 3), 3, "the others are well"));
}

harness::tests![
    a_host_that_was_spoken_to_is_known_and_its_entry_runs_out,
    an_unused_entry_goes_stale_and_is_confirmed_on_its_next_use,
    one_that_does_not_answer_is_incomplete_and_then_gone,
    entries_are_deleted_and_learnt_again,
    a_static_entry_is_obeyed_and_not_overwritten,
    an_address_that_a_host_has_too_is_reported,
];
