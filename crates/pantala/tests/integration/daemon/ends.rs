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

/// As an administrator may have set them: empty polls, and nanoseconds.
const INTERRUPTS: [u64; 2] = [5, 40_000];
const POLLED: [u64; 2] = [2, 200_003];
const INTERRUPTS_AT_ONCE: [u64; 2] = [0, 0];

/// A lab whose daemon polls its interface all the time.
fn polled(test: &str) -> Option<Lab> {
    let lab = Lab::new(test, Wire::Veth { queues: 1 })?;
    lab.write(&lab.config("[polling]\npolicy = \"always\""));
    lab.set_interrupts(INTERRUPTS);
    Some(lab)
}

fn the_interrupts_of_a_polled_interface_are_put_back_at_the_end() {
    let Some(lab) = polled("napi") else { return };
    let daemon = lab.start_with_sysfs();
    assert_eq!(lab.interrupts(), POLLED);
    assert!(lab.host_reaches(OURS[0]));
    assert!(daemon.end(Signal::TERM));
    assert_eq!(lab.interrupts(), INTERRUPTS);
}

fn the_interrupts_that_a_killed_process_left_deferred_are_those_of_the_kernel_after_the_next_end() {
    let Some(lab) = polled("napikill") else { return };
    assert!(!lab.start_with_sysfs().end(Signal::KILL));
    assert_eq!(lab.interrupts(), POLLED);
    let daemon = lab.start_with_sysfs();
    assert_eq!(lab.interrupts(), POLLED);
    assert!(daemon.end(Signal::TERM));
    assert_eq!(lab.interrupts(), INTERRUPTS_AT_ONCE);
}

/// `sysfs` is root's, and the process is not root any more.
fn an_interface_that_came_back_is_not_deferred_and_the_log_says_so() {
    let Some(lab) = polled("napiback") else { return };
    let daemon = lab.start_with_sysfs();
    lab.delete_link("pt0");
    daemon.says("is gone");
    lab.lay_veth(1);
    daemon.says("interrupts of pt0 are not deferred");
    daemon.says("is back");
    assert!(lab.host_reaches(OURS[0]));
    assert!(daemon.end(Signal::TERM));
    assert_eq!(lab.interrupts(), INTERRUPTS_AT_ONCE);
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
    the_interrupts_of_a_polled_interface_are_put_back_at_the_end,
    the_interrupts_that_a_killed_process_left_deferred_are_those_of_the_kernel_after_the_next_end,
    an_interface_that_came_back_is_not_deferred_and_the_log_says_so,
    after_it_was_killed_it_starts_again,
    a_second_one_leaves_the_first_alone,
    what_was_opened_is_closed_again_if_the_start_fails,
    a_wrong_configuration_says_where_it_is_wrong,
];
