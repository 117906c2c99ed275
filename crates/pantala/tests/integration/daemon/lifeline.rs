//! An interface by which the machine is reached is not taken, and a device has one owner.

use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;

use crate::daemon::lab::{Daemon, Lab, OURS, THEIRS, Wire};

/// The start fails, and says `words`.
fn is_refused(lab: &Lab, words: &str) {
    let said = lab.start_in_vain();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2), "{text}");
    assert!(text.contains(words) && text.contains("`pantala up --force` takes it nevertheless"), "{text}");
    assert!(lab.link("pt0").unwrap().xdp.is_none());
}

fn an_interface_that_carries_the_kernels_default_route_is_taken_only_by_force() {
    for gateway in THEIRS {
        let Some(lab) = Lab::new("default", Wire::Veth { queues: 1 }) else { return };
        lab.write(&lab.config(""));
        lab.address_router(&["192.0.2.7/24", "2001:db8::7/64"]);
        lab.default_route(gateway);
        is_refused(&lab, "pt0 carries the kernel's default route");
        let daemon = lab.start_with(&["--force"]);
        assert!(OURS.iter().all(|ours| lab.host_reaches(ours)));
        // It has it: another reload does not ask again.
        lab.write(&lab.config("mtu = 1400"));
        daemon.shows("reload");
        assert!(daemon.end(Signal::TERM));
    }
}

fn an_interface_with_a_twin_is_taken_and_the_kernel_goes_on_by_it() {
    let Some(lab) = Lab::new("punt", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config("punt = \"twin0\""));
    lab.address_router(&["192.0.2.7/24", "2001:db8::7/64"]);
    THEIRS.iter().for_each(|gateway| lab.default_route(gateway));
    let daemon = lab.start_saying("`ip address flush dev pt0`");
    daemon.says("ready");
    assert!(lab.link("twin0").is_some());
    let mut netlink = lab.router().netlink().unwrap();
    for own in ["192.0.2.7/24", "2001:db8::7/64"] {
        netlink.delete_address("pt0", own.parse().unwrap()).unwrap();
    }
    assert!(OURS.iter().all(|ours| lab.host_reaches(ours)));
    assert!(daemon.end(Signal::TERM));
    assert!(lab.link("twin0").is_none());
}

fn a_reload_does_not_take_an_interface_that_carries_the_kernels_default_route() {
    let Some(lab) = Lab::new("later", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config("").replace("af_xdp:pt0", "tap:pt1"));
    let daemon = lab.start();
    lab.address_router(&["192.0.2.7/24"]);
    lab.default_route(THEIRS[0]);
    lab.write(&lab.config(""));
    let (done, text) = daemon.run("reload");
    assert!(!done && text.contains("carries the kernel's default route"), "{text}");
    assert!(lab.link("pt0").unwrap().xdp.is_none());
    daemon.shows_line("ifconfig lan", "status: active");
}

fn an_interface_that_carries_the_callers_ssh_session_is_taken_only_by_force() {
    for (here, client) in [("192.0.2.7", THEIRS[0]), ("2001:db8::7", THEIRS[1])] {
        let Some(lab) = Lab::new("ssh", Wire::Veth { queues: 1 }) else { return };
        lab.write(&lab.config(""));
        lab.address_router(&["192.0.2.7/24", "2001:db8::7/64"]);
        let listener = lab.router().run(|| TcpListener::bind((here, 0))).unwrap().unwrap();
        let server = listener.local_addr().unwrap();
        let session = lab.host().run(|| TcpStream::connect(server)).unwrap().unwrap();
        let peer = session.local_addr().unwrap();
        assert_eq!(peer.ip().to_string(), client);
        let variable = format!("SSH_CONNECTION={client} {} {here} {}", peer.port(), server.port());
        let said = lab.start_in_vain_with(&variable);
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(text.contains(&format!("pt0 carries your ssh session from {client}")), "{text}");
        assert_eq!(said.status.code(), Some(2), "{text}");
        // A session that has ended, or is elsewhere, holds nothing up.
        let daemon = lab.start();
        assert!(daemon.end(Signal::TERM));
    }
}

fn a_second_pantala_on_a_tap_or_an_interface_is_refused_with_the_name_of_the_first() {
    for wire in [Wire::Tap, Wire::Veth { queues: 1 }] {
        let Some(lab) = Lab::new("owner", wire) else { return };
        lab.write(&lab.config(""));
        let first: Daemon<'_> = lab.start();
        let other = lab.config("").replace("/sock", "/other");
        lab.write(&other);
        let said = lab.start_in_vain();
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(text.contains(&format!("process {} (pantala)", first.id())), "{text}");
        assert_eq!(said.status.code(), Some(1), "{text}");
        assert!(first.end(Signal::TERM));
    }
}

harness::tests![
    an_interface_that_carries_the_kernels_default_route_is_taken_only_by_force,
    an_interface_with_a_twin_is_taken_and_the_kernel_goes_on_by_it,
    a_reload_does_not_take_an_interface_that_carries_the_kernels_default_route,
    an_interface_that_carries_the_callers_ssh_session_is_taken_only_by_force,
    a_second_pantala_on_a_tap_or_an_interface_is_refused_with_the_name_of_the_first,
];
