//! `pantala run`: when segments of unmodified programs leave (`TCP_CORK`, `TCP_FASTOPEN_CONNECT`), as their peer in the kernel counts them.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use dev::sys::process::end_with_parent;

use crate::any_programs::any;
use crate::lab::at;
use crate::pantala::{Folder, Said};
use crate::programs::{Running, lab, on_pantala};
use crate::wait::until;

const PORT: u16 = 7400;

/// Says of each connection how many segments with data have brought what it has said, and after what time the rest of that came.
const COUNTS: &str = r"
import socket, struct, sys, time
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
l = socket.socket(family)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((sys.argv[1], int(sys.argv[2])))
l.listen()
def read(c, count):
    data = b''
    while len(data) < count:
        more = c.recv(count - len(data))
        if not more:
            break
        data += more
    return data
while True:
    c, _ = l.accept()
    if read(c, 3000) != bytes(3000):
        continue
    info = c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    print(struct.unpack_from('I', info, 152)[0], flush=True)
    c.sendall(b'!')
    assert read(c, 10) == b'0123456789'
    c.sendall(b'!')
    c.close()
";

/// Writes in pieces, with the cork in or out; then a short piece that the cork holds back for a while.
const CORKS: &str = r"
import socket, sys, time
TCP, CORK, QUICKACK = socket.IPPROTO_TCP, 3, 12
for cork in (0, 1):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
    assert s.getsockopt(TCP, CORK) == 0
    s.setsockopt(TCP, CORK, cork)
    assert s.getsockopt(TCP, CORK) == cork
    s.setsockopt(TCP, QUICKACK, 1)
    assert s.getsockopt(TCP, QUICKACK) == 1
    for _ in range(30):
        s.sendall(bytes(100))
        time.sleep(0.005)
    s.setsockopt(TCP, CORK, 0)
    assert s.recv(1) == b'!'
    s.setsockopt(TCP, CORK, cork)
    began = time.monotonic()
    s.sendall(b'0123456789')
    assert s.recv(1) == b'!'
    # It waits for 200 ms.
    assert not cork or time.monotonic() - began >= 0.19, time.monotonic() - began
    s.close()
print('done')
";

fn corked_writes_of_an_unmodified_program_leave_in_full_segments() {
    let test = "segment_programs::corked_writes_of_an_unmodified_program_leave_in_full_segments";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let (to, port) = (host.addr(family).to_string(), PORT.to_string());
        let mut peer = Command::new("python3");
        peer.args(["-c", COUNTS, &to, &port]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut peer = end_with_parent(host.netns.put(&mut peer).unwrap()).spawn().unwrap();
        let mut counts = BufReader::new(peer.stdout.take().unwrap()).lines();
        let _ends = Running(peer);
        let at = at(host.addr(family), PORT);
        until("the peer listens", || host.netns.run(|| TcpStream::connect(at)).unwrap().ok());
        for start in [on_pantala as fn(&Folder, &[&str]) -> Command, any] {
            let said: Said = start(&folder, &["python3", "-c", CORKS, &to, &port]).output().unwrap().into();
            assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");
            let [loose, corked]: [u32; 2] =
                [(); 2].map(|()| counts.next().unwrap().unwrap().parse().unwrap());
            // Two that are full and the rest, if nothing has kept the program from writing for 200 ms.
            assert!((3..=loose / 2).contains(&corked), "{loose} segments, {corked} with the cork in");
        }
    });
}

/// Says to each connection whether its SYN has brought data, and what that was.
const OPENS: &str = r"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
TCP, FASTOPEN, SYN_DATA = socket.IPPROTO_TCP, 23, 32
l = socket.socket(family)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((sys.argv[1], int(sys.argv[2])))
l.setsockopt(TCP, FASTOPEN, 16)
l.listen()
while True:
    c, _ = l.accept()
    data = c.recv(100)
    has_come = c.getsockopt(TCP, socket.TCP_INFO, 8)[5] & SYN_DATA != 0
    c.sendall(b'early ' * has_come + data)
    c.close()
";

/// Connects until its data goes with the SYN; and to a port where none listens.
const EARLY: &str = r"
import socket, sys
host, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ':' in host else socket.AF_INET
TCP, CONNECT = socket.IPPROTO_TCP, 30
def connected(port):
    s = socket.socket(family)
    s.settimeout(20)
    s.setsockopt(TCP, CONNECT, 1)
    s.connect((host, port))
    return s
for n in range(40):
    s = connected(port)
    assert s.getsockopt(TCP, CONNECT) == 1
    s.sendall(b'hello')
    s.shutdown(socket.SHUT_WR)
    said = b''.join(iter(lambda: s.recv(100), b''))
    assert said in (b'hello', b'early hello'), said
    if said != b'hello':
        break
assert n > 0 or sys.argv[3] == 'any', 'there was no cookie'
assert said == b'early hello', 'no data went with a SYN'
# A program that closes its socket at once says what it has written.
s = connected(port)
s.sendall(b'bye')
s.close()
# That none listens is the error of a later call.
s = connected(9)
s.sendall(b'hello')
try:
    assert s.recv(1) == b'' and sys.argv[3] == 'any'
except ConnectionRefusedError:
    pass
print('done')
";

fn the_first_write_of_an_unmodified_program_goes_with_its_syn() {
    let test = "segment_programs::the_first_write_of_an_unmodified_program_goes_with_its_syn";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    // Both families: servers give cookies.
    host.netns.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3")).unwrap().unwrap();
    lab.both(|family| {
        let (to, port) = (host.addr(family).to_string(), PORT.to_string());
        let mut peer = Command::new("python3");
        let _peer = Running::start(host.netns.put(peer.args(["-c", OPENS, &to, &port])).unwrap());
        let at = at(host.addr(family), PORT);
        until("the peer listens", || host.netns.run(|| TcpStream::connect(at)).unwrap().ok());
        for (way, start) in [("library", on_pantala as fn(&Folder, &[&str]) -> Command), ("any", any)] {
            let program = ["python3", "-c", EARLY, &to, &port, way];
            let said: Said = start(&folder, &program).output().unwrap().into();
            assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{way} {said:?}");
        }
    });
}

harness::tests![
    corked_writes_of_an_unmodified_program_leave_in_full_segments,
    the_first_write_of_an_unmodified_program_goes_with_its_syn,
];
