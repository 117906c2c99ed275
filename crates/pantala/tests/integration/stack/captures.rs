//! Packets captured on two stacks with a wire in memory between them, by the API and by the command.

use core::net::IpAddr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dev::sys::libpcap;
use pantala::api::{CaptureRequest, FirewallCommands};
use pantala::{Interface, Stack, mem};
use rustix::process::{Pid, Signal, kill_process};
use wire::bpf::{self, Program};
use wire::pcap::{Block, Blocks, Direction};

use crate::stack::caller::{CLIENT, Caller, PATIENCE, SERVER, echo, is_heard, pair};

/// A packet of a capture: interface, direction, comment, bytes.
pub(super) type Shown = (u32, Option<Direction>, String, Vec<u8>);

pub(super) fn packets(pcapng: &[u8]) -> Vec<Shown> {
    let packets = Blocks::new(pcapng).filter_map(|(_, block)| match block {
        Block::Packet(packet) => {
            Some((packet.interface, packet.direction, packet.comment.to_owned(), packet.bytes.to_vec()))
        }
        _ => None,
    });
    packets.collect()
}

/// The frames of TCP with the echo port, of either family.
fn echoed(shown: &[Shown], direction: Direction) -> Vec<Vec<u8>> {
    let of_echo = |frame: &[u8]| {
        let (protocol, ports) = if frame[12..14] == [8, 0] { (23, 34) } else { (20, 54) };
        frame.get(protocol) == Some(&6)
            && frame.get(ports..ports + 4).is_some_and(|ports| ports[..2] == [0, 7] || ports[2..] == [0, 7])
    };
    let mut frames: Vec<_> = shown
        .iter()
        .filter(|(_, seen, _, frame)| *seen == Some(direction) && of_echo(frame))
        .map(|(_, _, _, frame)| frame.clone())
        .collect();
    frames.sort();
    frames
}

fn both_ends_of_a_wire_capture_the_same_bytes_in_both_families() {
    let [server, client] = pair([2, 1]);
    let stacks = [&server, &client];
    let captures = stacks.map(|stack| stack.admin().begin_capture(&CaptureRequest::default()).unwrap());
    for (cpu, address) in [(0, SERVER[0]), (0, SERVER[1])] {
        assert!(is_heard(&client, cpu, address, 50_000));
    }
    let mut bytes = [Vec::new(), Vec::new()];
    let mut seen = [0, 1];
    // The last acknowledgments may be on their way.
    while seen[0] != seen[1] || bytes.iter().any(|bytes| packets(bytes).len() < 20) {
        for (at, stack) in stacks.iter().enumerate() {
            bytes[at].extend(stack.admin().read_capture(captures[at]).unwrap().pcapng);
        }
        seen = [
            echoed(&packets(&bytes[0]), Direction::In).len()
                + echoed(&packets(&bytes[0]), Direction::Out).len(),
            echoed(&packets(&bytes[1]), Direction::In).len()
                + echoed(&packets(&bytes[1]), Direction::Out).len(),
        ];
        std::thread::yield_now();
    }
    let [server_saw, client_saw] = bytes.map(|bytes| packets(&bytes));
    for ethertype in [[8, 0], [0x86, 0xdd]] {
        assert!(server_saw.iter().any(|(.., frame)| frame[12..14] == ethertype));
    }
    assert_eq!(echoed(&server_saw, Direction::In), echoed(&client_saw, Direction::Out));
    assert_eq!(echoed(&server_saw, Direction::Out), echoed(&client_saw, Direction::In));
    for (stack, capture) in stacks.iter().zip(captures) {
        stack.admin().end_capture(capture);
        assert!(stack.admin().read_capture(capture).is_err());
    }
}

/// A running command, which ends with the value.
pub(super) struct Dump {
    child: Child,
    err: BufReader<std::process::ChildStderr>,
}

/// Standard error behind the first line, and the exit.
pub(super) struct Said {
    pub(super) err: String,
    pub(super) is_ok: bool,
}

