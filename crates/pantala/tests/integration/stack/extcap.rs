//! Captures for Wireshark: by the calls that it makes, and by tshark itself.

use std::fs::{File, Permissions, set_permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::geteuid;

use super::caller::CLIENT;
use super::captures::{Lab, packets};

fn extcap(lab: &Lab, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
    command.arg("--socket").arg(lab.file("socket")).arg("extcap").args(arguments);
    command
}

fn said(lab: &Lab, arguments: &[&str]) -> String {
    let output = extcap(lab, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn wireshark_lists_interfaces_link_types_options_and_faults_of_filters() {
    let lab = Lab::new("extcap-lists");
    let interfaces = said(&lab, &["--extcap-interfaces", "--extcap-version=4.4"]);
    for name in ["any", "lan"] {
        let line = format!("interface {{value=pantala-{name}}}{{display=pantala: {name}}}\n");
        assert!(interfaces.starts_with("extcap {version=") && interfaces.contains(&line), "{interfaces}");
    }
    let dlts = said(&lab, &["--extcap-interface", "pantala-lan", "--extcap-dlts"]);
    assert_eq!(dlts, "dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
    let config = said(&lab, &["--extcap-interface", "pantala-lan", "--extcap-config"]);
    assert!(config.contains("{call=--places}") && config.contains("{value=drop}"), "{config}");
    if dev::sys::libpcap::compile("ip", 96).is_ok() {
        for (filter, is_well) in [("tcp port 80", true), ("tcp prt 80", false)] {
            let check = ["--extcap-interface", "pantala-lan", "--extcap-capture-filter", filter];
            assert_eq!(said(&lab, &check).is_empty(), is_well, "{filter}");
        }
    }
    // Wireshark asks at each start, also where no stack runs.
    let mut alone = Command::new(env!("CARGO_BIN_EXE_pantala"));
    let alone =
        alone.args(["--socket", &lab.file("none"), "extcap", "--extcap-interfaces"]).output().unwrap();
    assert!(alone.status.success() && !String::from_utf8_lossy(&alone.stdout).contains("interface"));
}

/// A process that ends with the value.
struct Running(Child);

/// Requests and replies on the wire, until the value goes.
fn pings(lab: &Lab) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
    command.arg("--socket").arg(lab.file("socket")).args(["ping", "-c", "100000", "-i", "0.01", CLIENT[0]]);
    Running(command.stdout(Stdio::null()).spawn().unwrap())
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_pipe_begins_before_the_first_packet_and_the_capture_ends_with_its_reader() {
    let lab = Lab::new("extcap-pipe");
    let fifo = lab.file("pipe");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let capture = ["--capture", "--extcap-interface", "pantala-lan", "--fifo", &fifo];
    let mut command = extcap(&lab, &capture);
    let mut running = Running(command.stderr(Stdio::null()).spawn().unwrap());
    let mut reader = File::open(&fifo).unwrap();
    let mut bytes = vec![0; 28];
    reader.read_exact(&mut bytes).unwrap();
    lab.talk();
    while packets(&bytes).len() < 20 {
        let mut more = [0; 4096];
        let count = reader.read(&mut more).unwrap();
        assert_ne!(count, 0, "it ended early");
        bytes.extend_from_slice(&more[..count]);
    }
    drop(reader);
    let _pings = pings(&lab);
    assert!(running.0.wait().unwrap().success());
}

/// tshark with a folder of programs that capture; it uses that only without privileges.
fn tshark(folder: &str) -> Command {
    let mut command = if geteuid().is_root() { Command::new("setpriv") } else { Command::new("tshark") };
    if geteuid().is_root() {
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "tshark"]);
    }
    command.env("WIRESHARK_EXTCAP_DIR", folder).env("HOME", folder);
    command
}

fn tshark_captures_on_an_interface_of_the_stack() {
    let lab = Lab::new("extcap-tshark");
    if Command::new("tshark").arg("--version").output().is_err() {
        return harness::skip("needs tshark");
    }
    let folder = lab.file("");
    let program = Path::new(&folder).join("pantala");
    let socket = lab.file("socket");
    let script =
        format!("#!/bin/sh\nexec {} --socket {socket} extcap \"$@\"\n", env!("CARGO_BIN_EXE_pantala"));
    std::fs::write(&program, script).unwrap();
    for path in [Path::new(&folder), &program, Path::new(&socket)] {
        set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let listed = tshark(&folder).arg("-D").output().unwrap();
    if !String::from_utf8_lossy(&listed.stdout).contains("pantala-lan") {
        return harness::skip("tshark takes no folder of programs that capture from its environment");
    }
    let mut command = tshark(&folder);
    command.args(["-n", "-l", "-i", "pantala-lan", "-f", "icmp", "-c", "8", "-T", "fields", "-e", "ip.src"]);
    let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let _pings = pings(&lab);
    let mut text = String::new();
    running.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 8, "{text}");
    assert!(text.lines().all(|line| line.starts_with("192.0.2.")), "{text}");
}

harness::tests![
    wireshark_lists_interfaces_link_types_options_and_faults_of_filters,
    a_pipe_begins_before_the_first_packet_and_the_capture_ends_with_its_reader,
    tshark_captures_on_an_interface_of_the_stack
];
