//! The BSD words against the real stack.

use crate::daemon::lab::{Lab, OURS, THEIRS, Wire};

fn routes_are_made_used_and_removed() {
    let Some(lab) = Lab::new("route", Wire::Tap) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    daemon.shows("route add 203.0.113.0/24 192.0.2.2");
    daemon.shows("route add -6 2001:db8:5::/48 2001:db8::2");
    daemon.shows_line("netstat -rn", "203.0.113.0/24 192.0.2.2 UGS lan");
    daemon.shows_line("netstat -rn", "2001:db8:5::/48 2001:db8::2 UGS lan");
    daemon.shows_line("route -n get 203.0.113.7", "gateway: 192.0.2.2");
    let (again, text) = daemon.run("route add 203.0.113.0/24 192.0.2.3");
    assert!(!again && text.contains("there is a route to 203.0.113.0/24 already"), "{text}");
    let (off_link, text) = daemon.run("route add 198.51.100.0/24 10.9.9.9");
    assert!(!off_link && text.contains("not on the link of any interface"), "{text}");
    daemon.shows("route delete 203.0.113.0/24");
    assert!(!daemon.shows("netstat -rn").contains("203.0.113.0/24"));
    let (connected, text) = daemon.run("route delete 192.0.2.0/24");
    assert!(!connected && text.contains("follows from an address"), "{text}");
}

fn neighbours_are_learnt_shown_set_and_forgotten() {
    let Some(lab) = Lab::new("neigh", Wire::Tap) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    lab.address_host();
    assert!(OURS.iter().all(|ours| lab.host_reaches(ours)));
    let mac = dev_mac(&lab);
    for (word, theirs) in ["arp", "ndp"].into_iter().zip(THEIRS) {
        daemon.shows_line(&format!("{word} -an"), &mac);
        daemon.shows(&format!("{word} -d {theirs}"));
        assert!(!daemon.shows(&format!("{word} -an")).contains(&mac), "{word}");
    }
    daemon.shows("arp -s 192.0.2.99 02:00:00:00:00:99");
    daemon.shows_line("arp -an", "(192.0.2.99) at 02:00:00:00:00:99 on lan permanent");
}

fn an_address_published_by_hand_outlasts_changes_and_reloads() {
    let Some(lab) = Lab::new("published", Wire::Tap) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    let both = [("arp", "192.0.2.98"), ("ndp", "2001:db8::98")];
    for (word, host) in both {
        daemon.shows(&format!("{word} -s {host} auto pub"));
    }
    // The link address needs the device anew.
    for change in ["ifconfig lan 192.0.2.97/24 alias", "ifconfig lan ether 02:00:00:00:00:97", "reload"] {
        daemon.shows(change);
        for (word, host) in both {
            assert!(daemon.shows(&format!("{word} -an")).contains(host), "{host} behind `{change}`");
        }
    }
    for (word, host) in both {
        daemon.shows(&format!("{word} -d {host}"));
        assert!(!daemon.shows(&format!("{word} -an")).contains(host), "{host}");
    }
}

fn dev_mac(lab: &Lab) -> String {
    let octets = lab.link("pt0").unwrap().mac.unwrap();
    octets.map(|octet| format!("{octet:02x}")).join(":")
}

fn an_interface_goes_down_and_comes_up_again_with_its_routes() {
    let Some(lab) = Lab::new("down", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    assert!(lab.host_reaches(OURS[0]));
    daemon.shows("ifconfig lan down");
    assert!(!daemon.shows("netstat -rn").contains("192.0.2.0/24"));
    assert!(!daemon.run("ping -c 1 -W 0.1 192.0.2.2").0);
    daemon.shows("ifconfig lan up");
    assert!(OURS.iter().all(|ours| lab.host_reaches(ours)));
}

fn counters_and_buffers_add_up() {
    let Some(lab) = Lab::new("count", Wire::Veth { queues: 2 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    daemon.shows("ping -c 5 -i 0.01 192.0.2.2");
    let interface = &daemon.interface();
    let count = |of: &serde_json::Value, what: &str| of["counters"][what].as_u64().unwrap();
    assert!(count(interface, "tx_packets") >= 5 && count(interface, "rx_bytes") >= 5 * 98);
    // Rings are asked first; what is sent in between is in one of both only, but not each time.
    let add_up = |_| {
        let interface = daemon.interface();
        let rings = interface["rings"].as_array().unwrap();
        rings.iter().map(|ring| count(ring, "tx_packets")).sum::<u64>() == count(&interface, "tx_packets")
    };
    assert!((0..20).any(add_up), "{}", daemon.interface());
    for pool in daemon.json("netstat -m").as_array().unwrap() {
        let get = |what: &str| pool[what].as_u64().unwrap();
        assert!(get("free") + get("in_rings") <= get("buffers") && get("denied") == 0, "{pool}");
    }
    assert!(daemon.shows("netstat -s").contains("ICMP"));
}

harness::tests![
    routes_are_made_used_and_removed,
    neighbours_are_learnt_shown_set_and_forgotten,
    an_address_published_by_hand_outlasts_changes_and_reloads,
    an_interface_goes_down_and_comes_up_again_with_its_routes,
    counters_and_buffers_add_up,
];