impl Dump {
    /// Starts it, and returns when it captures.
    pub(super) fn start(socket: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
        command.arg("--socket").arg(socket).arg("tcpdump").args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        err.read_line(&mut first).unwrap();
        assert!(first.starts_with("listening on "), "{first}");
        Self { child, err }
    }

    fn interrupt(&self) {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::INT).unwrap();
    }

    pub(super) fn ended(mut self) -> Said {
        let mut err = String::new();
        self.err.read_to_string(&mut err).unwrap();
        Said { err, is_ok: self.child.wait().unwrap().success() }
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// A pair whose server has a control socket, in a folder that goes with the value.
pub(super) struct Lab {
    server: Stack,
    client: Stack,
    folder: Folder,
}

/// A folder that goes with the value.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pantala-captures-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Lab {
    pub(super) fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let [one, other] = mem::wire(1).unwrap();
        let lan = |end, [v4, v6]: [&str; 2]| {
            Interface::mem(end).name("lan").address(format!("{v4}/24")).address(format!("{v6}/64"))
        };
        let server = Stack::builder().threads(1).interface(lan(one, SERVER)).admin(folder.file("socket"));
        let server = server.start().unwrap();
        server.begin_on_all(echo).unwrap();
        let client = Stack::builder().threads(1).interface(lan(other, CLIENT)).start().unwrap();
        for stack in [&server, &client] {
            stack.wait_ready(PATIENCE).unwrap();
        }
        Self { server, client, folder }
    }

    fn dump(&self, arguments: &[&str]) -> Dump {
        Dump::start(&self.folder.file("socket"), arguments)
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.folder.file(name).to_str().unwrap().to_owned()
    }

    /// A connection of each family.
    pub(super) fn talk(&self) {
        for address in SERVER {
            assert!(is_heard(&self.client, 0, address, 1000), "{address}");
        }
    }
}

fn the_command_writes_what_a_filter_of_libpcap_selects_until_it_has_enough() {
    let lab = Lab::new("filter");
    let file = lab.file("x.pcapng");
    if libpcap::compile("ip", 96).is_err() {
        return harness::skip("needs libpcap");
    }
    let dump = lab.dump(&["-ni", "lan", "-w", &file, "-c", "4", "ip6 and tcp port 7"]);
    lab.talk();
    let said = dump.ended();
    assert!(said.is_ok && said.err.starts_with("4 packets captured\n"), "{}", said.err);
    assert!(said.err.contains(" received by filter\n0 packets dropped by pantala"), "{}", said.err);
    let shown = packets(&std::fs::read(&file).unwrap());
    assert_eq!(shown.len(), 4);
    assert!(shown.iter().all(|(.., frame)| frame[12..14] == [0x86, 0xdd] && frame[20] == 6));
}

fn an_interrupt_ends_a_capture_with_all_that_was_seen_before_it() {
    let lab = Lab::new("interrupt");
    let file = lab.file("x.pcapng");
    let dump = lab.dump(&["-w", &file]);
    lab.talk();
    dump.interrupt();
    let said = dump.ended();
    let shown = packets(&std::fs::read(&file).unwrap());
    let captured = format!("{} packets captured\n{0} packets received by filter\n", shown.len());
    assert!(said.is_ok && said.err.starts_with(&captured), "{}", said.err);
    // The answer that the client heard last was seen here before.
    let out = echoed(&shown, Direction::Out);
    for ethertype in [[8, 0], [0x86, 0xdd]] {
        assert!(out.iter().any(|frame| frame[12..14] == ethertype && frame.len() > 500));
    }
}

