//! Scripts notice what is wrong with a stack.

use std::path::Path;

use ::drill::Script;
use ::drill::packet::{Direction, Packet, Payload};
use ::drill::script::{Action, IpVersion};
use ::drill::syscall::Call;

use super::planted::{self, Fault};
use super::{Failure, Setup, expr, run};

fn script(text: &str) -> Script {
    ::drill::parse("test.pkt", text, &[::drill::STANDARD]).unwrap()
}

/// Our own scripts that pass, with their paths.
fn own() -> Vec<(String, Script)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("drill")];
    let mut scripts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pkt") {
                scripts.push((path.display().to_string(), script(&std::fs::read_to_string(&path).unwrap())));
            }
        }
    }
    scripts
}

fn packets(script: &Script) -> impl Iterator<Item = &Packet> {
    script.events.iter().filter_map(|event| match &event.action {
        Action::Packet(packet) => Some(packet),
        _ => None,
    })
}

/// Whether a script expects a segment with this many bytes at least.
fn expects_bytes(script: &Script, least: u16) -> bool {
    let sent = packets(script).filter(|packet| packet.direction == Direction::Outbound);
    let mut lens = sent.filter_map(|packet| match &packet.payload {
        Payload::Tcp(tcp) => Some(tcp.seq.value.len),
        _ => None,
    });
    lens.any(|len| len >= least)
}

/// Whether a call of a script must read this many bytes at least.
fn reads_bytes(script: &Script, least: i64) -> bool {
    script.events.iter().any(|event| match &event.action {
        Action::Syscall(call) if matches!(call.call.value, Call::Read | Call::Recv | Call::Recvfrom) => {
            expr::number(&call.result).is_ok_and(|count| count >= least)
        }
        _ => false,
    })
}

/// Runs the scripts that `must_notice` a fault; all of them fail, and so many there are at least.
fn is_noticed(fault: Fault, must_notice: impl Fn(&Script) -> bool, at_least: usize) {
    let scripts: Vec<_> = own().into_iter().filter(|(_, script)| must_notice(script)).collect();
    assert!(scripts.len() >= at_least, "{fault:?} shows in {} scripts", scripts.len());
    for (path, script) in &scripts {
        for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
            let setup = Setup { version, ..Setup::default() };
            assert_eq!(run(script, &setup), Ok(()), "{path} without a fault");
            let failure = planted::with(fault, || run(script, &setup));
            assert!(failure.is_err(), "{path} passes though {fault:?}");
        }
    }
}

#[test]
fn a_stack_whose_payloads_are_rotated_by_one_byte_fails() {
    is_noticed(Fault::PayloadsRotated, |script| expects_bytes(script, 2), 5);
}

#[test]
fn a_stack_whose_read_returns_wrong_bytes_fails() {
    is_noticed(Fault::ReadsWrong, |script| reads_bytes(script, 1), 3);
    is_noticed(Fault::ReadsRotated, |script| reads_bytes(script, 2), 3);
}

/// Begins as [`TALK`]; a script of both families.
fn with_both(text: &str) -> [Result<(), Failure>; 2] {
    let script = script(text);
    [IpVersion::Ipv4, IpVersion::Ipv6].map(|version| run(&script, &Setup { version, ..Setup::default() }))
}

/// A connection over which 3 bytes go in each direction.
const TALK: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 32767 <mss 1460>
+0 > S. 0:0(0) ack 1 win 65535 <mss 1460>
+.1 < . 1:1(0) ack 1 win 32767
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 3) = 3
+0 > P. 1:4(3) ack 1 win 65535
+0 < P. 1:4(3) ack 4 win 32767
+0 read(4, ..., 3) = 3
+.04 > . 4:4(0) ack 4 win 65535
";

#[test]
fn a_packet_of_another_connection_that_no_line_expects_is_a_failure() {
    // A port where nothing listens answers with a reset.
    let probe = "+.1 < 50000 > 9999 S 0:0(0) win 32767 <mss 1460>\n";
    let answer = "+0 > 9999 > 50000 R. 0:0(0) ack 1 win 0\n";
    for result in with_both(TALK) {
        assert_eq!(result, Ok(()));
    }
    for result in with_both(&format!("{TALK}{probe}{answer}")) {
        assert_eq!(result, Ok(()), "the answer is expected");
    }
    for result in with_both(&format!("{TALK}{probe}")) {
        let failure = result.expect_err("nothing expects the reset");
        assert!(failure.message.contains("expected no packet any more; came"), "{failure}");
    }
    let (before, behind) = TALK.split_at(TALK.find("+0 write").unwrap());
    let behind = behind.replace("> P", "> 8080 > 40000 P").replace("< P", "< 40000 > 8080 P");
    let behind = behind.replace("> . 4:4", "> 8080 > 40000 . 4:4");
    for result in with_both(&format!("{before}{probe}{behind}")) {
        let failure = result.expect_err("nothing expects the reset, and other packets were expected since");
        assert!(failure.message.contains("expected no packet any more; came"), "{failure}");
    }
}

#[test]
fn a_packet_of_another_protocol_that_no_line_expects_is_a_failure() {
    for result in with_both(&format!("{TALK}+.1 < icmp echo_request\n+0 > icmp echo_reply\n")) {
        assert_eq!(result, Ok(()), "the answer is expected");
    }
    for result in with_both(&format!("{TALK}+.1 < icmp echo_request\n")) {
        assert!(result.is_err(), "nothing expects the reply");
    }
}
