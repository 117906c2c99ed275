//! `pantala run`: interfaces and addresses that unmodified programs learn.

use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;

use dev::netlink::Veth;
use dev::netns::Netns;
use ipnet::IpNet;

use crate::lab::{Family, Lab, at, namespace};
use crate::need;
use crate::pantala::{Folder, PROGRAM, Said};
use crate::programs::{lab, on_pantala};

/// An interface of the kernel whose name is none of pantala's.
const OTHER: &str = "other0";
const PORT: u16 = 7300;

/// Lists interfaces as C programs do, and uses the number of pantala's at sockets.
const LISTS: &str = r"
import ctypes, socket, struct, sys
host, own, hidden, name, port = *sys.argv[1:5], int(sys.argv[5])
v6 = ':' in host
family, LEVEL = (socket.AF_INET6, socket.IPPROTO_IPV6) if v6 else (socket.AF_INET, socket.IPPROTO_IP)
class IfAddrs(ctypes.Structure):
    pass
IfAddrs._fields_ = [('next', ctypes.POINTER(IfAddrs)), ('name', ctypes.c_char_p), ('flags', ctypes.c_uint),
    ('addr', ctypes.c_void_p), ('mask', ctypes.c_void_p), ('broadcast', ctypes.c_void_p), ('data', ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
def text(place):
    if not place:
        return None
    kind = ctypes.c_uint16.from_address(place).value
    if kind == socket.AF_PACKET:
        _, _, number, link, _, len = struct.unpack('=HHiHBB', ctypes.string_at(place, 12))
        return number, link, ctypes.string_at(place + 12, len).hex(':')
    ip = socket.inet_ntop(kind, ctypes.string_at(place + (8 if kind == socket.AF_INET6 else 4), 16 if kind == socket.AF_INET6 else 4))
    scope = ctypes.c_uint32.from_address(place + 24).value if kind == socket.AF_INET6 else 0
    return ip + ('%%%d' % scope if scope else '')
def listed():
    first = ctypes.POINTER(IfAddrs)()
    assert libc.getifaddrs(ctypes.byref(first)) == 0
    all, at = [], first
    while at:
        own = at.contents
        all.append((own.name.decode(), own.flags, text(own.addr), text(own.mask), text(own.broadcast)))
        at = own.next
    libc.freeifaddrs(first)
    return all
# pantala's stand first, then the kernel's, but for the one that has the same name.
names = dict((name, number) for number, name in socket.if_nameindex())
assert set(names) == {name, 'lo', 'other0'} and len(socket.if_nameindex()) == 3, socket.if_nameindex()
number = socket.if_nametoindex(name)
assert number == names[name] and number > 1 << 30 and socket.if_indextoname(number) == name
assert socket.if_indextoname(names['lo']) == 'lo' and socket.if_nametoindex('other0') == names['other0']
for wrong in (number + 100, 1 << 29):
    try:
        raise SystemExit(socket.if_indextoname(wrong))
    except OSError as why:
        assert why.errno == 6, why
try:
    raise SystemExit(socket.if_nametoindex('none0'))
except OSError:
    pass
for _ in range(3):
    all = listed()
ours = [entry for entry in all if entry[0] == name]
assert all[:len(ours)] == ours and {entry[0] for entry in all} == set(names), all
assert not any(entry[2] == hidden for entry in all), all
assert any(entry[0] == 'lo' and entry[2] == ('::1' if v6 else '127.0.0.1') for entry in all), all
flags = ours[0][1]
assert flags & 0x1043 == 0x1043 and not flags & 0x18, flags
shown, link, mac = ours[0][2]
assert (shown, link, len(mac)) == (number, 1, 17) and ours[0][3] is None and ours[0][4][2] == 'ff:ff:ff:ff:ff:ff', ours[0]
mask, broadcast = ('ffff:ffff:ffff:ffff::', None) if v6 else ('255.255.255.0', own.rsplit('.', 1)[0] + '.255')
assert (name, flags, own, mask, broadcast) in ours, ours
assert any(entry[2].startswith('fe80:') and entry[2].endswith('%%%d' % number) for entry in ours[1:]), ours
# Its number names it in control messages, in options of groups, and in scopes.
s = socket.socket(family, socket.SOCK_DGRAM)
s.settimeout(20)
s.bind(('::' if v6 else '0.0.0.0', port + 1))
INFO, ASK = (50, 49) if v6 else (8, 8)
s.setsockopt(LEVEL, ASK, 1)
if v6:
    info = struct.pack('16sI', bytes(16), number)
    s.setsockopt(LEVEL, socket.IPV6_MULTICAST_IF, number)
    s.setsockopt(LEVEL, socket.IPV6_JOIN_GROUP, socket.inet_pton(family, 'ff02::1234') + struct.pack('I', number))
else:
    info = struct.pack('I4s4s', number, bytes(4), bytes(4))
    s.setsockopt(LEVEL, socket.IP_MULTICAST_IF, struct.pack('4s4sI', bytes(4), bytes(4), number))
    s.setsockopt(LEVEL, socket.IP_ADD_MEMBERSHIP, struct.pack('4s4sI', socket.inet_aton('239.1.2.3'), bytes(4), number))
def heard():
    data, control, _, sender = s.recvmsg(100, 200)
    [info] = [value for level, kind, value in control if (level, kind) == (LEVEL, INFO)]
    return data, struct.unpack_from('I', info, 16 if v6 else 0)[0], sender
s.sendmsg([b'one'], [(LEVEL, INFO, info)], 0, (host, port))
assert heard()[:2] == (b'one', number)
if v6:
    s.sendto(b'all', ('ff02::1', port, 0, number))
    data, by, sender = heard()
    assert (data, by) == (b'all', number) and sender[0].startswith('fe80:') and sender[3] == number, sender
    s.sendto(b'scoped', sender)
    assert heard()[2] == sender
    c = socket.socket(family, socket.SOCK_DGRAM)
    c.connect(sender)
    assert c.getpeername() == sender, c.getpeername()
    c.settimeout(20)
    c.send(b'peer')
    assert c.recv(100) == b'peer'
    # One that is not bound yet is pantala's, because its scope is.
    d = socket.socket(family, socket.SOCK_DGRAM)
    d.settimeout(20)
    d.sendto(b'new', sender)
    assert d.recvfrom(100) == (b'new', sender)
    t = socket.socket(family)
    t.connect(sender)
    told = t.recv(100), t.getpeername(), t.getsockname()[3]
    assert told == (b'stream', sender, number), told
    assert socket.getaddrinfo('fe80::9%' + name, 80)[0][4] == ('fe80::9', 80, 0, number)
print('done')
";

/// Asks sockets for interfaces.
const ASKS: &str = r"
import ctypes, fcntl, socket, struct, sys
host, own, hidden, name, port = *sys.argv[1:5], int(sys.argv[5])
family = socket.AF_INET6 if ':' in host else socket.AF_INET
v4 = '10.77.1.1'
def asked(s, request, name):
    return fcntl.ioctl(s, request, struct.pack('16s24x', name.encode()))[16:]
def addr(value):
    assert struct.unpack_from('H', value)[0] == socket.AF_INET
    return socket.inet_ntoa(value[4:8])
def errno(*args):
    try:
        asked(*args)
    except OSError as why:
        return why.errno
def listed(s, room):
    place = ctypes.create_string_buffer(room * 40)
    conf = bytearray(struct.pack('iP', room * 40, ctypes.addressof(place)))
    fcntl.ioctl(s, 0x8912, conf)
    count = struct.unpack_from('i', conf)[0]
    return [(place.raw[at:at + 16].rstrip(bytes(1)).decode(), addr(place.raw[at + 16:])) for at in range(0, count, 40)]
def check(s):
    number = struct.unpack_from('I', asked(s, 0x8933, name))[0]
    assert number == socket.if_nametoindex(name) > 1 << 30
    told = fcntl.ioctl(s, 0x8910, struct.pack('16xI20x', number))
    assert told[:16].rstrip(bytes(1)).decode() == name
    assert (addr(asked(s, 0x8915, name)), addr(asked(s, 0x891b, name)), addr(asked(s, 0x8919, name))) == (v4, '255.255.255.0', '10.77.1.255')
    assert struct.unpack_from('H', asked(s, 0x8913, name))[0] & 0x1043 == 0x1043
    assert struct.unpack_from('i', asked(s, 0x8921, name))[0] == 1500
    link = asked(s, 0x8927, name)
    assert struct.unpack_from('H', link)[0] == 1 and any(link[2:8])
    # Those of the kernel stay, but for the one that has the same name.
    assert errno(s, 0x8921, 'none0') == 19 and addr(asked(s, 0x8915, 'lo')) == '127.0.0.1'
    assert struct.unpack_from('i', asked(s, 0x8933, 'other0'))[0] < 1 << 30
    all = listed(s, 20)
    assert all[0] == (name, v4) and ('lo', '127.0.0.1') in all and not any(ip == hidden for _, ip in all), all
    assert listed(s, 1) == all[:1]
    conf = bytearray(struct.pack('iP', 0, 0))
    fcntl.ioctl(s, 0x8912, conf)
    assert struct.unpack_from('i', conf)[0] == len(all) * 40
s = socket.socket(family, socket.SOCK_DGRAM)
if family == socket.AF_INET:
    check(s)
s.bind((own, 0))
check(s)
# Requests about bytes are still those of the socket.
t = socket.socketpair()
t[0].send(b'12345')
assert struct.unpack('i', fcntl.ioctl(t[1], 0x541b, bytes(4)))[0] == 5
# A Unix socket of the program's own, and a packet socket, ask for the kernel's.
assert struct.unpack_from('I', asked(t[0], 0x8933, name))[0] < 1 << 30
print('done')
";

/// Shows interfaces of a program without a daemon.
const ALONE: &str = r"
import fcntl, socket, struct
s = socket.socket()
print(*sorted(name for _, name in socket.if_nameindex()), socket.if_nametoindex('lo'), socket.if_indextoname(1),
      struct.unpack_from('I', fcntl.ioctl(s, 0x8933, struct.pack('16s24x', b'lo')), 16)[0])
";

/// A host with an interface that has the name of pantala's, and another one.
fn clashing(lab: &Lab) -> Netns {
    let host = namespace();
    let name = lab.hosts[0].ifname();
    let mut netlink = host.netlink().unwrap();
    netlink.add_veth(&Veth::new(&name, OTHER)).unwrap();
    for interface in ["lo", &name, OTHER] {
        netlink.set_up(interface, true).unwrap();
    }
    for family in Family::BOTH {
        netlink.add_address(&name, IpNet::new_assert(hidden(family).parse().unwrap(), 24)).unwrap();
    }
    host
}

/// The address of the kernel's interface that has the name of pantala's.
fn hidden(family: Family) -> &'static str {
    family.pick("192.0.2.77", "2001:db8::77")
}

/// Answers datagrams, and connections with a word, on a host of the kernel as long as `run` runs.
fn echoing<R>(lab: &Lab, family: Family, run: impl FnOnce() -> R) -> R {
    let netns = &lab.hosts[0].netns;
    let socket = netns.run(|| UdpSocket::bind(at(family.any(), PORT))).unwrap().unwrap();
    socket.set_read_timeout(Some(core::time::Duration::from_millis(50))).unwrap();
    let listener = netns.run(|| TcpListener::bind(at(family.any(), PORT))).unwrap().unwrap();
    listener.set_nonblocking(true).unwrap();
    let is_over = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 100];
            while !is_over.load(core::sync::atomic::Ordering::Relaxed) {
                if let Ok((mut connection, _)) = listener.accept() {
                    connection.write_all(b"stream").unwrap();
                }
                let Ok((count, from)) = socket.recv_from(&mut bytes) else { continue };
                socket.send_to(&bytes[..count], from).unwrap();
            }
        });
        let done = run();
        is_over.store(true, core::sync::atomic::Ordering::Relaxed);
        done
    })
}

