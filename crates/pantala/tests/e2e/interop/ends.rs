//! Ends of connections, on each side and by each.

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::net::sockopt;

use super::{ECHO, Talk, connect, directions, ends, lab, port_of, theirs};
use crate::lab::at;
use crate::wait::{PATIENCE, until};

/// Says this, and nothing more.
fn say_all(mut stream: &TcpStream, text: &[u8]) {
    stream.write_all(text).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
}

fn hear_all(mut stream: &TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    heard
}

fn either_side_receives_after_it_has_shut_down_sending() {
    let Some(lab) = lab("interop::ends::either_side_receives_after_it_has_shut_down_sending", "") else {
        return;
    };
    lab.both(|family| {
        for (from, to) in directions(&lab) {
            for first_is_near in [true, false] {
                let Talk { near, far } = Talk::begin(from, to, family);
                let (first, second) = if first_is_near { (&near, &far) } else { (&far, &near) };
                say_all(first, b"that is all");
                assert_eq!(hear_all(second), b"that is all");
                let answer = vec![7; 3_000_000];
                std::thread::scope(|scope| {
                    scope.spawn(|| say_all(second, &answer));
                    assert!(hear_all(first) == answer);
                });
            }
            let stream = connect(from, family, ECHO);
            say_all(&stream, b"and the echo?");
            assert_eq!(hear_all(&stream), b"and the echo?");
        }
    });
}

/// Ends it with a reset.
fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

fn how_it_ends(mut stream: &TcpStream) -> ErrorKind {
    stream.read(&mut [0; 100]).unwrap_err().kind()
}

fn a_reset_by_linux_is_one_for_pantala_and_a_reset_by_pantala_is_one_for_linux() {
    let test = "interop::ends::a_reset_by_linux_is_one_for_pantala_and_a_reset_by_pantala_is_one_for_linux";
    let Some(lab) = lab(test, "") else { return };
    lab.both(|family| {
        for (from, to) in directions(&lab) {
            for near_resets in [true, false] {
                let Talk { near, far } = Talk::begin(from, to, family);
                (&near).write_all(b"there").unwrap();
                (&far).read_exact(&mut [0; 5]).unwrap();
                let (resets, hears) = if near_resets { (near, far) } else { (far, near) };
                let both = ends(&hears);
                reset(resets);
                assert_eq!(how_it_ends(&hears), ErrorKind::ConnectionReset);
                until("pantala has forgotten it", || theirs(lab.pantala(), both).is_none().then_some(()));
            }
            // Connections to closed ports, at Linux behind pantala and at pantala itself.
            let relay = at(from.router(family), port_of(to, family));
            let asked = from.netns.run(|| TcpStream::connect_timeout(&relay, PATIENCE)).unwrap();
            // The reset may be there before the call that connects looks.
            let how = asked.map_or_else(|error| error.kind(), |stream| how_it_ends(&stream));
            assert_eq!(how, ErrorKind::ConnectionReset);
            let closed = at(from.router(family), 4);
            let refused = from.netns.run(|| TcpStream::connect_timeout(&closed, PATIENCE)).unwrap();
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
    });
}

harness::tests![
    either_side_receives_after_it_has_shut_down_sending,
    a_reset_by_linux_is_one_for_pantala_and_a_reset_by_pantala_is_one_for_linux,
];
