//! `pantala run`: a program with thousands of connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use dev::sys::process::end_with_parent;

use crate::lab::at;
use crate::need;
use crate::pantala::Folder;
use crate::programs::{Running, lab, on_pantala};
use crate::wait::{PATIENCE, until_right};

const MANY: u32 = 10_000;

/// Echoes what its connections say, and tells how many it has whenever that is all of them or none.
const EPOLL: &str = r"
import select, socket, sys
host, port, many = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
l = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)
l.bind((host, port))
l.listen(1024)
l.setblocking(False)
e = select.epoll()
e.register(l, select.EPOLLIN)
open = {}
print('ready', flush=True)
while True:
    for fd, _ in e.poll():
        if fd == l.fileno():
            try:
                while True:
                    c, _ = l.accept()
                    open[c.fileno()] = c
                    e.register(c, select.EPOLLIN)
                    if len(open) == many:
                        print('all', flush=True)
            except BlockingIOError:
                pass
            continue
        data = open[fd].recv(100)
        if data:
            open[fd].sendall(data)
            continue
        e.unregister(fd)
        open.pop(fd).close()
        if not open:
            print('none', flush=True)
";

fn a_program_has_ten_thousand_connections_at_once() {
    let test = "crowd_programs::a_program_has_ten_thousand_connections_at_once";
    if !need::files(15_000) {
        return;
    }
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "sockets = 20000\n") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let (own, many) = (host.router(family).to_string(), MANY.to_string());
        let mut command = on_pantala(&folder, &["python3", "-c", EPOLL, &own, "7600", &many]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = end_with_parent(&mut command).spawn().unwrap();
        let mut says = BufReader::new(child.stdout.take().unwrap()).lines();
        let _ends = Running(child);
        let mut heard = || says.next().unwrap().unwrap();
        assert_eq!(heard(), "ready");
        let to = at(host.router(family), 7600);
        let open = || {
            let stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        };
        let mut streams: Vec<TcpStream> = host.netns.run(|| (0..MANY).map(|_| open()).collect()).unwrap();
        assert_eq!(heard(), "all");
        for (number, stream) in (0_u32..).zip(&mut streams) {
            stream.write_all(&number.to_be_bytes()).unwrap();
        }
        for (number, stream) in (0_u32..).zip(&mut streams) {
            let mut got = [0; 4];
            stream.read_exact(&mut got).unwrap();
            assert_eq!(u32::from_be_bytes(got), number);
        }
        drop(streams);
        assert_eq!(heard(), "none");
        let left = || lab.pantala().json("netstat -an -p tcp")["tcp"].as_array().map(Vec::len);
        // The listener stays.
        until_right("nothing is left of the connections", left, |left| left.is_some_and(|left| left <= 1));
    });
}

harness::tests![a_program_has_ten_thousand_connections_at_once];
