//! `pantala run`: socket options and control messages of unmodified programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use dev::sys::process::end_with_parent;

use crate::lab::at;
use crate::pantala::{Folder, Said};
use crate::programs::{Running, lab, on_pantala};
use crate::wait::{PATIENCE, until};

/// Options that are set before `connect`, and after it, and what they read as.
const OPTIONS: &str = r"
import socket, struct, sys
host, port = sys.argv[1], int(sys.argv[2])
v6 = ':' in host
family = socket.AF_INET6 if v6 else socket.AF_INET
SOL, TCP, IP, IPV6 = socket.SOL_SOCKET, socket.IPPROTO_TCP, socket.IPPROTO_IP, socket.IPPROTO_IPV6
HOPS, CLASS = ((IPV6, 16), (IPV6, 67)) if v6 else ((IP, 2), (IP, 1))
def errno(call, *args):
    try:
        call(*args)
    except OSError as why:
        return why.errno
s = socket.socket(family)
s.settimeout(10)
before = {(SOL, socket.SO_KEEPALIVE): 1, (TCP, socket.TCP_KEEPIDLE): 33, (TCP, socket.TCP_KEEPCNT): 5,
          (TCP, socket.TCP_USER_TIMEOUT): 4321, HOPS: 17, CLASS: 0x28}
for (level, option), value in before.items():
    s.setsockopt(level, option, value)
s.setsockopt(TCP, socket.TCP_MAXSEG, 700)
s.setsockopt(TCP, socket.TCP_CONGESTION, b'reno')
s.connect((host, port))
for (level, option), value in before.items():
    assert s.getsockopt(level, option) == value, (level, option)
assert s.getsockopt(TCP, socket.TCP_CONGESTION, 16).rstrip(b'\0') == b'reno'
s.setsockopt(TCP, socket.TCP_CONGESTION, b'cubic')
assert s.getsockopt(TCP, socket.TCP_CONGESTION, 16).rstrip(b'\0') == b'cubic'
s.setsockopt(TCP, socket.TCP_KEEPIDLE, 44)
assert s.getsockopt(TCP, socket.TCP_KEEPIDLE) == 44
# The kind of the socket.
for option, value in ((socket.SO_TYPE, socket.SOCK_STREAM), (39, family), (38, TCP), (socket.SO_ERROR, 0), (30, 0)):
    assert s.getsockopt(SOL, option) == value, option
