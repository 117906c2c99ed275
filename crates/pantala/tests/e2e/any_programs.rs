//! `pantala run --any`: programs that load no library, on pantala, with Linux as their peer.

use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Family, Host, at};
use crate::need;
use crate::pantala::{Folder, Said};
use crate::programs::{Running, lab, on_pantala, page, server};
use crate::wait::{PATIENCE, until};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/any_programs/static.c");

/// Compiles the statically linked program; false if that cannot be done here.
fn compile(folder: &Folder) -> bool {
    if !need::program("gcc") {
        return false;
    }
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-static", "-o"]).arg(folder.file("static")).arg(SOURCE);
    assert!(gcc.status().unwrap().success());
    true
}

/// A program on pantala with a supervisor.
pub(crate) fn any(folder: &Folder, program: &[&str]) -> Command {
    let mut command = on_pantala(folder, &[]);
    command.args(["--any", "--"]).args(program);
    command
}

fn connect(host: &Host, family: Family, port: u16) -> Option<TcpStream> {
    let to = at(host.router(family), port);
    let stream = host.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Some(stream)
}

fn echoes(mut stream: &TcpStream) {
    stream.write_all(b"hello").unwrap();
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
}

fn a_statically_linked_client_connects_and_learns_why_it_does_not() {
    let test = "any_programs::a_statically_linked_client_connects_and_learns_why_it_does_not";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "").filter(|_| compile(&folder)) else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let far = at(host.addr(family), 7000);
        let listener = host.netns.run(|| TcpListener::bind(far)).unwrap().unwrap();
        let (ip, length) = (far.ip().to_string(), family.pick(16, 28));
        for how in ["speak-blocking", "speak-without-waiting"] {
            let speaks =
                |port: &str| -> Said { any(&folder, &["./static", how, &ip, port]).output().unwrap().into() };
            let (said, peer) = std::thread::scope(|scope| {
                let peer = scope.spawn(|| {
                    let (mut stream, from) = listener.accept().unwrap();
                    let mut bytes = Vec::new();
                    stream.read_to_end(&mut bytes).unwrap();
                    stream.write_all(&bytes).unwrap();
                    from
                });
                (speaks("7000"), peer.join().unwrap())
            });
            assert_eq!(said.code, Some(0), "{said:?}");
            assert!(said.out.contains(&format!("remote {ip} 7000 {length}\n")), "{said:?}");
            assert!(
                said.out.contains(&format!("local {} {} {length}\n", peer.ip(), peer.port())),
                "{said:?}"
            );
            // TCP_NODELAY, TCP_KEEPIDLE, SO_KEEPALIVE.
            assert!(
                said.out.contains("option 6 1 1 4\noption 6 4 7 4\noption 1 9 1 4\necho hello\n"),
                "{said:?}"
            );

            let refused = speaks("8");
            assert_eq!(
                (refused.code, &*refused.out),
                (Some(1), "connect: Connection refused\n"),
                "{refused:?}"
            );
        }
        // Loopback is the kernel's.
        let own = at(family.pick("127.0.0.1", "::1").parse().unwrap(), 0);
        let near = TcpListener::bind(own);
        if let Ok(near) = near {
            let local = near.local_addr().unwrap();
            let echo = std::thread::spawn(move || {
                let (mut stream, _) = near.accept().unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
            });
            let (ip, port) = (local.ip().to_string(), local.port().to_string());
            let said: Said =
                any(&folder, &["./static", "speak-blocking", &ip, &port]).output().unwrap().into();
            assert_eq!(said.code, Some(0), "{said:?}");
            echo.join().unwrap();
        }
    });
}

