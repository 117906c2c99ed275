//! `pantala run`: datagrams of unmodified programs, and names that they look up.

use std::net::UdpSocket;
use std::process::Command;

use crate::lab::{Family, Host, at};
use crate::need;
use crate::pantala::{Folder, Said};
use crate::programs::{Running, lab, on_pantala, page, server, words};
use crate::wait::until;

const ECHO: u16 = 5300;

/// What Python's socket does with datagrams: without a peer, with one, and with others after the first.
const CLIENT: &str = r#"
import asyncio, ctypes, os, select, socket, sys
host, other, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ':' in host else socket.AF_INET
def new():
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(20)
    return s
# Without a peer: it becomes pantala's with what it sends.
s = new()
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.sendto(b'one', (host, port))
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST) == 1, 'set before it became pantala\'s'
data, sender = s.recvfrom(100)
assert (data, sender[:2]) == (b'one', (host, port)), (data, sender)
mine = s.getsockname()
assert mine[1] != 0 and s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_DGRAM
try:
    s.getpeername()
    raise SystemExit('no peer')
except OSError as why:
    assert why.errno == 107, why
# Several buffers, and a message that is longer than the buffer.
s.sendmsg([b'two', b' and ', b'three'], [], 0, (host, port))
data, _, flags, sender = s.recvmsg(5)
assert (data, flags & socket.MSG_TRUNC, sender[:2]) == (b'two a', socket.MSG_TRUNC, (host, port)), (data, flags)
# One that is empty, and one that is cut into fragments.
s.sendto(b'', (host, port))
assert s.recvfrom(100)[0] == b''
long = bytes(range(256)) * 36
s.sendto(long, (host, port))
peeked = s.recvfrom(20000, socket.MSG_PEEK)[0]
assert s.recvfrom(20000)[0] == long == peeked
# With a peer it keeps its port; a message is bytes alone, for a child, too.
s.connect((host, port))
s.setblocking(True)
assert s.getsockname()[1] == mine[1] and s.getpeername()[:2] == (host, port)
s.send(b'four')
assert os.read(s.fileno(), 100) == b'four'
s.send(b'')
assert s.recv(100) == b''
child = os.fork()
if child == 0:
    os.write(s.fileno(), b'five')
    os._exit(0 if s.recvfrom(100)[0] == b'five' else 1)
assert os.waitpid(child, 0)[1] == 0
# Another peer after it.
s.connect((host, port + 1))
s.send(b'six')
assert s.recv(100) == b'SIX'
# From the beginning with a peer, from a port that the program has chosen.
t = new()
t.bind(('::' if family == socket.AF_INET6 else '0.0.0.0', 7777))
t.connect((host, port))
assert t.getsockname()[1] == 7777, t.getsockname()
t.send(b'seven')
assert t.recv(100) == b'seven'
# It waits by epoll before it has sent anything, and is pantala's only then.
any_host = '::' if family == socket.AF_INET6 else '0.0.0.0'
waits, w = select.epoll(), new()
w.bind((any_host, 0))
waits.register(w, select.EPOLLIN)
w.sendto(b'eight', (host, port))
assert waits.poll(20) == [(w.fileno(), select.EPOLLIN)] and w.recv(100) == b'eight'
waits.modify(w, select.EPOLLOUT)
assert waits.poll(20) == [(w.fileno(), select.EPOLLOUT)]
waits.unregister(w)
async def asks():
    answer = asyncio.get_running_loop().create_future()
    class Asks(asyncio.DatagramProtocol):
        def datagram_received(self, data, sender):
            answer.set_result(data)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Asks, local_addr=(any_host, 0))
    transport.sendto(b'nine', (host, port))
    assert await asyncio.wait_for(answer, 20) == b'nine'
    transport.close()
asyncio.run(asks())
# Lists that are not there are refused.
libc = ctypes.CDLL(None, use_errno=True)
assert libc.sendmmsg(t.fileno(), None, 3, 0) == -1 and ctypes.get_errno() == 14
assert libc.recvmmsg(t.fileno(), None, 3, 0, None) == -1 and ctypes.get_errno() == 14
# Loopback is the kernel's.
k = new()
k.bind((other, 0))
k.sendto(b'self', k.getsockname())
assert k.recvfrom(100)[0] == b'self'
print('done')
"#;

/// Answers in upper case, on pantala.
const SERVER: &str = r#"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
while True:
    data, sender = s.recvfrom(65536)
    s.sendto(data.upper(), sender)
"#;