fn arguments(lab: &Lab, family: Family, script: &str) -> Vec<String> {
    let host = &lab.hosts[0];
    let [to, own] = [host.addr(family), host.router(family)].map(|addr| addr.to_string());
    let port = PORT.to_string();
    ["python3", "-c", script, &to, &own, hidden(family), &host.ifname(), &port].map(str::to_owned).to_vec()
}

fn run(folder: &Folder, on: &Netns, words: &[impl AsRef<str>]) -> Said {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    on.put(&mut on_pantala(folder, &words)).unwrap().output().unwrap().into()
}

fn an_unmodified_program_lists_the_interfaces_of_pantala_and_uses_their_numbers() {
    let test =
        "interface_programs::an_unmodified_program_lists_the_interfaces_of_pantala_and_uses_their_numbers";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let on = clashing(&lab);
    lab.both(|family| {
        let said = echoing(&lab, family, || run(&folder, &on, &arguments(&lab, family, LISTS)));
        assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");
    });
    // A program of the system, which lists addresses that are neither loopback's nor those of a link.
    if need::program("hostname") {
        let own = Family::BOTH.map(|family| lab.hosts[0].router(family).to_string());
        let said = run(&folder, &on, &["hostname", "-I"]);
        assert_eq!(said.out.split_whitespace().collect::<Vec<_>>(), own, "{said:?}");
        let mut kernel = Command::new("hostname");
        let kernel: Said = on.put(kernel.arg("-I")).unwrap().output().unwrap().into();
        assert_eq!(kernel.out.split_whitespace().next(), Some(hidden(Family::V4)), "{kernel:?}");
    }
}

fn an_unmodified_program_asks_its_sockets_for_interfaces_of_pantala() {
    let test = "interface_programs::an_unmodified_program_asks_its_sockets_for_interfaces_of_pantala";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let on = clashing(&lab);
    lab.both(|family| {
        let said = run(&folder, &on, &arguments(&lab, family, ASKS));
        assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");
    });
    // Without a daemon a program sees the kernel's.
    let library = Path::new(PROGRAM).with_file_name("libpantala_preload.so");
    let mut alone = Command::new("python3");
    alone.args(["-c", ALONE]).env("LD_PRELOAD", library).env("PANTALA_APP_SOCKET", folder.file("none"));
    let said: Said = on.put(&mut alone).unwrap().output().unwrap().into();
    let name = lab.hosts[0].ifname();
    assert_eq!(said.out, format!("{name} lo {OTHER} 1 lo 1\n"), "{said:?}");
}

harness::tests![
    an_unmodified_program_lists_the_interfaces_of_pantala_and_uses_their_numbers,
    an_unmodified_program_asks_its_sockets_for_interfaces_of_pantala,
];
