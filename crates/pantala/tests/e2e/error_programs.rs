//! `pantala run`: errors of datagrams, as unmodified programs ask for them.

use std::process::Command;

use dev::netns::Netns;
use dev::sys::sysctl;

use crate::any_programs::any;
use crate::lab::{Family, Lab};
use crate::need;
use crate::pantala::{Folder, Said};
use crate::programs::{lab, on_pantala};

/// Networks behind the host, whose link is narrow.
const ROUTES: &str = r#"
[[route]]
to = "198.51.100.0/24"
via = ["10.77.1.2"]
[[route]]
to = "2001:db8:1::/64"
via = ["fd77:0:0:1::2"]
"#;

/// Asks for errors as `ip(7)` and `ipv6(7)` say.
const ERRORS: &str = r#"
import errno, select, socket, struct, sys
host, beyond, way = sys.argv[1:4]
six = ':' in host
family, level = (socket.AF_INET6, 41) if six else (socket.AF_INET, 0)
RECVERR, DISCOVER, HOPS = (25, 23, 16) if six else (11, 10, 2)
LOCAL, ICMP = 1, 3 if six else 2
READY = select.POLLIN if way == 'any' else select.POLLERR
def new():
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.setsockopt(level, RECVERR, 1)
    return s
def ready(s, within=20000):
    p = select.poll()
    p.register(s, select.POLLIN)
    return sum(what for _, what in p.poll(within))
def queued(s, sent=None, room=2000):
    data, control, flags, to = s.recvmsg(room, 512, socket.MSG_ERRQUEUE)
    is_cut = flags & socket.MSG_TRUNC != 0
    # The bytes of the datagram, as far as the error quotes them.
    assert sent is None or (data, is_cut) == (sent[:room], len(sent) > room), (data, flags)
    [(of, kind, raw)] = control
    assert (of, kind, flags & socket.MSG_ERRQUEUE) == (level, RECVERR, socket.MSG_ERRQUEUE), (of, kind, flags)
    number, origin, kind, code, _, info, _ = struct.unpack_from('=IBBBBII', raw)
    known, = struct.unpack_from('=H', raw, 16)
    by = socket.inet_ntop(family, raw[24:40] if six else raw[20:24]) if known else None
    return errno.errorcode[number], origin, kind, code, info, by, to[0], to[1]
def is_over(s):
    s.setblocking(False)
    try:
        s.recvmsg(1, 512, socket.MSG_ERRQUEUE)
        raise SystemExit('the queue is not empty')
    except BlockingIOError:
        s.settimeout(20)
    assert ready(s, 0) == 0 and s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
refused = ('ECONNREFUSED', ICMP, *((1, 4) if six else (3, 3)), 0, host, host, 9)
# poll tells, and the queue says more.
s = new()
s.connect((host, 9))
assert s.getsockopt(level, RECVERR) == 1
s.send(b'one')
assert ready(s) == READY, ready(s)
assert queued(s, b'one') == refused
is_over(s)
# A call that receives reports the error once, and the queue keeps it.
s.send(b'two')
assert ready(s) == READY
try:
    s.recvfrom(100)
    raise SystemExit('no error')
except ConnectionRefusedError:
    pass
assert ready(s) == READY
assert queued(s, b'two', 2) == refused
is_over(s)
# So does SO_ERROR.
s.send(b'three')
assert ready(s) == READY
asked = [s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for _ in range(2)]
assert asked == [errno.ECONNREFUSED, 0], asked
assert ready(s) == READY
assert queued(s) == refused
is_over(s)
# Several: what is of different flows has no order.
t = new()
for port in (9, 10, 11):
    t.sendto(b'port', (host, port))
ports = []
for _ in range(3):
    told = ready(t)
    assert told == READY, told
    got = queued(t, b'port')
    assert got[:7] == refused[:7], got
    ports.append(got[7])
assert sorted(ports) == [9, 10, 11], ports
is_over(t)
# epoll.
if way != 'any':
    e = select.epoll()
    e.register(s, select.EPOLLIN)
    s.send(b'four')
    assert e.poll(20) == [(s.fileno(), select.EPOLLERR)]
    assert queued(s) == refused
    assert e.poll(0) == []
# A router whose neighbour it would be.
t = new()
t.setsockopt(level, HOPS, 1)
t.sendto(b'five', (beyond, 33434))
assert ready(t) == READY
assert queued(t) == ('EHOSTUNREACH', ICMP, 3 if six else 11, 0, 0, host, beyond, 33434)
is_over(t)
# Too long for the link here, for one on the way, and for that again.
t = new()
assert t.getsockopt(level, DISCOVER) == 1
t.setsockopt(level, DISCOVER, 2)
assert t.getsockopt(level, DISCOVER) == 2
# A router of IPv4 quotes 576 bytes of a packet, one of IPv6 as much as 1280 bytes hold (RFC 1812, RFC 4443).
quoted = 1280 - 40 - 8 - 40 - 8 if six else 576 - 20 - 8 - 20 - 8
for length, said, kept in [
    (4000, ('EMSGSIZE', LOCAL, 0, 0, 1500, None), 0),
    (1400, ('EMSGSIZE', ICMP, *((2, 0) if six else (3, 4)), 1280, host), quoted),
    (1400, ('EMSGSIZE', LOCAL, 0, 0, 1280, None), 0),
]:
    sent = bytes(n % 251 for n in range(length))
    t.sendto(sent, (beyond, 33435))
    told = ready(t)
    assert told == READY, (port, told)
    got = queued(t, sent[:kept])
    # Of its own errors with IPv4, Linux names the port of the socket's peer.
    port = 0 if said[1] == LOCAL and not six else 33435
    assert got == (*said, beyond, port), got
