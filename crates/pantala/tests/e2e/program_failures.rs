//! `pantala run`: programs that stop or have no descriptors left, and a daemon that is killed.

use core::time::Duration;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{ChildStdout, Command, Stdio};

use dev::sys::process::end_with_parent;
use rustix::process::{Pid, Signal, kill_process};

use crate::any_programs::any;
use crate::lab::{Family, Host, at};
use crate::pantala::{Folder, Said};
use crate::programs::{Running, lab, on_pantala};
use crate::wait::{PATIENCE, until};

/// Starts a program of a folder on pantala.
type Start = fn(&Folder, &[&str]) -> Command;

/// Time after which a queue without room is taken for full.
const FULL: Duration = Duration::from_millis(200);

/// Starts a program whose output is read line by line.
fn speaking(command: &mut Command) -> (Running, Lines<BufReader<ChildStdout>>) {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = end_with_parent(command).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (Running(child), lines)
}

/// Echoes what a connection says, one connection after the other; with a second argument, it has so few descriptors.
const ECHO: &str = r"
import errno, resource, socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
l = socket.socket(family)
l.bind((sys.argv[1], int(sys.argv[2])))
l.listen(64)
kept = []
if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]),) * 2)
print('ready', flush=True)
while True:
    try:
        c, _ = l.accept()
    except OSError as why:
        assert why.errno == errno.EMFILE, why
        print('full', flush=True)
        kept.clear()
        continue
    kept.append(c)
    c.sendall(c.recv(100))
    if len(sys.argv) <= 3:
        kept.clear()
";

fn open(host: &Host, family: Family, port: u16) -> TcpStream {
    let to = at(host.router(family), port);
    let stream = host.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn is_echoed(stream: &mut TcpStream) -> bool {
    let mut got = [0; 5];
    stream.write_all(b"hello").and_then(|()| stream.read_exact(&mut got)).is_ok() && &got == b"hello"
}

/// Echoes datagrams.
const DATAGRAMS: &str = r"
import socket, sys
u = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
u.bind((sys.argv[1], int(sys.argv[2])))
print('ready', flush=True)
while True:
    data, sender = u.recvfrom(65536)
    u.sendto(data, sender)
";

/// Sends datagrams to a port on pantala until one comes back.
fn is_answered(host: &Host, family: Family, port: u16) -> bool {
    let socket = host.netns.run(|| UdpSocket::bind(at(host.addr(family), 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(FULL)).unwrap();
    socket.connect(at(host.router(family), port)).unwrap();
    let mut got = [0; 5];
    until("a datagram comes back", || {
        socket.send(b"hello").and_then(|_| socket.recv(&mut got)).ok().map(|_| &got == b"hello")
    })
}

fn a_program_that_is_stopped_holds_up_no_other_and_goes_on() {
    let test = "program_failures::a_program_that_is_stopped_holds_up_no_other_and_goes_on";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let own = host.router(family).to_string();
        // By the library, and by a supervisor, which is not stopped.
        for (start, first) in [(on_pantala as Start, 7201), (any as Start, 7211)] {
            let server = |script: &str, number: u16| {
                let port = number.to_string();
                let mut program = start(&folder, &["python3", "-c", script, &own, &port]);
                let (program, mut says) = speaking(&mut program);
                assert_eq!(says.next().unwrap().unwrap(), "ready");
                program
            };
            let (stopped, _other) = (server(ECHO, first), server(ECHO, first + 1));
            let (deaf, _answers) = (server(DATAGRAMS, first + 2), server(DATAGRAMS, first + 3));
            let all = [&stopped, &deaf].map(processes);
            let signal = |signal| all.iter().flatten().for_each(|pid| kill_process(*pid, signal).unwrap());
            signal(Signal::STOP);
            // Its connections are established and wait; what is sent waits with them.
            let mut waiting: Vec<TcpStream> = (0..20).map(|_| open(host, family, first)).collect();
            waiting.iter_mut().for_each(|stream| stream.write_all(b"hello").unwrap());
            // One has sent as much as all queues on the way hold, and more datagrams have come than wait.
            let mut full = open(host, family, first);
            full.set_write_timeout(Some(FULL)).unwrap();
            while full.write(&[b'x'; 65536]).is_ok() {}
            let flood = host.netns.run(|| UdpSocket::bind(at(host.addr(family), 0))).unwrap().unwrap();
            for _ in 0..4000 {
                let _ = flood.send_to(&[b'x'; 1000], at(host.router(family), first + 2));
            }
            for _ in 0..20 {
                assert!(is_echoed(&mut open(host, family, first + 1)));
                assert!(is_answered(host, family, first + 3));
            }
            signal(Signal::CONT);
            for stream in &mut waiting {
                let mut got = [0; 5];
                stream.read_exact(&mut got).unwrap();
                assert_eq!(&got, b"hello");
            }
            assert!(is_answered(host, family, first + 2));
        }
    });
}

/// The processes of a program: that which was started, if it is no supervisor, or its children.
fn processes(running: &Running) -> Vec<Pid> {
    let pid = running.0.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let children: Vec<Pid> =
        children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
    if children.is_empty() { vec![Pid::from_child(&running.0)] } else { children }
}

fn a_program_without_free_descriptors_learns_it_and_goes_on() {
    let test = "program_failures::a_program_without_free_descriptors_learns_it_and_goes_on";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let own = host.router(family).to_string();
        // By the library, and by a supervisor.
        for (start, number) in [(on_pantala as Start, 7203), (any as Start, 7204)] {
            let port = number.to_string();
            let program = ["python3", "-c", ECHO, &own, &port, "12"];
            let (_program, mut says) = speaking(&mut start(&folder, &program));
            assert_eq!(says.next().unwrap().unwrap(), "ready");
            let mut served = Vec::new();
            let ended = (0..20).any(|_| {
                let mut stream = open(host, family, number);
                let is_served = is_echoed(&mut stream);
                served.push(stream);
                !is_served
            });
            assert!(ended && served.len() > 4, "{} connections", served.len());
            assert_eq!(says.next().unwrap().unwrap(), "full");
            // It has closed those that it kept.
            assert!(is_echoed(&mut open(host, family, number)));
        }
    });
}

