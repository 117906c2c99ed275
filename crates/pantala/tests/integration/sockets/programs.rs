//! The bodies for the kernel's sockets once more, in a process whose sockets are those of a running pantala (`pantala run`). Those that
//! need two hosts are left out.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::daemon::lab::{Lab, OURS, Wire};
use crate::sockets::socket_api::PROGRAM_ADDRS;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pantala");
/// Bodies of one module, which both run.
const BODIES: [&str; 2] = ["sockets::streams::kernel", "sockets::datagrams::kernel"];
/// Bodies about what a supervisor does not meet: a reset is seen as the end of the stream by `read`.
const UNMET: [&str; 2] =
    ["close_with_linger_zero_resets_the_connection", "close_with_unread_data_resets_the_connection"];

/// Builds the library, which stands beside the program.
fn build_the_library() {
    let profile = Path::new(PROGRAM).parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "-q", "-p", "preload", "--target-dir"]).arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success());
}

/// Runs all bodies as a program on pantala; `may_fail` need not pass.
fn run(test: &str, options: &[&str], may_fail: &[&str]) {
    let Some(lab) = Lab::new(test, Wire::Tap) else { return };
    build_the_library();
    let socket = lab.folder().join("app.sock");
    lab.write(&lab.config(&format!("[programs]\nsocket = \"{}\"\nmode = \"0666\"\n", socket.display())));
    let daemon = lab.start();
    for bodies in BODIES {
        let mut command = Command::new(PROGRAM);
        command.arg("run").args(options).arg("--app-socket").arg(&socket).arg("--");
        command.arg(std::env::current_exe().unwrap()).arg(bodies).env(PROGRAM_ADDRS, OURS.join(","));
        // Ports are chosen by one stack for all of them.
        command.env("RUST_TEST_THREADS", "1");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let ran = text.lines().filter(|line| line.starts_with("test sockets::"));
        let failed: Vec<&str> = ran.clone().filter(|line| !line.ends_with(" ok")).collect();
        let is_expected = |line: &&str| may_fail.iter().any(|name| line.contains(name));
        assert!(ran.count() >= 10 && failed.iter().all(is_expected), "{failed:#?}\n{text}");
    }
    let served = daemon.json("ps")["programs"].as_array().map_or(0, Vec::len);
    assert_eq!(served, 0, "all that they had is gone");
    assert!(daemon.end(Signal::TERM));
}

fn the_bodies_run_in_a_program_with_the_library() {
    run("library", &[], &[]);
}

fn the_bodies_run_in_a_program_beside_a_supervisor() {
    run("supervisor", &["--any"], &UNMET);
}

harness::tests![
    the_bodies_run_in_a_program_with_the_library,
    the_bodies_run_in_a_program_beside_a_supervisor,
];
