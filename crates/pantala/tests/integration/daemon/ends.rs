//! Shutdown, and that nothing is left behind.

use dev::netlink::LinkFlags;
use rustix::process::Signal;

use crate::daemon::lab::{Lab, OURS, Wire};

fn the_end_puts_everything_back() {
    for (wire, signal) in [(Wire::Tap, Signal::INT), (Wire::Veth { queues: 2 }, Signal::TERM)] {
        let Some(lab) = Lab::new("end", wire) else { continue };
        let before = lab.link("pt0");
        lab.write(&lab.config(""));
        let daemon = lab.start();
        assert!(lab.link("pt0").unwrap().flags.contains(LinkFlags::UP));
        daemon.signal(signal);
        daemon.says("0 buffers missing, 0 leaked");
        daemon.says("ended");
        assert!(daemon.end(Signal::CONT));
        assert!(!lab.socket().exists());
        let state = |link: Option<dev::netlink::Link>| {
            link.map(|link| (link.flags.contains(LinkFlags::UP), link.mtu, link.xdp))
        };
        assert_eq!(state(lab.link("pt0")), state(before));
    }
}

fn after_it_was_killed_it_starts_again() {
    for wire in [Wire::Tap, Wire::Veth { queues: 2 }] {
        let Some(lab) = Lab::new("kill", wire) else { continue };
        lab.write(&lab.config(""));
        assert!(!lab.start().end(Signal::KILL));
        assert!(lab.socket().exists());
        let daemon = lab.start();
        if matches!(wire, Wire::Tap) {
            lab.address_host();
        }
        assert!(lab.host_reaches(OURS[0]));
        assert!(daemon.end(Signal::TERM));
    }
}

fn a_second_one_leaves_the_first_alone() {
    let Some(lab) = Lab::new("two", Wire::Tap) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    let said = String::from_utf8(lab.start_in_vain().stderr).unwrap();
    assert!(said.contains("already running"), "{said}");
    daemon.shows_line("ifconfig lan", "status: active");
}

fn what_was_opened_is_closed_again_if_the_start_fails() {
    let Some(lab) = Lab::new("half", Wire::Tap) else { return };
    lab.write(&lab.config("[[interface]]\nname = \"wan\"\ndevice = \"af_xdp:nope7\""));
    let said = lab.start_in_vain();
    assert_eq!(said.status.code(), Some(1));
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(text.contains("interface wan: no interface named nope7"), "{text}");
    assert!(lab.link("pt0").is_none() && !lab.socket().exists());
}

fn a_wrong_configuration_says_where_it_is_wrong() {
    let Some(lab) = Lab::new("wrong", Wire::Tap) else { return };
    lab.write(&lab.config("mtu = 40"));
    let said = lab.start_in_vain();
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8(said.stderr).unwrap().contains("pantala.toml:6:7: mtu 40 is too small"));
}

harness::tests![
    the_end_puts_everything_back,
    after_it_was_killed_it_starts_again,
    a_second_one_leaves_the_first_alone,
    what_was_opened_is_closed_again_if_the_start_fails,
    a_wrong_configuration_says_where_it_is_wrong,
];
