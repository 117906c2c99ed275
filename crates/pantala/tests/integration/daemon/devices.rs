//! Packets flow over every device, and a device may go.

use rustix::process::Signal;

use crate::daemon::lab::{Daemon, Lab, OURS, THEIRS, Wire};

const WIRES: [Wire; 3] = [Wire::Tap, Wire::Veth { queues: 1 }, Wire::Veth { queues: 2 }];

fn reach_each_other(lab: &Lab, daemon: &Daemon<'_>) {
    for (ours, theirs) in OURS.into_iter().zip(THEIRS) {
        assert!(lab.host_reaches(ours), "{ours}\n{}", daemon.shows("netstat -s"));
        let pinged = daemon.shows(&format!("ping -c 3 -i 0.01 -s 3000 {theirs}"));
        assert!(pinged.contains("3 packets received"), "{pinged}");
    }
}

fn a_linux_host_and_pantala_reach_each_other_over_every_device_in_both_families() {
    for wire in WIRES {
        let Some(lab) = Lab::new("reach", wire) else { continue };
        lab.write(&lab.config(""));
        let daemon = lab.start();
        if matches!(wire, Wire::Tap) {
            lab.address_host();
        }
        reach_each_other(&lab, &daemon);
        daemon.shows_line("ifconfig lan", "status: active");
    }
}

fn an_interface_with_fewer_rings_than_cpus_is_used_by_all_cpus() {
    let Some(lab) = Lab::new("rings", Wire::Tap) else { return };
    lab.write(&lab.config("rings = 1"));
    let daemon = lab.start();
    lab.address_host();
    reach_each_other(&lab, &daemon);
    // Each from another port, so that every CPU owns some of them.
    assert!((0..32).all(|_| lab.host_reaches(OURS[0])));
    let netisrs = daemon.json("netstat -Q");
    let idle = |netisr: &&serde_json::Value| netisr["packets"] == 0;
    assert_eq!(netisrs.as_array().unwrap().iter().find(idle), None);
    assert_eq!(daemon.interface()["rings"].as_array().unwrap().len(), 1);
}

fn what_a_thousand_programs_send_at_once_waits_in_a_tap_whose_queue_is_put_back() {
    let Some(lab) = Lab::new("burst", Wire::Tap) else { return };
    let queue_len = || lab.link("pt0").unwrap().queue_len;
    lab.keep_tap();
    let before = queue_len();
    lab.write(&lab.config("rings = 1"));
    let daemon = lab.start();
    lab.address_host();
    assert!(lab.host_reaches(OURS[0]));
    let came = || daemon.interface()["counters"]["rx_packets"].as_u64().unwrap();
    let first = came();
    daemon.signal(Signal::STOP);
    lab.host_sends(OURS[0], 3000);
    daemon.signal(Signal::CONT);
    // It asks behind them, by the same queue.
    assert!(lab.host_reaches(OURS[0]));
    assert!(came() - first >= 3000, "{} came", came() - first);
    assert!(daemon.end(Signal::TERM));
    assert_eq!(queue_len(), before);
}

fn more_rings_than_the_device_has_are_a_mistake_in_the_configuration() {
    let Some(lab) = Lab::new("many", Wire::Veth { queues: 2 }) else { return };
    lab.write(&lab.config("rings = 3"));
    let said = lab.start_in_vain();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2), "{text}");
    assert!(text.contains("pt0 has 2 queues, and 3 are asked for"), "{text}");
}

fn a_device_that_is_deleted_leaves_a_stack_that_goes_on() {
    let Some(lab) = Lab::new("gone", Wire::Veth { queues: 1 }) else { return };
    lab.write(
        &lab.config("[[interface]]\nname = \"other\"\ndevice = \"tap:pt1\"\naddress = [\"198.51.100.1/24\"]"),
    );
    let daemon = lab.start();
    reach_each_other(&lab, &daemon);
    lab.delete_link("pt0");
    daemon.shows_line("ifconfig lan", "status: no carrier");
    daemon.shows_line("ifconfig other", "status: active");
    assert!(!daemon.run("ping -c 3 -i 0.01 -W 0.1 192.0.2.2").0);
    assert!(daemon.end(Signal::TERM));
}

harness::tests![
    a_linux_host_and_pantala_reach_each_other_over_every_device_in_both_families,
    an_interface_with_fewer_rings_than_cpus_is_used_by_all_cpus,
    what_a_thousand_programs_send_at_once_waits_in_a_tap_whose_queue_is_put_back,
    more_rings_than_the_device_has_are_a_mistake_in_the_configuration,
    a_device_that_is_deleted_leaves_a_stack_that_goes_on,
];