fn a_statically_linked_server_accepts_with_and_without_waiting() {
    let test = "any_programs::a_statically_linked_server_accepts_with_and_without_waiting";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "").filter(|_| compile(&folder)) else { return };
    let (host, pantala) = (&lab.hosts[0], lab.pantala());
    lab.both(|family| {
        let any_addr = family.any().to_string();
        let start =
            |how: &str, port: &str| Running::start(&mut any(&folder, &["./static", how, &any_addr, port]));
        // With calls that block, a child for each connection, and signals with handlers.
        let mut blocking = start("serve-blocking", "7001");
        let first = until("the server listens", || connect(host, family, 7001));
        echoes(&first);
        let shown = pantala.json("ps --json");
        let programs = shown["programs"].as_array().unwrap();
        assert!(programs.iter().any(|row| row["command"] == "static" && row["sockets"] == 2), "{shown}");
        let signal = |child: &Running, signal| {
            let pid = Pid::from_raw(child.0.id().cast_signed()).unwrap();
            kill_process(pid, signal).unwrap();
        };
        // Its handler lets `accept` go on.
        signal(&blocking, Signal::USR1);
        let second = connect(host, family, 7001).unwrap();
        echoes(&second);
        echoes(&first);
        for mut stream in [first, second] {
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "an end in order");
        }
        // A signal that comes before the next `accept` interrupts nothing: one follows.
        let ended = until("its handler interrupts `accept`", || {
            signal(&blocking, Signal::TERM);
            blocking.0.try_wait().unwrap()
        });
        assert_eq!(ended.code(), Some(3));
        until("the port is closed", || connect(host, family, 7001).is_none().then_some(()));

        // With epoll.
        let mut polling = start("serve-epoll", "7002");
        let first = until("the server listens", || connect(host, family, 7002));
        let second = connect(host, family, 7002).unwrap();
        echoes(&second);
        echoes(&first);
        signal(&polling, Signal::TERM);
        let ended = until("it has no handler", || polling.0.try_wait().unwrap());
        assert_eq!(ended.code(), Some(128 + 15));
    });
}

fn a_program_of_go_serves_and_connects_on_pantala() {
    let test = "any_programs::a_program_of_go_serves_and_connects_on_pantala";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "").filter(|_| need::program("caddy")) else { return };
    let host = &lab.hosts[0];
    let refused: Said = on_pantala(&folder, &["caddy", "version"]).output().unwrap().into();
    assert!(refused.code == Some(1) && refused.err.contains("use `pantala run --any`"), "{refused:?}");
    lab.both(|family| {
        // A server with the kernel, behind a proxy that accepts and connects on pantala.
        let far = server(family, 8080);
        let mut command = Command::new(&far[0]);
        command.args(&far[1..]).current_dir(folder.path());
        let _far = Running::start(host.netns.put(&mut command).unwrap());
        let to = at(host.addr(family), 8080);
        until("the server listens", || host.netns.run(|| TcpStream::connect(to)).unwrap().ok());
        let proxy = ["caddy", "reverse-proxy", "--from", ":8082", "--to", &to.to_string()];
        let mut proxy = any(&folder, &proxy);
        proxy.env("HOME", folder.path()).env("XDG_DATA_HOME", folder.path());
        let _proxy = Running::start(&mut proxy);
        until("the proxy listens", || connect(host, family, 8082));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut curl = Command::new("curl");
                    curl.args(["-sS", "-m", "20"])
                        .arg(format!("http://{}/page", at(host.router(family), 8082)));
                    let got = host.netns.put(&mut curl).unwrap().output().unwrap();
                    assert!(got.stdout == page(), "{}", String::from_utf8_lossy(&got.stderr));
                });
            }
        });
    });
}

fn a_user_without_rights_serves_by_a_supervisor() {
    let test = "any_programs::a_user_without_rights_serves_by_a_supervisor";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "").filter(|_| compile(&folder)) else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        use std::os::unix::process::CommandExt;
        let any_addr = family.any().to_string();
        let mut command = any(&folder, &["./static", "serve-epoll", &any_addr, "7003"]);
        let _server = Running::start(command.uid(12345).gid(12345));
        echoes(&until("the server listens", || connect(host, family, 7003)));
        // A port below 1024 is not its.
        let mut command = any(&folder, &["./static", "serve-epoll", &any_addr, "703"]);
        let refused: Said = command.uid(12345).gid(12345).output().unwrap().into();
        assert_eq!((refused.code, &*refused.out), (Some(1), "bind: Permission denied\n"), "{refused:?}");
    });
}