/// A connection, a listener and a socket of datagrams of each family, until the daemon is gone; then new connections.
const SURVIVES: &str = r"
import socket, sys, time
waiting, hosts, port, by_library = [], sys.argv[1].split(','), int(sys.argv[2]), len(sys.argv) == 3
for host in hosts:
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    l = socket.socket(family)
    l.bind(('', 0))
    l.listen()
    waiting += [socket.create_connection((host, port)).recv, lambda _, l=l: l.accept()]
    # A supervisor leaves those that are bound to the kernel.
    if by_library:
        u = socket.socket(family, socket.SOCK_DGRAM)
        u.bind(('', 7300))
        waiting.append(u.recv)
print('ready', flush=True)
for call in waiting:
    try:
        print(call(10), end=' ')
    except OSError as why:
        print(why.errno, end=' ', flush=True)
begun = time.monotonic()
for _ in range(10):
    try:
        l.accept()
    except OSError:
        pass
print(time.monotonic() - begun >= 0.1, flush=True)
for host in hosts:
    while True:
        try:
            socket.create_connection((host, port), timeout=2).sendall(b'again')
            break
        except OSError:
            time.sleep(0.05)
print('back', flush=True)
";

fn programs_learn_that_the_daemon_is_gone_and_go_on_when_it_is_back() {
    let test = "program_failures::programs_learn_that_the_daemon_is_gone_and_go_on_when_it_is_back";
    let folder = Folder::new();
    let Some(mut lab) = lab(test, &folder, "") else { return };
    let hosts = [Family::V4, Family::V6].map(|family| lab.hosts[0].addr(family).to_string()).join(",");
    let listener = lab.hosts[0].netns.run(|| TcpListener::bind("[::]:7301")).unwrap().unwrap();
    let program = ["python3", "-c", SURVIVES, &hosts, "7301"];
    let (_program, mut says) = speaking(&mut on_pantala(&folder, &program));
    assert_eq!(says.next().unwrap().unwrap(), "ready");
    let by_supervisor = [&program[..], &["any"]].concat();
    let (_supervised, mut supervised_says) = speaking(&mut any(&folder, &by_supervisor));
    assert_eq!(supervised_says.next().unwrap().unwrap(), "ready");
    let first: Vec<TcpStream> = (0..4).map(|_| listener.accept().unwrap().0).collect();
    let killed = lab.pantala.take().unwrap();
    lab.pantala = Some(killed.killed_and_started_again(&lab.router));
    // ECONNRESET for the connection, ENETDOWN for `accept` and for datagrams; and `accept` is not tried without end.
    assert_eq!(says.next().unwrap().unwrap(), "104 100 100 104 100 100 True");
    // No library says how a connection has ended.
    assert_eq!(supervised_says.next().unwrap().unwrap(), "b'' 100 b'' 100 True");
    drop(first);
    lab.attach();
    for mut says in [says, supervised_says] {
        assert_eq!(until("it is back", || says.next()).unwrap(), "back");
    }
}

/// Is reset while it waits.
const RESET: &str = r"
import socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
before = c.getsockname()
c.sendall(b'x')
try:
    assert c.recv(1) == b'' and sys.argv[3] == 'any'
except ConnectionResetError:
    pass
assert c.getsockname() == before, (before, c.getsockname())
print('done')
";

fn a_connection_that_was_reset_keeps_its_local_address() {
    let test = "program_failures::a_connection_that_was_reset_keeps_its_local_address";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let far = at(host.addr(family), 7100);
        let listener = host.netns.run(|| TcpListener::bind(far)).unwrap().unwrap();
        let (ip, port) = (far.ip().to_string(), far.port().to_string());
        for (way, start) in [("library", on_pantala as Start), ("any", any)] {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut stream, _) = listener.accept().unwrap();
                    stream.read_exact(&mut [0; 1]).unwrap();
                    let at_once = Some(Duration::ZERO);
                    rustix::net::sockopt::set_socket_linger(&stream, at_once).unwrap();
                });
                let said: Said =
                    start(&folder, &["python3", "-c", RESET, &ip, &port, way]).output().unwrap().into();
                assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{way} {said:?}");
            });
        }
    });
}

harness::tests![
    a_connection_that_was_reset_keeps_its_local_address,
    a_program_that_is_stopped_holds_up_no_other_and_goes_on,
    a_program_without_free_descriptors_learns_it_and_goes_on,
    programs_learn_that_the_daemon_is_gone_and_go_on_when_it_is_back,
];