fn a_stopped_reader_loses_copies_delays_nothing_and_learns_the_count() {
    let lab = Lab::new("stops");
    let file = lab.file("x.pcapng");
    let dump = lab.dump(&["-B", "64", "-w", &file]);
    let id = Pid::from_child(&dump.child);
    kill_process(id, Signal::STOP).unwrap();
    for address in SERVER {
        assert!(is_heard(&lab.client, 0, address, 4_000_000), "{address}");
    }
    kill_process(id, Signal::CONT).unwrap();
    dump.interrupt();
    let said = dump.ended();
    let numbers = said.err.lines().map(|line| line.split(' ').next().unwrap().parse::<usize>().unwrap());
    let [captured, received, dropped] = numbers.collect::<Vec<_>>()[..] else { panic!("{}", said.err) };
    assert_eq!((received, packets(&std::fs::read(&file).unwrap()).len()), (captured + dropped, captured));
    assert!(said.is_ok && captured > 0 && dropped > 0, "{}", said.err);
}

fn drops_are_printed_with_their_reasons() {
    if libpcap::compile("ip", 96).is_err() {
        return harness::skip("needs libpcap");
    }
    for more in [&[][..], &["--json"]] {
        let lab = Lab::new("drops");
        let commands =
            FirewallCommands { name: "test".into(), text: "add 100 deny tcp from any to me 7 in".into() };
        lab.server.admin().run_commands(&commands).unwrap();
        let mut dump = lab.dump(&[&["-nQ", "drop", "tcp port 7"], more].concat());
        for address in SERVER {
            let (caller, _) = Caller::new(address, 1);
            lab.client.begin(0, Box::new(caller)).unwrap();
        }
        let mut out = BufReader::new(dump.child.stdout.take().unwrap());
        let mut missing = SERVER.to_vec();
        while !missing.is_empty() {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "the command has ended");
            assert!(line.contains("lan") && line.contains("firewall_deny"), "{line}");
            missing.retain(|address| {
                let bytes = match address.parse().unwrap() {
                    IpAddr::V4(address) => hex(&address.octets()),
                    IpAddr::V6(address) => hex(&address.octets()),
                };
                !line.contains(address) && !line.contains(&bytes)
            });
        }
        dump.interrupt();
        let said = dump.ended();
        assert!(said.is_ok && said.err.contains(" captured\n"), "{}", said.err);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn filters_select_what_tcpdump_selects_of_the_same_packets() {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_there("tcpdump") {
        return harness::skip("needs tcpdump");
    }
    let lab = Lab::new("tcpdump");
    let file = lab.file("x.pcapng");
    let dump = lab.dump(&["-w", &file]);
    lab.talk();
    dump.interrupt();
    assert!(dump.ended().is_ok);
    let shown = packets(&std::fs::read(&file).unwrap());
    for filter in [
        "ip",
        "ip6",
        "arp or icmp6",
        "tcp port 7",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "ip6 and src host 2001:db8::1",
        "src port 7 and greater 200",
        "not port 7",
        "ether[6:2] = 0x0202 or vlan 7",
        "ip[2:2] - 40 > 100",
    ] {
        let program = Program::new(libpcap::compile(filter, 262_144).unwrap()).unwrap();
        let is_selected = |(_, direction, _, bytes): &&Shown| {
            let len = u32::try_from(bytes.len()).unwrap();
            program.run(&bpf::Packet { bytes, len, is_outgoing: *direction == Some(Direction::Out) }) != 0
        };
        let ours = shown.iter().filter(is_selected).count();
        let output = Command::new("tcpdump").args(["-n", "-t", "-r", &file, filter]).output().unwrap();
        let theirs = String::from_utf8(output.stdout).unwrap().lines().count();
        assert_eq!(ours, theirs, "{filter}");
    }
}

harness::tests![
    both_ends_of_a_wire_capture_the_same_bytes_in_both_families,
    the_command_writes_what_a_filter_of_libpcap_selects_until_it_has_enough,
    an_interrupt_ends_a_capture_with_all_that_was_seen_before_it,
    a_stopped_reader_loses_copies_delays_nothing_and_learns_the_count,
    drops_are_printed_with_their_reasons,
    filters_select_what_tcpdump_selects_of_the_same_packets
];
