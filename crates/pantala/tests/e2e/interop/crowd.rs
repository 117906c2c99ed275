//! Thousands of connections.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{ECHO, accept, connect, directions, lab, listen, port_of};
use crate::need;
use crate::wait::until_right;

const MANY: u32 = 2000;

fn word(number: u32) -> [u8; 8] {
    [number.to_be_bytes(), (!number).to_be_bytes()].concat().try_into().unwrap()
}

fn hear(mut stream: &TcpStream) -> [u8; 8] {
    let mut heard = [0; 8];
    stream.read_exact(&mut heard).unwrap();
    heard
}

fn thousands_of_connections_stand_at_once_both_ways_and_none_hears_what_another_was_told() {
    let test = "interop::crowd::thousands_of_connections_stand_at_once_both_ways_and_none_hears_what_another_was_told";
    if !need::files(10_000) {
        return;
    }
    let Some(lab) = lab(test, "[sysctl]\n\"net.inet.tcp.msl\" = 50\n") else { return };
    lab.both(|family| {
        for (from, to) in directions(&lab) {
            let listener = listen(to, family);
            let (mut near, mut far) = (Vec::new(), Vec::new());
            for number in 0..MANY {
                // Each is identified by its port, as they may be accepted in another order.
                let mut stream = connect(from, family, port_of(to, family));
                stream.write_all(&word(number)).unwrap();
                near.push(stream);
                far.push(accept(&listener));
            }
            let echoes: Vec<_> = (0..MANY).map(|_| connect(from, family, ECHO)).collect();
            for (number, mut echo) in (0..).zip(&echoes) {
                echo.write_all(&word(number)).unwrap();
            }
            for mut stream in &far {
                stream.write_all(&hear(stream)).unwrap();
            }
            for (number, (stream, echo)) in (0..).zip(near.iter().zip(&echoes)) {
                assert_eq!((hear(stream), hear(echo)), (word(number), word(number)));
            }
            assert!(lab.pantala().counter("tcp_accepts") >= 2 * u64::from(MANY));
            drop((near, far, echoes));
            let left = || lab.pantala().json("netstat -an -p tcp")["tcp"].as_array().map(Vec::len);
            until_right("nothing is left of the connections", left, |left| *left == Some(0));
        }
    });
}

harness::tests![thousands_of_connections_stand_at_once_both_ways_and_none_hears_what_another_was_told];
