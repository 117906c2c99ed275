//! `pantala run`: sockets of unmodified programs that are bound to an interface (`SO_BINDTODEVICE`).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use dev::sys::process::end_with_parent;

use crate::any_programs::any;
use crate::lab::{Attach, Family, Host, Link, at};
use crate::need;
use crate::pantala::Folder;
use crate::programs::{Running, lab_of, on_pantala};
use crate::wait::{PATIENCE, until};

/// Ports of the servers in the kernel, of the program's servers on both interfaces, and of that on the second alone.
const ECHO: u16 = 7300;
const BOTH: u16 = 7310;
const SECOND: u16 = 7320;

/// Answers datagrams, and connections, with what they have said, in the kernel.
const ECHOES: &str = r"
import socket, sys, threading
family, port = (socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET), int(sys.argv[2])
u = socket.socket(family, socket.SOCK_DGRAM)
l = socket.socket(family)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
for s in (u, l):
    s.bind((sys.argv[1], port))
l.listen()
def connections():
    while True:
        c, _ = l.accept()
        c.sendall(c.recv(100))
        c.close()
threading.Thread(target=connections, daemon=True).start()
while True:
    data, sender = u.recvfrom(100)
    u.sendto(data, sender)
";

/// Is a client by the first interface alone; then servers: of the same port on each, and of another one on the second. These move to the first
/// when a line is read, and to all with the next.
const DEVICES: &str = r"
import select, socket, struct, sys, threading
hosts, names, port, both, second = sys.argv[1:3], sys.argv[3:5], *map(int, sys.argv[5:8])
family = socket.AF_INET6 if ':' in hosts[0] else socket.AF_INET
SOL, DEVICE, INDEX = socket.SOL_SOCKET, 25, 62
def errno(call, *args):
    try:
        call(*args)
    except OSError as why:
        return why.errno
def shown(s):
    return s.getsockopt(SOL, DEVICE, 16)
def new(kind, name):
    s = socket.socket(family, kind)
    s.settimeout(20)
    assert shown(s) == b''
    s.setsockopt(SOL, DEVICE, name.encode() + b'\0')
    assert shown(s) == name.encode() + b'\0', shown(s)
    return s
# There is no such interface.
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    assert errno(socket.socket(family, kind).setsockopt, SOL, DEVICE, b'none0\0') == 19
# The first host is on the link of the first interface, the second is not.
u = new(socket.SOCK_DGRAM, names[0])
u.sendto(b'datagram', (hosts[0], port))
assert u.recvfrom(100)[0] == b'datagram' and shown(u) == names[0].encode() + b'\0'
assert u.getsockopt(SOL, INDEX) & 1 << 30
assert errno(u.setsockopt, SOL, DEVICE, b'none0\0') == 19
assert errno(new(socket.SOCK_DGRAM, names[0]).connect, (hosts[1], port)) == 101
u.connect((hosts[0], port))
u.send(b'to the peer')
assert u.recv(100) == b'to the peer' and errno(u.setsockopt, SOL, DEVICE, names[1].encode()) == 22
c = new(socket.SOCK_STREAM, names[0])
c.connect((hosts[0], port))
c.sendall(b'stream')
assert c.recv(100) == b'stream' and c.recv(100) == b'' and shown(c) == names[0].encode() + b'\0'
assert errno(c.setsockopt, SOL, DEVICE, names[1].encode()) == 22
assert errno(new(socket.SOCK_STREAM, names[0]).connect, (hosts[1], port)) == 101
# What comes back by the interface is of the socket: refused connections, and ICMP errors.
assert errno(new(socket.SOCK_STREAM, names[0]).connect, (hosts[0], 9)) == 111
if sys.argv[8] == 'library':
    r = new(socket.SOCK_DGRAM, names[0])
    r.connect((hosts[0], 9))
    r.send(b'x')
    assert errno(r.recv, 10) == 111
# By number, which is that of the list of interfaces.
if sys.argv[8] == 'library':
    n = socket.socket(family, socket.SOCK_DGRAM)
    n.setsockopt(SOL, INDEX, socket.if_nametoindex(names[1]))
    assert errno(n.connect, (hosts[0], port)) == 101
    n.connect((hosts[1], port))
    assert n.getsockopt(SOL, INDEX) == socket.if_nametoindex(names[1])
def server(kind, name, port):
    s = new(kind, name)
    s.settimeout(None)
    s.bind(('', port))
    assert shown(s) == name.encode() + b'\0'
    if kind == socket.SOCK_STREAM:
        s.listen()
    return s
def datagrams(s):
    while True:
        data, sender = s.recvfrom(100)
        s.sendto(shown(s)[:-1] + b' ' + data, sender)
def connections(l):
    while True:
        c, _ = l.accept()
        c.sendall(shown(c)[:-1] + b' ' + c.recv(100))
        c.close()