assert 600 <= s.getsockopt(TCP, socket.TCP_MAXSEG) <= 700
# Nagle's algorithm is off until it is asked for.
assert s.getsockopt(TCP, socket.TCP_NODELAY) == 1
s.setsockopt(TCP, socket.TCP_NODELAY, 0)
assert s.getsockopt(TCP, socket.TCP_NODELAY) == 0
# TCP_INFO, cut where the program's buffer ends.
info = s.getsockopt(TCP, socket.TCP_INFO, 104)
assert len(info) == 104 and info[0] == 1, info
assert struct.unpack('I', info[20:24])[0] == 700, 'the segment that we have asked for'
# A connection ignores an address.
assert s.sendto(b'x' * 1000, (host, port)) == 1000
s.sendall(b'x' * 4000)
assert s.recv(1) == b'!'
info = s.getsockopt(TCP, socket.TCP_INFO, 300)
acked, received = struct.unpack('QQ', info[120:136])
assert len(info) == 248 and received == 1 and acked >= 5000, (len(info), acked, received)
# What cannot be.
assert errno(s.setsockopt, TCP, socket.TCP_KEEPIDLE, 0) == 22
assert errno(s.setsockopt, TCP, socket.TCP_MAXSEG, 10) == 22
assert errno(s.setsockopt, TCP, socket.TCP_CONGESTION, b'none') == 2
assert errno(s.setsockopt, SOL, 25, b'eth0\0') == 19
assert errno(s.setsockopt, TCP, 14, b'0' * 8) == 92
assert errno(s.getsockopt, TCP, 99) == 92
# Closed without lingering, it is reset.
s.setsockopt(SOL, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
print('done')
";

/// The peer of that in the kernel: the segments that it may send, and how the connection ends.
const PEER: &str = r"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
l = socket.socket(family)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((sys.argv[1], int(sys.argv[2])))
l.listen()
while True:
    c, _ = l.accept()
    count = 0
    try:
        while True:
            data = c.recv(65536)
            if not data:
                break
            count += len(data)
            if count == 5000:
                c.sendall(b'!')
        if count:
            print('fin', flush=True)
    except ConnectionResetError:
        print(count, c.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= 700, 'reset', flush=True)
        break
";

fn options_of_an_unmodified_program_reach_the_stack() {
    let test = "option_programs::options_of_an_unmodified_program_reach_the_stack";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let to = host.addr(family).to_string();
        let mut peer = Command::new("python3");
        peer.args(["-c", PEER, &to, "7000"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let peer = end_with_parent(host.netns.put(&mut peer).unwrap()).spawn().unwrap();
        let at = at(host.addr(family), 7000);
        until("the peer listens", || host.netns.run(|| TcpStream::connect(at)).unwrap().ok());
        let said: Said =
            on_pantala(&folder, &["python3", "-c", OPTIONS, &to, "7000"]).output().unwrap().into();
        assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");
        let seen = String::from_utf8(peer.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(seen, "5000 True reset\n");
    });
}

/// Binds, says so, and listens when it is told to; then serves connections that differ in what they inherit.
const LISTENER: &str = r"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
SOL, TCP = socket.SOL_SOCKET, socket.IPPROTO_TCP
l = socket.socket(family)
l.bind((sys.argv[1], 0))
assert l.getsockopt(SOL, socket.SO_ACCEPTCONN) == 0
print(l.getsockname()[1], flush=True)
sys.stdin.readline()
l.setsockopt(SOL, socket.SO_KEEPALIVE, 1)
l.setsockopt(TCP, socket.TCP_KEEPIDLE, 77)
l.listen(3)
l.listen(5)
assert l.getsockopt(SOL, socket.SO_ACCEPTCONN) == 1
assert l.getsockopt(TCP, socket.TCP_INFO, 1)[0] == 10
print('listens', flush=True)
c, _ = l.accept()
assert (c.getsockopt(SOL, socket.SO_KEEPALIVE), c.getsockopt(TCP, socket.TCP_KEEPIDLE)) == (1, 77)
assert c.getsockopt(SOL, socket.SO_ACCEPTCONN) == 0
c.sendall(b'inherited')
sys.stdin.readline()
";

fn a_bound_socket_of_a_program_refuses_connections_until_it_listens() {
    let test = "option_programs::a_bound_socket_of_a_program_refuses_connections_until_it_listens";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let own = host.router(family).to_string();
        let mut command = on_pantala(&folder, &["python3", "-c", LISTENER, &own]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = end_with_parent(&mut command).spawn().unwrap();
        let mut tells = program.stdin.take().unwrap();
        let mut says = BufReader::new(program.stdout.take().unwrap()).lines();
        let _ends = Running(program);
        let port: u16 = says.next().unwrap().unwrap().parse().unwrap();
        let connect = || {
            let at = at(host.router(family), port);
            host.netns.run(|| TcpStream::connect_timeout(&at, PATIENCE)).unwrap()
        };
        let refused = connect().unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{refused}");
        writeln!(tells).unwrap();
        assert_eq!(says.next().unwrap().unwrap(), "listens");
        let queues = lab.pantala().shows("netstat -L");
        assert!(queues.lines().any(|line| line.contains("/5 ") || line.contains("/10 ")), "{queues}");
        let mut stream = connect().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = [0; 9];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"inherited");
    });
}

