//! `pantala run --any`: programs of Go, which make system calls themselves.

use core::net::SocketAddr;
use std::net::UdpSocket;
use std::process::Command;

use crate::any_programs::any;
use crate::lab::at;
use crate::need;
use crate::pantala::{Folder, Said};
use crate::programs::{Running, lab};
use crate::wait::{PATIENCE, until};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/go_programs/udp.go");

/// Compiles the program; false if that cannot be done here.
fn compile(folder: &Folder) -> bool {
    if !need::program("go") {
        return false;
    }
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(folder.file("udp")).arg(SOURCE);
    go.env("CGO_ENABLED", "0").env("GO111MODULE", "off").env("GOFLAGS", "");
    assert!(go.status().unwrap().success());
    true
}

fn a_server_and_a_client_of_go_speak_udp_on_pantala() {
    let test = "go_programs::a_server_and_a_client_of_go_speak_udp_on_pantala";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "").filter(|_| compile(&folder)) else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        // The server with the kernel, the client on pantala.
        let (far, closed) = (at(host.addr(family), 7000).to_string(), at(host.addr(family), 9).to_string());
        let mut server = Command::new(folder.file("udp"));
        server.args(["serve", &far]);
        let _far = Running::start(host.netns.put(&mut server).unwrap());
        let answers = |to: SocketAddr| {
            let socket = host.netns.run(|| UdpSocket::bind(at(family.any(), 0))).unwrap().unwrap();
            socket.set_read_timeout(Some(PATIENCE / 100)).unwrap();
            socket.connect(to).unwrap();
            let _ = socket.send(b"there?");
            let mut bytes = [0; 16];
            socket.recv(&mut bytes).ok().filter(|count| &bytes[..*count] == b"THERE?").map(drop)
        };
        until("the server answers", || answers(at(host.addr(family), 7000)));
        let said: Said = any(&folder, &["./udp", "ask", &far, &closed]).output().unwrap().into();
        assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");

        // The server on pantala, the client with the kernel.
        let near = at(host.router(family), 7001).to_string();
        let _near =
            Running::start(&mut any(&folder, &["./udp", "serve", &at(family.any(), 7001).to_string()]));
        until("the server answers", || answers(at(host.router(family), 7001)));
        let closed = at(host.router(family), 9).to_string();
        let mut client = Command::new(folder.file("udp"));
        client.args(["ask", &near, &closed]);
        let said: Said = host.netns.put(&mut client).unwrap().output().unwrap().into();
        assert_eq!((said.code, &*said.out), (Some(0), "done\n"), "{said:?}");
    });
}

harness::tests![a_server_and_a_client_of_go_speak_udp_on_pantala,];