is_over(t)
print('done')
"#;

/// A lab whose host has a narrow link behind it, and answers each time.
fn narrow(test: &str, folder: &Folder) -> Option<Lab> {
    let lab = lab(test, folder, ROUTES).filter(|_| need::program("ip"))?;
    let netns = &lab.hosts[0].netns;
    let settings =
        ["ipv4.ip_forward 1", "ipv6.conf.all.forwarding 1", "ipv4.icmp_ratelimit 0", "ipv6.icmp.ratelimit 0"];
    netns
        .run(|| {
            for (name, value) in settings.into_iter().filter_map(|setting| setting.split_once(' ')) {
                sysctl::set(name, value).unwrap();
            }
        })
        .unwrap();
    ip(netns, "link add narrow type veth peer name far");
    ip(netns, "link set far up");
    ip(netns, "link set narrow mtu 1280 up");
    ip(netns, "route add 198.51.100.0/24 dev narrow");
    ip(netns, "-6 route add 2001:db8:1::/64 dev narrow");
    // Nothing answers there, and nothing says so.
    for family in Family::BOTH {
        ip(netns, &format!("neigh add {} lladdr 02:00:00:00:00:07 dev narrow", beyond(family)));
    }
    Some(lab)
}

fn ip(netns: &Netns, words: &str) {
    let status = netns.run(|| Command::new("ip").args(words.split(' ')).status()).unwrap().unwrap();
    assert!(status.success(), "ip {words}");
}

fn beyond(family: Family) -> &'static str {
    family.pick("198.51.100.7", "2001:db8:1::7")
}

fn errors_of_datagrams_are_in_a_queue_with_the_icmp_message_and_its_sender() {
    let test = "error_programs::errors_of_datagrams_are_in_a_queue_with_the_icmp_message_and_its_sender";
    for way in ["library", "any"] {
        // A lab each time: what a path takes is known afterwards.
        let folder = Folder::new();
        let Some(lab) = narrow(test, &folder) else { return };
        lab.both(|family| {
            let host = lab.hosts[0].addr(family).to_string();
            let words = ["python3", "-c", ERRORS, &host, beyond(family), way];
            let mut command = if way == "any" { any(&folder, &words) } else { on_pantala(&folder, &words) };
            let said: Said = command.output().unwrap().into();
            assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{way} {family:?} {said:?}");
        });
    }
}

fn tracepath_and_traceroute_of_any_user_find_hops_and_the_path_mtu() {
    let test = "error_programs::tracepath_and_traceroute_of_any_user_find_hops_and_the_path_mtu";
    if !["tracepath", "traceroute"].into_iter().all(need::program) {
        return;
    }
    let folder = Folder::new();
    let Some(lab) = narrow(test, &folder) else { return };
    let netns = &lab.hosts[0].netns;
    ip(netns, "addr add 198.51.100.1/32 dev narrow");
    ip(netns, "-6 addr add 2001:db8:1::1/128 dev narrow nodad");
    lab.both(|family| {
        let host = lab.hosts[0].addr(family).to_string();
        let end = family.pick("198.51.100.1", "2001:db8:1::1");
        // The destination answers; behind it there is only what is too long.
        let said: Said = on_pantala(&folder, &["tracepath", "-n", "-m", "4", end]).output().unwrap().into();
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains("[LOCALHOST]") && said.out.contains("pmtu 1500"), "{said:?}");
        assert!(said.out.contains("reached") && said.out.contains("hops 1"), "{said:?}");
        let said: Said =
            on_pantala(&folder, &["tracepath", "-n", "-m", "2", beyond(family)]).output().unwrap().into();
        assert!(said.out.contains("pmtu 1280") && said.out.contains(&host), "{said:?}");
        let words = ["traceroute", "-n", "-q", "1", "-N", "1", "-m", "3", "-w", "1", end];
        let said: Said = on_pantala(&folder, &words).output().unwrap().into();
        assert!(said.out.contains(&format!(" 1  {end}")), "{said:?}");
        let words = ["traceroute", "-n", "-q", "1", "-N", "1", "-m", "1", "-w", "1", beyond(family)];
        let said: Said = on_pantala(&folder, &words).output().unwrap().into();
        assert!(said.out.contains(&format!(" 1  {host}")), "{said:?}");
    });
}

harness::tests![
    errors_of_datagrams_are_in_a_queue_with_the_icmp_message_and_its_sender,
    tracepath_and_traceroute_of_any_user_find_hops_and_the_path_mtu,
];