/// Control messages, errors, peers that change, and groups.
const DATAGRAMS: &str = r"
import ctypes, select, socket, struct, sys
host, own, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
v6 = ':' in host
family = socket.AF_INET6 if v6 else socket.AF_INET
LEVEL = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
WANTS, TYPES = ((49, 51, 66), (50, 52, 67)) if v6 else ((8, 12, 13), (8, 2, 1))
libc = ctypes.CDLL(None, use_errno=True)
def new():
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(10)
    return s
def errno(call, *args):
    try:
        call(*args)
    except OSError as why:
        return why.errno
def received(s, text):
    data, control, flags, sender = s.recvmsg(100, 200)
    assert (data, flags, sender[:2]) == (text, 0, (host, port)), (data, flags, sender)
    assert [(level, kind) for level, kind, _ in control] == [(LEVEL, kind) for kind in TYPES], control
    info = control[0][2]
    assert socket.inet_ntop(family, info[:16] if v6 else info[8:12]) == own
    return [int.from_bytes(value, 'little') for _, _, value in control[1:]]
# Of a socket without a peer, and with one.
s = new()
for option in WANTS:
    s.setsockopt(LEVEL, option, 1)
s.sendto(b'one', (host, port))
assert received(s, b'one') == [64, 0]
s.connect((host, port))
s.send(b'two')
assert received(s, b'two') == [64, 0]
assert s.send(b'0123456789') == 10
assert s.recvmsg(4, 200)[0::2] == (b'0123', socket.MSG_TRUNC)
assert s.send(b'0123456789') == 10
assert s.recvmsg(100, 8)[0::2] == (b'0123456789', socket.MSG_CTRUNC)
# Time to live and class of one datagram: the peer answers with what it has seen.
s.sendmsg([b'see'], [(LEVEL, TYPES[1], struct.pack('i', 9)), (LEVEL, TYPES[2], struct.pack('i', 0x40))])
assert s.recv(100) == b'9 64'
s.send(b'see')
assert s.recv(100) == b'64 0'
s.setsockopt(*((41, 16) if v6 else (0, 2)), 33)
s.send(b'see')
assert s.recv(100) == b'33 0'
# Another host than the peer, whose answer is not for this socket; then without a peer.
s.sendto(b'three', (host, port + 1))
s.send(b'peer')
assert s.recv(100) == b'peer'
none = (ctypes.c_char * 28)()
assert libc.connect(s.fileno(), none, 16) == 0, ctypes.get_errno()
assert errno(s.getpeername) == 107
s.sendto(b'four', (host, port + 1))
assert s.recvfrom(100)[0] == b'FOUR'
# A port where none listens: the next call that receives fails, once.
r = new()
r.connect((host, 9))
r.send(b'x')
assert select.select([r], [], [], 10)[0] == [r]
assert errno(r.recv, 10) == 111
r.send(b'x')
assert errno(r.recv, 10, socket.MSG_PEEK) == 111
r.setblocking(False)
assert errno(r.recv, 10) == 11
# A group, whose datagrams come back to this host.
g = new()
g.bind(('', 5353))
group = 'ff02::1234' if v6 else '239.1.2.3'
if v6:
    g.setsockopt(LEVEL, socket.IPV6_JOIN_GROUP, socket.inet_pton(family, group) + struct.pack('I', 0))
else:
    g.setsockopt(LEVEL, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own))
    g.setsockopt(LEVEL, socket.IP_MULTICAST_IF, socket.inet_aton(own))
HOPS, LOOP = (18, 19) if v6 else (33, 34)
g.setsockopt(LEVEL, HOPS, 3)
assert (g.getsockopt(LEVEL, HOPS), g.getsockopt(LEVEL, LOOP)) == (3, 1)
g.sendto(b'group', (group, 5353))
data, at = g.recvfrom(100)
assert data == b'group'
mine = [at[0].split('%')[0]]
# Senders of it: a group is left by its last one, and none is named twice.
def storage(ip):
    at = struct.pack('=HHI16sI', 10, 0, 0, socket.inet_pton(family, ip), 0) if v6 else \
        struct.pack('=HH4s', 2, 0, socket.inet_aton(ip))
    return at.ljust(128, bytes(1))
