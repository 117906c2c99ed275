//! `pantala run`: groups that unmodified programs join before they bind their sockets, and scopes of link-local addresses.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use dev::sys::process::end_with_parent;

use crate::any_programs::any;
use crate::pantala::{Folder, Said};
use crate::programs::{Running, lab, on_pantala};

/// The number of pantala's first interface, as programs see it.
const NUMBER: u32 = (1 << 30) + 1;

/// Joins groups in each way that names the interface, or does not, and binds its socket then.
const JOINS: &str = r"
import ctypes, socket, struct, sys
host, own, number, port = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
v6 = ':' in host
family = socket.AF_INET6 if v6 else socket.AF_INET
LEVEL = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
groups = ['ff02::7771', 'ff02::7772'] if v6 else ['239.7.7.1', '239.7.7.2']
libc = ctypes.CDLL(None, use_errno=True)
ip = lambda text: socket.inet_pton(family, text)
def errno(call, *args):
    try:
        call(*args)
    except OSError as why:
        return why.errno
def storage(text):
    at = struct.pack('=HHI16sI', 10, 0, 0, ip(text), 0) if v6 else struct.pack('=HH4s', 2, 0, ip(text))
    return at.ljust(128, bytes(1))
def by_number(s, group, of=number):
    if v6:
        s.setsockopt(LEVEL, socket.IPV6_JOIN_GROUP, ip(group) + struct.pack('I', of))
    else:
        s.setsockopt(LEVEL, socket.IP_ADD_MEMBERSHIP, ip(group) + bytes(4) + struct.pack('I', of))
def by_request(s, group):
    s.setsockopt(LEVEL, 42, struct.pack('Q', number) + storage(group))
def by_none(s, group):
    by_number(s, group, 0)
def by_addr(s, group):
    s.setsockopt(LEVEL, socket.IP_ADD_MEMBERSHIP, ip(group) + ip(own))
def by_sender(s, group):
    s.setsockopt(LEVEL, 39, ip(group) + ip(own) + ip(own))
def heard(s, group):
    s.sendto(group.encode(), (group, port))
    return s.recvfrom(100)[0] == group.encode()
def sends_by(s):
    if v6:
        s.setsockopt(LEVEL, socket.IPV6_MULTICAST_IF, number)
    else:
        s.setsockopt(LEVEL, socket.IP_MULTICAST_IF, ip(own))
for join in [by_number, by_request, by_none] + ([] if v6 else [by_addr, by_sender]):
    for early in (False, True):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(20)
        s.setsockopt(LEVEL, 18 if v6 else 33, 3)
        if early:
            sends_by(s)
        for group in groups:
            join(s, group)
        assert errno(join, s, groups[0]) == (99 if join is by_sender else 98), join
        s.bind(('', port))
        assert s.getsockname()[1] == port and s.getsockopt(LEVEL, 18 if v6 else 33) == 3
        assert errno(s.bind, ('', port + 1)) == 22
        if not early:
            sends_by(s)
        assert all(heard(s, group) for group in groups), join
        # They stay without the peer that it has meanwhile.
        s.connect((host, 9))
        assert libc.connect(s.fileno(), (ctypes.c_char * 28)(), 16) == 0, ctypes.get_errno()
        assert s.getsockname()[1] == port, (join, early, s.getsockname())
        assert all(heard(s, group) for group in groups), (join, early)
        s.close()
# What is the kernel's stays there.
k = socket.socket(family, socket.SOCK_DGRAM)
by_number(k, groups[0], 1)
k.bind(('::1' if v6 else '127.0.0.1', 0))
k.settimeout(20)
k.sendto(b'self', k.getsockname())
assert k.recv(100) == b'self'
print('done')
";

fn groups_that_a_program_joins_before_it_binds_its_socket_are_pantala_s() {
    let test = "group_programs::groups_that_a_program_joins_before_it_binds_its_socket_are_pantala_s";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let [to, own] = [host.addr(family), host.router(family)].map(|addr| addr.to_string());
        for (start, port) in [(on_pantala as fn(&Folder, &[&str]) -> Command, "7500"), (any, "7510")] {
            let program = ["python3", "-c", JOINS, &to, &own, &NUMBER.to_string(), port];
            let said: Said = start(&folder, &program).output().unwrap().into();
            assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");
        }
    });
}

/// Accepts a connection and a datagram from a link-local address, and uses the addresses that it is told.
const ACCEPTS: &str = r"
import socket, sys
number, port = int(sys.argv[1]), int(sys.argv[2])
l, u = socket.socket(socket.AF_INET6), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for s in (l, u):
    s.bind(('::', port))
l.listen()
print('ready', flush=True)
c, at = l.accept()
ends = (at, c.getpeername(), c.getsockname())
assert all(end[0].startswith('fe80::') and end[3] == number for end in ends), ends
c.sendall(c.recv(100))
back = socket.socket(socket.AF_INET6)
back.settimeout(20)
back.connect((at[0].split('%')[0], port + 1, 0, at[3]))
back.sendall(b'back')
assert back.getsockname()[3] == back.getpeername()[3] == number
data, sender = u.recvfrom(100)
assert sender[0].startswith('fe80::') and sender[3] == number, sender
u.sendto(data, (sender[0].split('%')[0], *sender[1:]))
print('done', flush=True)
";

/// The peer of that in the kernel.
const PEER: &str = r"
import socket, sys
to, port = sys.argv[1], int(sys.argv[2])
l = socket.socket(socket.AF_INET6)
l.bind(('::', port + 1))
l.listen()
s = socket.create_connection((to, port), timeout=20)
s.sendall(b'hello')
assert s.recv(100) == b'hello'
assert l.accept()[0].recv(100) == b'back'
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
u.settimeout(20)
u.connect(socket.getaddrinfo(to, port, type=socket.SOCK_DGRAM)[0][4])
u.send(b'datagram')
assert u.recv(100) == b'datagram'
print('done')
";

fn a_program_is_told_the_interface_of_a_link_local_peer() {
    let test = "group_programs::a_program_is_told_the_interface_of_a_link_local_peer";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    let shown = lab.pantala().shows(&format!("ifconfig {}", host.ifname()));
    let own = shown.split_whitespace().find_map(|word| word.strip_suffix(&format!("%{}", host.ifname())));
    let to = format!("{}%{}", own.unwrap(), host.inside());
    for (start, port) in [(on_pantala as fn(&Folder, &[&str]) -> Command, "7520"), (any, "7530")] {
        let program = ["python3", "-c", ACCEPTS, &NUMBER.to_string(), port];
        let mut command = start(&folder, &program);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = end_with_parent(&mut command).spawn().unwrap();
        let mut says = BufReader::new(child.stdout.take().unwrap()).lines();
        let _ends = Running(child);
        assert_eq!(says.next().unwrap().unwrap(), "ready");
        let mut peer = Command::new("python3");
        let said: Said = host.netns.put(peer.args(["-c", PEER, &to, port])).unwrap().output().unwrap().into();
        assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");
        assert_eq!(says.next().unwrap().unwrap(), "done");
    }
}

harness::tests![
    groups_that_a_program_joins_before_it_binds_its_socket_are_pantala_s,
    a_program_is_told_the_interface_of_a_link_local_peer,
];