/// Asks a server of datagrams with a socket of the host; `None` while there is no answer.
fn asked(host: &Host, family: Family, port: u16) -> Option<()> {
    let socket = host.netns.run(|| UdpSocket::bind(at(family.any(), 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (to, mut bytes) = (at(host.router(family), port), [0; 64]);
    for text in ["hello", "a longer one"] {
        socket.send_to(text.as_bytes(), to).ok()?;
        let (count, from) = socket.recv_from(&mut bytes).ok()?;
        assert_eq!((&bytes[..count], from), (text.as_bytes(), to));
    }
    Some(())
}

fn statically_linked_servers_and_clients_of_udp_are_on_pantala() {
    let test = "any_programs::statically_linked_servers_and_clients_of_udp_are_on_pantala";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "").filter(|_| compile(&folder)) else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let ip = family.any().to_string();
        let mut echo = Running::start(&mut any(&folder, &["./static", "echo-datagrams", &ip, "7001"]));
        until("the server of datagrams answers", || asked(host, family, 7001));
        let _messages = Running::start(&mut any(&folder, &["./static", "echo-messages", &ip, "7002"]));
        until("the server of messages answers", || asked(host, family, 7002));
        for _ in 0..50 {
            asked(host, family, 7001).unwrap();
            asked(host, family, 7002).unwrap();
        }
        let shown = lab.pantala().json("netstat -an --json");
        assert!(shown.to_string().contains("7001"), "{shown}");
        let ended = until("its handler interrupts `recvfrom`", || {
            let pid = Pid::from_raw(echo.0.id().cast_signed()).unwrap();
            kill_process(pid, Signal::TERM).unwrap();
            echo.0.try_wait().unwrap()
        });
        assert_eq!(ended.code(), Some(3));

        // A client on pantala, the server with the kernel.
        let far = host.netns.run(|| UdpSocket::bind(at(host.addr(family), 7003))).unwrap().unwrap();
        far.set_read_timeout(Some(PATIENCE)).unwrap();
        let said: Said = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut bytes = [0; 64];
                for _ in 0..4 {
                    let Ok((count, from)) = far.recv_from(&mut bytes) else { return };
                    far.send_to(&bytes[..count], from).unwrap();
                }
            });
            let ip = host.addr(family).to_string();
            any(&folder, &["./static", "ask-datagrams", &ip, "7003"]).output().unwrap().into()
        });
        assert_eq!(said.code, Some(0), "{said:?}");
    });
}

fn loopback_stays_with_the_kernel_beside_a_supervisor() {
    let test = "any_programs::loopback_stays_with_the_kernel_beside_a_supervisor";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "").filter(|_| compile(&folder)) else { return };
    let pantala = lab.pantala();
    lab.both(|family| {
        let ip = family.pick("127.0.0.1", "::1");
        // A port that is free in the kernel.
        let Ok(free) = UdpSocket::bind((ip, 0)) else { return };
        let to = free.local_addr().unwrap();
        drop(free);
        let port = to.port().to_string();
        let _server = Running::start(&mut any(&folder, &["./static", "echo-datagrams", ip, &port]));
        let said: Said = until("the server on loopback answers", || {
            let said: Said = any(&folder, &["./static", "ask-datagrams", ip, &port]).output().unwrap().into();
            (said.code == Some(0)).then_some(said)
        });
        assert!(said.out.starts_with(&format!("local {}", family.pick("0.0.0.0", "::"))), "{said:?}");
        // Nor has pantala any of it.
        let shown = pantala.json("ps --json");
        assert!(shown["programs"].as_array().is_none_or(Vec::is_empty), "{shown}");
        let outside = UdpSocket::bind((ip, 0)).unwrap();
        outside.set_read_timeout(Some(PATIENCE)).unwrap();
        outside.send_to(b"hello", to).unwrap();
        assert_eq!(outside.recv(&mut [0; 16]).unwrap(), 5, "a program of the kernel reaches it");
    });
}

harness::tests![
    a_statically_linked_client_connects_and_learns_why_it_does_not,
    a_statically_linked_server_accepts_with_and_without_waiting,
    a_program_of_go_serves_and_connects_on_pantala,
    a_user_without_rights_serves_by_a_supervisor,
    statically_linked_servers_and_clients_of_udp_are_on_pantala,
    loopback_stays_with_the_kernel_beside_a_supervisor,
];