/// Connects to the first that speaks, as `nc -l -u` does, and reads what that has said only then.
const CONNECTS: &str = r#"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
seen, sender = s.recvfrom(16, socket.MSG_PEEK)
s.connect(sender)
while True:
    s.send(seen + b' ' + s.recv(65536))
"#;

/// Answers datagrams on a host of the kernel, as they came or in upper case, as long as `run` runs.
fn echoing<R>(host: &Host, family: Family, run: impl FnOnce() -> R) -> R {
    let sockets = [ECHO, ECHO + 1].map(|port| {
        let socket = host.netns.run(|| UdpSocket::bind(at(host.addr(family), port))).unwrap().unwrap();
        socket.set_read_timeout(Some(core::time::Duration::from_millis(100))).unwrap();
        socket
    });
    let is_over = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (upper, socket) in [false, true].into_iter().zip(&sockets) {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut bytes = vec![0; 65_536];
                while !is_over.load(core::sync::atomic::Ordering::Relaxed) {
                    let Ok((count, from)) = socket.recv_from(&mut bytes) else { continue };
                    if upper {
                        bytes[..count].make_ascii_uppercase();
                    }
                    socket.send_to(&bytes[..count], from).unwrap();
                }
            });
        }
        let done = std::panic::catch_unwind(core::panic::AssertUnwindSafe(run));
        is_over.store(true, core::sync::atomic::Ordering::Relaxed);
        done.unwrap_or_else(|why| std::panic::resume_unwind(why))
    })
}

fn datagrams_of_an_unmodified_program_are_pantala_s_with_a_peer_and_without() {
    let test = "datagram_programs::datagrams_of_an_unmodified_program_are_pantala_s_with_a_peer_and_without";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let (to, own) = (host.addr(family).to_string(), family.pick("127.0.0.1", "::1"));
        let said: Said = echoing(host, family, || {
            let program = ["python3", "-c", CLIENT, &to, own, &ECHO.to_string()];
            on_pantala(&folder, &program).output().unwrap().into()
        });
        assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");

        // A server on pantala, asked by the kernel.
        let any = family.any().to_string();
        let program = ["python3", "-c", SERVER, &any, "5400"];
        let mut server = Running::start(&mut on_pantala(&folder, &program));
        let ask = |text: &[u8]| {
            let asker = host.netns.run(|| UdpSocket::bind(at(host.addr(family), 0))).unwrap().unwrap();
            asker.set_read_timeout(Some(core::time::Duration::from_millis(200))).unwrap();
            asker.connect(at(host.router(family), 5400)).unwrap();
            let mut bytes = vec![0; 65_536];
            let count = asker.send(text).and_then(|_| asker.recv(&mut bytes)).ok()?;
            bytes.truncate(count);
            Some(bytes)
        };
        let answered = until("the server answers", || ask(b"hello"));
        assert_eq!(answered, b"HELLO");
        let long = vec![b'x'; 8000];
        assert_eq!(until("a long one is answered", || ask(&long)), long.to_ascii_uppercase());
        // A socket that is connected to the sender of the first datagram loses nothing that came before.
        let connects = ["python3", "-c", CONNECTS, &any, "5500"];
        let _connects = Running::start(&mut on_pantala(&folder, &connects));
        let asker = host.netns.run(|| UdpSocket::bind(at(host.addr(family), 0))).unwrap().unwrap();
        asker.set_read_timeout(Some(core::time::Duration::from_millis(200))).unwrap();
        asker.connect(at(host.router(family), 5500)).unwrap();
        let (mut bytes, mut number) = ([0; 16], 10..);
        let count = until("it answers", || {
            let text = number.next().map(|number| number.to_string())?;
            asker.send(text.as_bytes()).and_then(|_| asker.recv(&mut bytes)).ok()
        });
        let words: Vec<&[u8]> = bytes[..count].split(|byte| *byte == b' ').collect();
        assert!(words.len() == 2 && words[0] == words[1], "{}", bytes[..count].escape_ascii());
        // Killed, it leaves its port to the next.
        server.0.kill().unwrap();
        server.0.wait().unwrap();
        let _again = until("the port is free", || {
            let mut again = Running::start(&mut on_pantala(&folder, &program));
            loop {
                if ask(b"again").is_some() {
                    return Some(again);
                }
                // It ends at once where the port is another's still.
                if again.0.try_wait().unwrap().is_some() {
                    return None;
                }
            }
        });
    });
}