last = []
for name, number in ((names[0], both), (names[1], both), (names[1], second)):
    last = [server(socket.SOCK_DGRAM, name, number), server(socket.SOCK_STREAM, name, number)]
    for s, serve in zip(last, (datagrams, connections)):
        threading.Thread(target=serve, args=(s,), daemon=True).start()
# One that is not bound to an interface would take the same.
assert errno(socket.socket(family, socket.SOCK_DGRAM).bind, ('', both)) == 98
print('ready', flush=True)
for device in (names[0].encode() + b'\0', b''):
    sys.stdin.readline()
    for s in last:
        s.setsockopt(SOL, DEVICE, device)
        assert shown(s) == device
    print('moved', flush=True)
sys.stdin.readline()
";

/// Asks the program by a datagram from a host; `None` without an answer.
fn datagram(host: &Host, to: core::net::SocketAddr) -> Option<String> {
    let asker = host.netns.run(|| UdpSocket::bind(at(host.addr(Family::of(to.ip())), 0))).unwrap().unwrap();
    asker.set_read_timeout(Some(PATIENCE)).unwrap();
    asker.connect(to).unwrap();
    let mut bytes = [0; 100];
    // A port that is closed here is reported.
    let count = asker.send(b"asked").and_then(|_| asker.recv(&mut bytes)).ok()?;
    Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

/// Asks it by a connection; `None` if that is refused.
fn stream(host: &Host, to: core::net::SocketAddr) -> Option<String> {
    let mut stream = host.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"asked").unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    Some(got)
}

fn a_socket_that_is_bound_to_an_interface_sends_and_receives_by_it_alone() {
    let test = "device_programs::a_socket_that_is_bound_to_an_interface_sends_and_receives_by_it_alone";
    if !need::program("python3") {
        return;
    }
    let folder = Folder::new();
    let links = [Link::new(Attach::Tap), Link::new(Attach::Tap)];
    let Some(lab) = lab_of(test, &folder, &links, "") else { return };
    let (first, second) = lab.pair();
    for (way, start) in [("library", on_pantala as fn(&Folder, &[&str]) -> Command), ("any", any)] {
        lab.both(|family| {
            let hosts = [first, second];
            let echoes = hosts.map(|host| {
                let to = host.addr(family).to_string();
                let mut command = Command::new("python3");
                command.args(["-c", ECHOES, &to, &ECHO.to_string()]);
                let running = Running::start(host.netns.put(&mut command).unwrap());
                let to = at(host.addr(family), ECHO);
                until("the peer listens", || host.netns.run(|| TcpStream::connect(to)).unwrap().ok());
                running
            });
            let addrs = hosts.map(|host| host.addr(family).to_string());
            let names = hosts.map(Host::ifname);
            let ports = [ECHO, BOTH, SECOND].map(|port| port.to_string());
            let mut program = vec!["python3", "-c", DEVICES];
            program.extend(addrs.iter().chain(&names).chain(&ports).map(String::as_str));
            program.push(way);
            let mut command = start(&folder, &program);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = end_with_parent(&mut command).spawn().unwrap();
            let mut tells = child.stdin.take().unwrap();
            let mut says = BufReader::new(child.stdout.take().unwrap()).lines();
            let _ends = Running(child);
            assert_eq!(says.next().unwrap().unwrap(), "ready", "{way}");
            // Which interface a packet comes by counts, not the address that it is for.
            let asked = |host: &Host, own: &Host, port| {
                let to = at(own.router(family), port);
                [datagram(host, to), stream(host, to)]
            };
            let by = |name: &str| [(); 2].map(|()| Some(format!("{name} asked")));
            assert_eq!(asked(first, first, BOTH), by(&names[0]));
            assert_eq!(asked(second, second, BOTH), by(&names[1]));
            assert_eq!(stream(first, at(second.router(family), BOTH)), by(&names[0])[0]);
            assert_eq!(asked(second, second, SECOND), by(&names[1]));
            assert_eq!(asked(first, first, SECOND), [None, None]);
            assert_eq!(asked(first, second, SECOND), [None, None]);
            // To the other interface, and to all.
            writeln!(tells).unwrap();
            assert_eq!(says.next().unwrap().unwrap(), "moved");
            assert_eq!(asked(first, first, SECOND), by(&names[0]));
            assert_eq!(asked(second, second, SECOND), [None, None]);
            writeln!(tells).unwrap();
            assert_eq!(says.next().unwrap().unwrap(), "moved");
            assert_eq!(asked(first, first, SECOND), by(""));
            assert_eq!(asked(second, second, SECOND), by(""));
            drop(echoes);
        });
    }
}

harness::tests![a_socket_that_is_bound_to_an_interface_sends_and_receives_by_it_alone];
