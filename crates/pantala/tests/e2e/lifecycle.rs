//! Start, end, crash, and devices that go away.

use rustix::process::Signal;

use crate::lab::{Attach, Host, Lab, Link, at};
use crate::pantala::up_fails;
use crate::socket::{ping, udp};
use crate::wait::until_right;

fn links() -> [Link; 2] {
    [Link::new(Attach::Native).rings(2), Link::new(Attach::Generic).rings(2)]
}

fn has_program(lab: &Lab, host: usize) -> bool {
    let mut netlink = lab.router.netlink().unwrap();
    netlink.link(&lab.hosts[host].outside()).unwrap().xdp.is_some()
}

fn a_signal_ends_it_and_nothing_is_left() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(mut lab) = Lab::start("lifecycle::a_signal_ends_it_and_nothing_is_left", &links()) else {
            return;
        };
        let (a, b) = lab.pair();
        lab.both(|family| assert_eq!(ping(&a.netns, b.addr(family), 2), 2));
        assert!(has_program(&lab, 0) && has_program(&lab, 1));
        lab.pantala().signal(signal);
        let status = lab.pantala_mut().wait();
        assert_eq!(status.code(), Some(0), "{signal:?}: {}", lab.pantala().stderr());
        assert!(!lab.pantala().socket().exists(), "the socket is left");
        assert!(!has_program(&lab, 0) && !has_program(&lab, 1), "an XDP program is left");
    }
}

fn a_tap_goes_with_pantala() {
    let links = [Link::new(Attach::Tap), Link::new(Attach::Tap).rings(2)];
    let Some(mut lab) = Lab::start("lifecycle::a_tap_goes_with_pantala", &links) else { return };
    lab.pantala().signal(Signal::TERM);
    assert_eq!(lab.pantala_mut().wait().code(), Some(0));
    for host in &lab.hosts {
        let names = || host.netns.netlink().unwrap().links().unwrap().into_iter().map(|link| link.name);
        until_right("the TAP is gone", || names().collect::<Vec<_>>(), |names| *names == ["lo"]);
    }
}

fn after_a_kill_it_starts_again() {
    let Some(mut lab) = Lab::start("lifecycle::after_a_kill_it_starts_again", &links()) else { return };
    let pantala = lab.pantala.take().unwrap();
    lab.pantala = Some(pantala.killed_and_started_again(&lab.router));
    lab.attach();
    let (a, b) = lab.pair();
    lab.both(|family| assert_eq!(ping(&a.netns, b.addr(family), 5), 5));
    lab.pantala().signal(Signal::TERM);
    assert_eq!(lab.pantala_mut().wait().code(), Some(0));
}

fn a_second_one_with_the_same_socket_is_refused() {
    let Some(mut lab) = Lab::start("lifecycle::a_second_one_with_the_same_socket_is_refused", &links())
    else {
        return;
    };
    let said = up_fails(&lab.router, lab.pantala().folder());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("control.sock"), "{said:?}");
    assert!(lab.pantala_mut().is_alive());
    let (a, b) = lab.pair();
    lab.both(|family| assert_eq!(ping(&a.netns, b.addr(family), 2), 2));
}

fn a_device_that_goes_away_is_survived_and_counted() {
    let kinds = [Attach::Native, Attach::Native, Attach::Tap];
    let links = kinds.map(|kind| Link::new(kind).rings(2));
    let test = "lifecycle::a_device_that_goes_away_is_survived_and_counted";
    let Some(mut lab) = Lab::start(test, &links) else { return };
    lab.both(|family| assert_eq!(ping(&lab.hosts[1].netns, lab.hosts[0].addr(family), 2), 2));
    let gone = lab.hosts.remove(0);
    gone.netns.netlink().unwrap().delete_link(&gone.inside()).unwrap();
    until_right(
        "the interface is seen to be gone",
        || lab.pantala().interface(&gone.ifname()),
        |interface| !interface.is(pantala::api::InterfaceFlag::Running),
    );
    let (a, b) = lab.pair();
    lab.both(|family| {
        assert_eq!(ping(&a.netns, b.addr(family), 5), 5, "the others go on");
        let before = lost_at(&lab, &gone);
        let lost = || {
            udp(&a.netns, gone.addr(family)).send_to(&[0; 8], at(gone.addr(family), 9)).unwrap();
            lost_at(&lab, &gone)
        };
        until_right("what is sent there is counted", lost, |lost| *lost > before);
    });
    lab.pantala().signal(Signal::TERM);
    assert_eq!(lab.pantala_mut().wait().code(), Some(0));
}

fn forwarding_goes_on_after_a_veth_was_deleted_and_made_again() {
    let test = "lifecycle::forwarding_goes_on_after_a_veth_was_deleted_and_made_again";
    let Some(mut lab) = Lab::start(test, &links()) else { return };
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", lab.pantala().id())).unwrap().count();
    let mut before = None;
    for round in 1..=3 {
        for host in [&lab.hosts[0], &lab.hosts[1]] {
            host.netns.netlink().unwrap().delete_link(&host.inside()).unwrap();
            host.attach_again(&lab.router);
            let back = format!("interface {} is back", host.ifname());
            let times = || lab.pantala().stderr().matches(&back).count();
            until_right("the interface is taken up again", times, |times| *times == round);
        }
        let (a, b) = lab.pair();
        lab.both(|family| assert_eq!(ping(&a.netns, b.addr(family), 5), 5, "round {round}"));
        // The connection of the last command may not be closed yet.
        let before = *before.get_or_insert_with(descriptors);
        until_right("no descriptor is left", descriptors, |count| *count <= before);
    }
    lab.pantala().signal(Signal::TERM);
    assert_eq!(lab.pantala_mut().wait().code(), Some(0));
    assert!(!lab.pantala().stderr().contains("not everything was put back"), "{}", lab.pantala().stderr());
}

/// Returns the packets lost because a device would not take them.
fn lost_at(lab: &Lab, gone: &Host) -> u64 {
    let (pantala, name) = (lab.pantala(), gone.ifname());
    // Routes do not lead there any more.
    let reasons = ["no_route", "interface_gone", "interface_down", "device_tx_error", "no_device"];
    let dropped: u64 = reasons.map(|reason| pantala.dropped(reason)).iter().sum();
    dropped + pantala.interface(&name).counters.tx_errors
}

harness::tests![
    a_signal_ends_it_and_nothing_is_left,
    a_tap_goes_with_pantala,
    after_a_kill_it_starts_again,
    a_second_one_with_the_same_socket_is_refused,
    a_device_that_goes_away_is_survived_and_counted,
    forwarding_goes_on_after_a_veth_was_deleted_and_made_again,
];
