//! memif's socket, when the two ends are different users.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use dev::memif::{Hub, Options, Role};
use dev::sys::unix_socket::Access;
use pantala::{Interface, Stack};
use rustix::process::Signal;

use crate::daemon::lab::{Daemon, Lab, Wire, until};

/// The stack's addresses on the shared memory, and the daemon's.
const THEIRS: [&str; 2] = ["198.51.100.2", "2001:db8:51::2"];
const OURS: [&str; 2] = ["198.51.100.1", "2001:db8:51::1"];

/// A further interface `m` at a socket.
fn memif(lab: &Lab, more: &str) -> String {
    let (socket, [v4, v6]) = (lab.folder().join("m.sock"), OURS);
    format!(
        "[[interface]]\nname = \"m\"\ndevice = \"memif:{},{more}\"\naddress = [\"{v4}/24\", \"{v6}/64\"]\n",
        socket.display()
    )
}

/// A library stack in this process, which is root, at the other end.
fn library(lab: &Lab) -> Stack {
    let [v4, v6] = THEIRS;
    let socket = lab.folder().join("m.sock");
    let slave = Interface::memif(format_args!("{},role=slave", socket.display()));
    Stack::builder()
        .threads(1)
        .interface(slave.address(format_args!("{v4}/24")).address(format_args!("{v6}/64")))
        .start()
        .unwrap()
}

fn m(daemon: &Daemon<'_>) -> serde_json::Value {
    daemon.interface_named("m")["device"]["memif"].clone()
}

/// Tells whether a thread of this process that speaks to memif peers is permitted `DAC_OVERRIDE` alone, and that not in force.
fn a_thread_may_connect_and_nothing_else() -> bool {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let all = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let told = ["CapPrm:\t0000000000000002", "CapEff:\t0000000000000000"];
    all.filter(|status| status.starts_with("Name:\tmemif\n"))
        .any(|status| told.iter().all(|line| status.lines().any(|said| said == *line)))
}

fn a_root_program_with_a_stack_connects_to_a_daemon_that_is_not_root() {
    let Some(lab) = Lab::new("root", Wire::Tap) else { return };
    lab.write(&lab.config(&memif(&lab, "role=master")));
    let daemon = lab.start();
    let socket = fs::symlink_metadata(lab.folder().join("m.sock")).unwrap();
    assert_ne!(socket.uid(), 0, "the daemon is another user");
    assert_eq!(socket.mode() & 0o777, 0o600, "no group was named");
    let stack = library(&lab);
    until("frames flow", || m(&daemon)["state"] == "connected");
    for address in THEIRS {
        // The address may still be asking whether it is alone.
        until("it answers", || daemon.run(&format!("ping -c 1 -W 500 {address}")).0);
    }
    assert!(a_thread_may_connect_and_nothing_else());
    stack.stop().unwrap();
    assert!(daemon.end(Signal::TERM));
}

fn the_socket_has_the_group_and_the_mode_of_the_control_socket_or_its_own() {
    for (admin, own, expected) in [
        ("group = \"23456\"", "", (23456, 0o660)),
        ("group = \"23456\"\nmode = \"0600\"", "", (23456, 0o600)),
        ("group = \"23456\"", ",group=34567", (34567, 0o660)),
        ("", ",group=34567", (34567, 0o660)),
        ("group = \"23456\"", ",mode=0666", (23456, 0o666)),
    ] {
        let Some(lab) = Lab::new("group", Wire::Tap) else { return };
        let memif = memif(&lab, &format!("role=master{own}"));
        lab.write(&lab.config(&format!("{memif}[admin]\n{admin}\n")));
        let daemon = lab.start();
        let socket = fs::symlink_metadata(lab.folder().join("m.sock")).unwrap();
        assert_eq!((socket.gid(), socket.mode() & 0o777), expected, "{admin} {own}");
        assert!(daemon.end(Signal::TERM));
    }
}

fn a_connect_that_is_refused_is_told_once_and_shown_until_it_succeeds() {
    let Some(lab) = Lab::new("refused", Wire::Tap) else { return };
    let socket = lab.folder().join("m.sock");
    let mut hub = Hub::start(|| (), Box::new(|_, _| ())).unwrap();
    let options = Options {
        name: "root".to_owned(),
        socket: socket.clone(),
        access: Access::default(),
        id: 0,
        role: Role::Master,
        rings: 1,
        ring_size: 64,
        buffer_size: 2048,
        secret: None,
    };
    let (_port, _rings) = hub.open(options).unwrap();
    lab.write(&lab.config(&memif(&lab, "role=slave")));
    let daemon =
        lab.start_saying("m.sock: Permission denied (os error 13); only its owner, its group and root may");
    daemon.says("ready");
    until("it tries again", || m(&daemon)["failed_connects"].as_u64().unwrap() >= 3);
    let shown = daemon.shows("ifconfig m");
    assert!(shown.contains("failed connects") && shown.contains("(cannot connect to "), "{shown}");
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    until("frames flow", || m(&daemon)["state"] == "connected");
    daemon.signal(Signal::TERM);
    let heard = daemon.says_all_until("ended");
    assert!(!heard.iter().any(|line| line.contains("Permission denied")), "{heard:#?}");
}

harness::tests![
    a_root_program_with_a_stack_connects_to_a_daemon_that_is_not_root,
    the_socket_has_the_group_and_the_mode_of_the_control_socket_or_its_own,
    a_connect_that_is_refused_is_told_once_and_shown_until_it_succeeds,
];
