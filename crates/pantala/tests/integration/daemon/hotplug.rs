//! Devices that are deleted and made again.

use dev::netlink::Veth;
use rustix::process::Signal;

use crate::daemon::lab::{Daemon, Lab, OURS, THEIRS, Wire};

const ROUNDS: usize = 5;

/// Both families, both ways.
fn reach_each_other(lab: &Lab, daemon: &Daemon<'_>) {
    for (ours, theirs) in OURS.into_iter().zip(THEIRS) {
        assert!(lab.host_reaches(ours), "{ours}\n{}", daemon.shows("netstat -s"));
        let pinged = daemon.shows(&format!("ping -c 3 -i 0.01 {theirs}"));
        assert!(pinged.contains("3 packets received"), "{pinged}");
    }
}

fn a_veth_that_is_deleted_and_made_again_is_taken_up_without_a_restart_and_nothing_leaks() {
    let Some(lab) = Lab::new("again", Wire::Veth { queues: 2 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    reach_each_other(&lab, &daemon);
    let mut descriptors = None;
    for _ in 0..ROUNDS {
        lab.delete_link("pt0");
        daemon.says("interface lan: af_xdp:pt0 is gone");
        daemon.shows_line("ifconfig lan", "status: no carrier");
        lab.lay_veth(2);
        daemon.says("interface lan is back: af_xdp:pt0, native, 2 rings");
        daemon.shows_line("ifconfig lan", "status: active");
        reach_each_other(&lab, &daemon);
        daemon.has_descriptors(&mut descriptors);
    }
    daemon.signal(Signal::TERM);
    daemon.says("0 buffers missing, 0 leaked");
    daemon.says("ended");
    assert!(lab.link("pt0").unwrap().xdp.is_none());
}

fn a_veth_that_is_back_before_its_end_was_seen_is_taken_up_too() {
    let Some(lab) = Lab::new("quick", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    for _ in 0..ROUNDS {
        daemon.signal(Signal::STOP);
        lab.delete_link("pt0");
        lab.lay_veth(1);
        daemon.signal(Signal::CONT);
        daemon.says("interface lan: af_xdp:pt0 is gone");
        daemon.says("interface lan is back");
        reach_each_other(&lab, &daemon);
    }
    assert!(daemon.end(Signal::TERM));
}

fn a_device_that_is_back_but_not_as_configured_is_said_once_and_taken_up_when_it_is_right() {
    let Some(lab) = Lab::new("fewer", Wire::Veth { queues: 2 }) else { return };
    lab.write(&lab.config("rings = 2"));
    let daemon = lab.start();
    lab.delete_link("pt0");
    daemon.says("is gone");
    lab.lay_veth(1);
    daemon.says("pt0 has 1 queue, and 2 are asked for");
    lab.delete_link("pt0");
    lab.lay_veth(2);
    daemon.says("interface lan is back");
    reach_each_other(&lab, &daemon);
}

fn other_interfaces_that_come_and_go_are_nothing_to_it() {
    let Some(lab) = Lab::new("others", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    for _ in 0..ROUNDS {
        lab.add_veth(&Veth::new("x0", "x1"));
        lab.delete_link("x0");
    }
    reach_each_other(&lab, &daemon);
    daemon.signal(Signal::TERM);
    let said = daemon.says_all_until("ended");
    assert!(!said.iter().any(|line| line.contains("is gone")), "{said:?}");
}

fn a_tap_that_is_deleted_is_made_again() {
    let Some(lab) = Lab::new("tapagain", Wire::Tap) else { return };
    lab.write(&lab.config("rings = 2"));
    let daemon = lab.start();
    lab.address_host();
    reach_each_other(&lab, &daemon);
    let mut descriptors = None;
    for _ in 0..ROUNDS {
        lab.delete_link("pt0");
        daemon.says("interface lan: tap:pt0 is gone");
        daemon.says("interface lan is back: tap:pt0, 2 rings");
        lab.address_host();
        reach_each_other(&lab, &daemon);
        daemon.has_descriptors(&mut descriptors);
    }
    daemon.signal(Signal::TERM);
    daemon.says("0 buffers missing, 0 leaked");
}

fn a_tap_that_goes_with_the_namespace_it_was_moved_to_is_made_again() {
    for polling in ["adaptive", "always"] {
        let Some(lab) = Lab::new("container", Wire::Tap) else { return };
        lab.write(&format!("polling = \"{polling}\"\n{}", lab.config("")));
        let daemon = lab.start();
        let container = dev::netns::Netns::anonymous().unwrap();
        lab.move_link("pt0", &container);
        container.netlink().unwrap().set_up("pt0", true).unwrap();
        daemon.shows_line("ifconfig lan", "status: active");
        container.netlink().unwrap().delete_link("pt0").unwrap();
        daemon.says("interface lan: tap:pt0 is gone");
        daemon.says("interface lan is back");
        lab.address_host();
        reach_each_other(&lab, &daemon);
    }
}

fn routes_by_a_device_that_is_gone_give_way_and_come_back_with_it() {
    let Some(lab) = Lab::new("routes", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(
        "[[interface]]\nname = \"other\"\ndevice = \"tap:pt1\"\naddress = [\"198.51.100.1/24\"]\n\
         [[route]]\nto = \"203.0.113.0/24\"\nvia = [\"192.0.2.2\"]\n\
         [[route]]\nto = \"203.0.113.0/25\"\nvia = [\"198.51.100.2\"]",
    ));
    let daemon = lab.start();
    daemon.shows_line("route -n get 203.0.113.200", "gateway: 192.0.2.2");
    lab.delete_link("pt0");
    daemon.says("is gone");
    assert!(!daemon.run("route -n get 203.0.113.200").1.contains("gateway: 192.0.2.2"));
    daemon.shows_line("route -n get 203.0.113.1", "gateway: 198.51.100.2");
    lab.lay_veth(1);
    daemon.says("is back");
    daemon.shows_line("route -n get 203.0.113.200", "gateway: 192.0.2.2");
}

fn killed_and_started_at_once_it_waits_for_what_is_ending() {
    for wire in [Wire::Tap, Wire::Veth { queues: 2 }] {
        let Some(lab) = Lab::new("atonce", wire) else { continue };
        lab.write(&lab.config(""));
        let mut daemon = lab.start();
        for _ in 0..2 * ROUNDS {
            let mut killed = daemon.kill_and_go_on();
            daemon = lab.start();
            killed.wait().unwrap();
        }
        if matches!(wire, Wire::Tap) {
            lab.address_host();
        }
        reach_each_other(&lab, &daemon);
        assert!(daemon.end(Signal::TERM));
    }
}

fn an_interface_that_a_living_process_has_is_refused_at_once_with_the_process_to_stop() {
    let Some(lab) = Lab::new("living", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(""));
    let first = lab.start();
    // Another socket, the same device.
    lab.write(&lab.config("").replacen("/sock\"", "/other\"", 1));
    let said = String::from_utf8(lab.start_in_vain().stderr).unwrap();
    let pid = first.id();
    assert!(said.contains(&format!("process {pid} (pantala) has an XDP program on pt0; stop it")), "{said}");
    assert!(!said.contains("xdp off"), "the kernel would refuse: {said}");
}

fn a_program_that_no_process_holds_is_named_with_the_command_that_removes_it() {
    let Some(lab) = Lab::new("foreign", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(""));
    lab.leave_program("pt0");
    let said = String::from_utf8(lab.start_in_vain().stderr).unwrap();
    assert!(said.contains("`ip link set dev pt0 xdp off` removes it"), "{said}");
}

harness::tests![
    a_veth_that_is_deleted_and_made_again_is_taken_up_without_a_restart_and_nothing_leaks,
    a_veth_that_is_back_before_its_end_was_seen_is_taken_up_too,
    a_device_that_is_back_but_not_as_configured_is_said_once_and_taken_up_when_it_is_right,
    other_interfaces_that_come_and_go_are_nothing_to_it,
    a_tap_that_is_deleted_is_made_again,
    a_tap_that_goes_with_the_namespace_it_was_moved_to_is_made_again,
    routes_by_a_device_that_is_gone_give_way_and_come_back_with_it,
    killed_and_started_at_once_it_waits_for_what_is_ending,
    an_interface_that_a_living_process_has_is_refused_at_once_with_the_process_to_stop,
    a_program_that_no_process_holds_is_named_with_the_command_that_removes_it,
];