def sender(option, ip, of=group):
    g.setsockopt(LEVEL, option, bytes(8) + storage(of) + storage(ip))
BLOCK, UNBLOCK, JOIN, LEAVE = 43, 44, 46, 47
other = '2001:db8::99' if v6 else '192.0.2.99'
def heard():
    g.sendto(b'again', (group, 5353))
    return select.select([g], [], [], 0.3)[0] == [g] and g.recv(100) == b'again'
assert errno(sender, JOIN, own) == 22
for ip in mine:
    sender(BLOCK, ip)
assert not heard()
assert errno(sender, BLOCK, mine[0]) == 99
for ip in mine:
    sender(UNBLOCK, ip)
assert heard()
if v6:
    g.setsockopt(LEVEL, socket.IPV6_LEAVE_GROUP, socket.inet_pton(family, group) + struct.pack('I', 0))
else:
    g.setsockopt(LEVEL, socket.IP_DROP_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own))
sender(JOIN, other)
assert not heard()
for ip in mine:
    sender(JOIN, ip)
assert heard()
for ip in mine + [other]:
    sender(LEAVE, ip)
assert not heard() and errno(sender, LEAVE, other) == 99
if not v6:
    g.setsockopt(LEVEL, 39, b''.join(map(socket.inet_aton, (group, own, own))))
    assert heard()
    g.setsockopt(LEVEL, 40, b''.join(map(socket.inet_aton, (group, own, own))))
    assert not heard()
# Whole filters: of a group that it does not listen to, without senders, with all of them blocked, and with one.
FILTER, EXCLUDE, INCLUDE = 48, 0, 1
def whole(mode, ips):
    g.setsockopt(LEVEL, FILTER, bytes(8) + storage(group) + struct.pack('II', mode, len(ips)) + b''.join(map(storage, ips)))
def shown(room=9):
    place = ctypes.create_string_buffer(bytes(8) + storage(group) + struct.pack('II', 0, room), 144 + room * 128)
    len = ctypes.c_uint32(144 + room * 128)
    if libc.getsockopt(g.fileno(), LEVEL, FILTER, place, ctypes.byref(len)):
        return ctypes.get_errno()
    mode, count = struct.unpack_from('II', place.raw, 136)
    at = [place.raw[n + (8 if v6 else 4):][:16 if v6 else 4] for n in range(144, len.value, 128)]
    return mode, count, sorted(socket.inet_ntop(family, ip) for ip in at)
assert errno(whole, INCLUDE, [other]) == 22 and shown() == 99
if v6:
    g.setsockopt(LEVEL, socket.IPV6_JOIN_GROUP, socket.inet_pton(family, group) + struct.pack('I', 0))
else:
    g.setsockopt(LEVEL, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own))
assert shown() == (EXCLUDE, 0, []) and heard()
whole(EXCLUDE, mine + [other])
assert shown() == (EXCLUDE, len(mine) + 1, sorted(mine + [other])) and not heard()
assert shown(1)[1] == len(mine) + 1 and len(shown(1)[2]) == 1
whole(INCLUDE, [other])
assert shown() == (INCLUDE, 1, [other]) and not heard()
whole(INCLUDE, mine)
assert heard() and errno(whole, 7, []) == 22 and errno(whole, INCLUDE, [other] * 65) == 105
# By the functions of libc, and by the option of IPv4 alone.
addr = storage(group)[:28 if v6 else 16]
one, count = ctypes.c_uint32(9), ctypes.c_uint32(4)
place = ctypes.create_string_buffer(512)
assert libc.setsourcefilter(g.fileno(), 0, addr, len(addr), EXCLUDE, 1, storage(other)) == 0, ctypes.get_errno()
assert libc.getsourcefilter(g.fileno(), 0, addr, len(addr), ctypes.byref(one), ctypes.byref(count), place) == 0
assert (one.value, count.value) == (EXCLUDE, 1) and place.raw[:24] == storage(other)[:24] and heard()
if not v6:
    ip = [int.from_bytes(socket.inet_aton(at), 'little') for at in (own, group)]
    assert libc.setipv4sourcefilter(g.fileno(), *ip, INCLUDE, 1, socket.inet_aton(own)) == 0 and heard()
    count.value = 4
    assert libc.getipv4sourcefilter(g.fileno(), *ip, ctypes.byref(one), ctypes.byref(count), place) == 0
    assert (one.value, count.value, place.raw[:4]) == (INCLUDE, 1, socket.inet_aton(own))