/// Looks a name up by `gethostbyname_r`, and by `gethostbyname2`.
const OLD_NAMES: &str = r"
import ctypes, socket
class Entry(ctypes.Structure):
    _fields_ = [('name', ctypes.c_char_p), ('aliases', ctypes.c_void_p), ('kind', ctypes.c_int), ('len', ctypes.c_int),
                ('addrs', ctypes.POINTER(ctypes.POINTER(ctypes.c_char * 16)))]
libc = ctypes.CDLL(None)
libc.gethostbyname2.restype = ctypes.POINTER(Entry)
v4 = socket.gethostbyname_ex('www.example.test')[2]
entry = libc.gethostbyname2(b'www.example.test', socket.AF_INET6).contents
assert (entry.name, entry.kind, entry.len) == (b'www.example.test', socket.AF_INET6, 16)
assert not libc.gethostbyname2(b'none.example.test', socket.AF_INET6)
print(*v4, socket.inet_ntop(socket.AF_INET6, entry.addrs[0].contents.raw))
";

/// A name server on a host of the kernel, that knows the host by names: one, an alias of it, and one with more addresses than an
/// answer over UDP holds.
fn name_server(host: &Host, folder: &Folder) -> Running {
    let [v4, v6] = [Family::V4, Family::V6].map(|family| host.addr(family));
    let mut lines = vec![
        format!("host-record=www.example.test,{v4},{v6}"),
        "cname=alias.example.test,www.example.test".to_owned(),
    ];
    lines.extend((0..100).map(|n| format!("host-record=many.example.test,192.0.2.{n}")));
    lines.push(format!("host-record=many.example.test,{v4}"));
    std::fs::write(folder.file("dnsmasq.conf"), lines.join("\n")).unwrap();
    let mut command = Command::new("dnsmasq");
    command.args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--pid-file="]);
    command.args(["--local=/example.test/", "--bind-interfaces", "--local-ttl=1"]);
    command.arg(format!("--conf-file={}", folder.file("dnsmasq.conf").display()));
    Running::start(host.netns.put(&mut command).unwrap())
}

fn names_are_looked_up_over_pantala() {
    let test = "datagram_programs::names_are_looked_up_over_pantala";
    if !need::program("dnsmasq") {
        return;
    }
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    let _names = name_server(host, &folder);
    lab.both(|family| {
        let far = server(family, 8080);
        let mut command = Command::new(&far[0]);
        command.args(&far[1..]).current_dir(folder.path());
        let _far = Running::start(host.netns.put(&mut command).unwrap());
        let dns = host.addr(family).to_string();
        let fetch = |name: &str| {
            let url = format!("http://{name}:8080/page");
            let flag = family.pick("-4", "-6");
            let mut command = on_pantala(&folder, &[]);
            command.args(words(&["--dns", &dns, "--", "curl", flag, "-sS", "-m", "20", &url].map(str::to_owned)));
            command.output().unwrap()
        };
        let got = until("the name server and the web server answer", || {
            Some(fetch("www.example.test")).filter(|got| got.status.success())
        });
        assert!(got.stdout == page(), "{} bytes", got.stdout.len());
        assert!(fetch("alias.example.test").stdout == page());
        let missing: Said = fetch("none.example.test").into();
        assert_eq!(missing.code, Some(6), "{missing:?}");
        assert!(missing.err.contains("Could not resolve host"), "{missing:?}");
        // More than fits into a datagram comes over TCP.
        let script = "import socket; print(len({a[4][0] for a in socket.getaddrinfo('many.example.test', 80, socket.AF_INET)}))";
        let mut command = on_pantala(&folder, &[]);
        command.args(["--dns", &dns, "--", "python3", "-c", script]);
        let said: Said = command.output().unwrap().into();
        assert_eq!(&*said.out, "101\n", "{said:?}");
        // What programs asked for before there was `getaddrinfo`.
        let mut command = on_pantala(&folder, &[]);
        command.args(["--dns", &dns, "--", "python3", "-c", OLD_NAMES]);
        let said: Said = command.output().unwrap().into();
        assert_eq!(said.out, format!("{} {}\n", host.addr(Family::V4), host.addr(Family::V6)), "{said:?}");
        // Names of this machine are libc's.
        let script = "import socket; print(socket.getaddrinfo('localhost', 80, socket.AF_INET)[0][4])";
        let mut command = on_pantala(&folder, &[]);
        command.args(["--dns", &dns, "--", "python3", "-c", script]);
        let said: Said = command.output().unwrap().into();
        assert_eq!(&*said.out, "('127.0.0.1', 80)\n", "{said:?}");
    });
}

harness::tests![
    datagrams_of_an_unmodified_program_are_pantala_s_with_a_peer_and_without,
    names_are_looked_up_over_pantala,
];
