//! `pantala ps`, `netstat -an` and `tcpdrop`: which program has which socket.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::lab::at;
use crate::pantala::Folder;
use crate::programs::{Running, lab, on_pantala};
use crate::wait::{PATIENCE, until};

/// Accepts connections and keeps them, and has a socket of datagrams.
const KEEPS: &str = r"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
u = socket.socket(family, socket.SOCK_DGRAM)
u.bind((sys.argv[1], 8085))
l = socket.socket(family)
l.bind((sys.argv[1], 8085))
l.listen()
kept = []
while True:
    c, _ = l.accept()
    c.sendall(c.recv(100))
    kept.append(c)
";

fn each_socket_shows_its_program_and_tcpdrop_ends_those_of_one() {
    let test = "program_listing::each_socket_shows_its_program_and_tcpdrop_ends_those_of_one";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "sockets = 77\n") else { return };
    let (host, pantala) = (&lab.hosts[0], lab.pantala());
    lab.both(|family| {
        let own = host.router(family).to_string();
        let program = Running::start(&mut on_pantala(&folder, &["python3", "-c", KEEPS, &own]));
        let pid = program.0.id();
        let to = at(host.router(family), 8085);
        let mut stream = until("the program listens", || {
            host.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().ok()
        });
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"12345").unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();

        let all = pantala.json("ps --json");
        let shown = all["programs"].as_array().unwrap().iter().find(|row| row["pid"] == pid).unwrap();
        assert_eq!(
            (&shown["command"], &shown["uid"], &shown["sockets"]),
            (&"python3".into(), &0.into(), &3.into())
        );
        let counters = &shown["counters"];
        assert_eq!((&counters["sent_bytes"], &counters["received_bytes"]), (&5.into(), &5.into()), "{all}");
        assert_eq!(all["sockets_max"], 77);
        let text = pantala.shows("ps");
        assert!(text.contains("python3") && text.contains("user 0: 3 sockets of 77"), "{text}");
        assert!(pantala.metrics().contains("\npantala_program_sockets 3\n"));

        let owner = format!("{pid}/python3");
        let lines = pantala.shows("netstat -an");
        let of_program: Vec<&str> = lines.lines().filter(|line| line.ends_with(&owner)).collect();
        assert_eq!(of_program.len(), 3, "{lines}");
        for (protocol, state) in [("tcp", "LISTEN"), ("tcp", "ESTABLISHED"), ("udp", "")] {
            let is_such = |line: &&&str| line.starts_with(protocol) && line.contains(state);
            assert!(of_program.iter().any(|line| is_such(&line)), "{protocol} {state}: {lines}");
        }

        let other = pantala.shows("tcpdrop -p other");
        assert_eq!(other, "");
        let dropped = pantala.shows(&format!("tcpdrop -p {pid}"));
        assert_eq!(dropped.lines().count(), 1, "{dropped}");
        let end = stream.read(&mut [0]).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset, "{end}");
        drop(program);
        until("it is gone", || {
            (pantala.json("ps --json")["programs"].as_array().unwrap().is_empty()).then_some(())
        });
    });
}

harness::tests![each_socket_shows_its_program_and_tcpdrop_ends_those_of_one];