whole(INCLUDE, [])
assert not heard() and shown() == 99
assert errno(g.setsockopt, LEVEL, 99, 1) == 92
assert errno(g.setsockopt, socket.IPPROTO_TCP, 1, 1) == 92
print('done')
";

/// Answers datagrams in the kernel: as they came, with their time to live and class, and on the next port in upper case.
const ANSWERS: &str = r"
import select, socket, sys
v6 = ':' in sys.argv[1]
family = socket.AF_INET6 if v6 else socket.AF_INET
LEVEL = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
sockets = []
for port in (int(sys.argv[2]), int(sys.argv[2]) + 1):
    s = socket.socket(family, socket.SOCK_DGRAM)
    for option in ((51, 66) if v6 else (12, 13)):
        s.setsockopt(LEVEL, option, 1)
    s.bind((sys.argv[1], port))
    sockets.append(s)
print('ready', flush=True)
while True:
    for s in select.select(sockets, [], [])[0]:
        data, control, _, sender = s.recvmsg(2000, 200)
        if data == b'see':
            data = b' '.join(b'%d' % int.from_bytes(value, 'little') for _, _, value in control)
        s.sendto(data if s is sockets[0] else data.upper(), sender)
";

fn control_messages_errors_and_groups_of_an_unmodified_program() {
    let test = "option_programs::control_messages_errors_and_groups_of_an_unmodified_program";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let [to, own] = [host.addr(family), host.router(family)].map(|addr| addr.to_string());
        let mut peer = Command::new("python3");
        peer.args(["-c", ANSWERS, &to, "7100"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut peer = end_with_parent(host.netns.put(&mut peer).unwrap()).spawn().unwrap();
        let ready = BufReader::new(peer.stdout.take().unwrap()).lines().next();
        let _ends = Running(peer);
        assert_eq!(ready.unwrap().unwrap(), "ready");
        let program = ["python3", "-c", DATAGRAMS, &to, &own, "7100"];
        let said: Said = on_pantala(&folder, &program).output().unwrap().into();
        assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");
    });
}

/// Sends until there is no room for a second, and prints how much it was.
const FILLS: &str = r"
import select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
s.setblocking(False)
total = 0
while select.select([], [s], [], 1)[1]:
    total += s.send(bytes(1024))
print(total)
";

fn a_program_with_a_small_send_buffer_notices_that_its_peer_does_not_read() {
    const MOST: usize = 48 << 10;
    let test = "option_programs::a_program_with_a_small_send_buffer_notices_that_its_peer_does_not_read";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let to = at(host.addr(family), 7200);
        let peer = host.netns.run(|| TcpListener::bind(to)).unwrap().unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&peer, 4096).unwrap();
        let words = ["python3", "-c", FILLS, &to.ip().to_string(), "7200"];
        let said: Said = on_pantala(&folder, &words).output().unwrap().into();
        let total: usize = said.out.trim().parse().unwrap_or_else(|_| panic!("{said:?}"));
        assert!(total > 0 && total < MOST, "{family:?} {total}");
    });
}

harness::tests![
    a_program_with_a_small_send_buffer_notices_that_its_peer_does_not_read,
    options_of_an_unmodified_program_reach_the_stack,
    a_bound_socket_of_a_program_refuses_connections_until_it_listens,
    control_messages_errors_and_groups_of_an_unmodified_program,
];
