//! Idle connections: because neither end sends, because the receiver does not read, because the peer is
//! gone.

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use rustix::net::sockopt;
use sha2::{Digest, Sha256};

use super::{ECHO, Talk, connect, directions, ends, lab, of, theirs};
use crate::lab::{Host, Lab};
use crate::need;
use crate::wait::{PATIENCE, until, until_right};

/// pantala asks after a fifth of a second, and gives up when three questions are not answered.
const ASKS: &str = "[sysctl]\n\"net.inet.tcp.always_keepalive\" = 1\n\"net.inet.tcp.keepidle\" = 200\n\
                    \"net.inet.tcp.keepintvl\" = 200\n\"net.inet.tcp.keepcnt\" = 3\n";
const CUT: &str = "ipfw add 50 deny tcp from any to any";
const MEND: &str = "ipfw delete 50";
/// pantala gives up what is not acknowledged for half a second.
const GIVES_UP: &str = "[sysctl]\n\"net.inet.tcp.maxunacktime\" = 500\n";

/// Linux asks after a second, and gives up when two questions are not answered.
fn keep_alive(stream: &TcpStream) {
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(1)).unwrap();
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1)).unwrap();
    sockopt::set_tcp_keepcnt(stream, 2).unwrap();
    sockopt::set_socket_keepalive(stream, true).unwrap();
}

/// Returns how an idle connection ends.
fn how_it_ends(mut stream: &TcpStream) -> ErrorKind {
    stream.read(&mut [0; 100]).unwrap_err().kind()
}

fn still_speaks(mut stream: &TcpStream) {
    stream.write_all(b"still there?").unwrap();
    let mut heard = [0; 12];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"still there?");
}

fn questions_in_a_silence_are_answered_by_linux_and_an_end_that_is_gone_is_given_up() {
    let test =
        "interop::silence::questions_in_a_silence_are_answered_by_linux_and_an_end_that_is_gone_is_given_up";
    let Some(lab) = lab(test, ASKS) else { return };
    lab.both(|family| {
        for (from, _) in directions(&lab) {
            let stream = connect(from, family, ECHO);
            let before = of(&lab, &stream).1;
            let info = || of(&lab, &stream).1;
            let asked = |info: &pantala::api::TcpInfo| {
                info.segs_out >= before.segs_out + 5 && info.segs_in >= before.segs_in + 5
            };
            until_right("five questions are answered", info, asked);
            still_speaks(&stream);
            lab.pantala().shows(CUT);
            until("pantala gives it up", || theirs(lab.pantala(), ends(&stream)).is_none().then_some(()));
            lab.pantala().shows(MEND);
        }
    });
}

fn pantala_answers_questions_of_linux_in_a_silence_and_linux_gives_up_when_it_is_gone() {
    let test = "interop::silence::pantala_answers_questions_of_linux_in_a_silence_and_linux_gives_up_when_it_is_gone";
    let Some(lab) = lab(test, "") else { return };
    lab.both(|family| {
        for (from, _) in directions(&lab) {
            let stream = connect(from, family, ECHO);
            let before = of(&lab, &stream).1;
            keep_alive(&stream);
            let info = || of(&lab, &stream).1;
            let asked = |info: &pantala::api::TcpInfo| {
                info.segs_out >= before.segs_out + 3 && info.segs_in >= before.segs_in + 3
            };
            until_right("three questions are answered", info, asked);
            still_speaks(&stream);
            lab.pantala().shows(CUT);
            assert_eq!(how_it_ends(&stream), ErrorKind::TimedOut);
            lab.pantala().shows(MEND);
        }
    });
}

fn linux_gives_up_what_is_not_acknowledged_in_its_user_timeout() {
    let test = "interop::silence::linux_gives_up_what_is_not_acknowledged_in_its_user_timeout";
    let Some(lab) = lab(test, "") else { return };
    lab.both(|family| {
        for (from, _) in directions(&lab) {
            let mut stream = connect(from, family, ECHO);
            still_speaks(&stream);
            sockopt::set_tcp_user_timeout(&stream, 500).unwrap();
            lab.pantala().shows(CUT);
            stream.write_all(b"is anybody there?").unwrap();
            assert_eq!(how_it_ends(&stream), ErrorKind::TimedOut);
            lab.pantala().shows(MEND);
        }
    });
}

/// A host of which nothing is heard any more, until this is dropped.
struct Silent<'a>(&'a Host);

impl<'a> Silent<'a> {
    fn fall(host: &'a Host) -> Self {
        nft(host, "add table inet silence");
        nft(host, "add chain inet silence out { type filter hook output priority 0; policy drop; }");
        Self(host)
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        nft(self.0, "delete table inet silence");
    }
}

fn nft(host: &Host, line: &str) {
    let mut command = Command::new("nft");
    assert!(host.netns.put(command.arg(line)).unwrap().status().unwrap().success(), "{line}");
}

fn pantala_gives_up_what_linux_does_not_acknowledge_in_its_user_timeout() {
    let test = "interop::silence::pantala_gives_up_what_linux_does_not_acknowledge_in_its_user_timeout";
    let Some(lab) = need::program("nft").then(|| lab(test, GIVES_UP)).flatten() else { return };
    lab.both(|family| {
        for (from, to) in directions(&lab) {
            for is_near in [true, false] {
                let Talk { near, far } = Talk::begin(from, to, family);
                let (host, silent, mut speaks) = if is_near { (from, near, far) } else { (to, far, near) };
                let given_up = ends(&silent);
                let peace = Silent::fall(host);
                speaks.write_all(b"is anybody there?").unwrap();
                until("pantala gives it up", || theirs(lab.pantala(), given_up).is_none().then_some(()));
                assert_eq!(how_it_ends(&speaks), ErrorKind::ConnectionReset);
                drop(peace);
            }
        }
    });
}

/// Writes until nothing more is taken for a while; answers the hash of what was, and how much it is.
fn fill(mut stream: &TcpStream) -> (Sha256, u64) {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut hash, mut bytes) = (Sha256::new(), 0_u64);
    loop {
        let block: Vec<u8> =
            (bytes..bytes + 8192).flat_map(|at| at.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
        match stream.write(&block) {
            Ok(count) => {
                hash.update(&block[..count]);
                bytes += count as u64;
            }
            Err(why) => {
                assert_eq!(why.kind(), ErrorKind::WouldBlock);
                return (hash, bytes);
            }
        }
    }
}

fn drain(mut stream: &TcpStream, bytes: u64) -> Sha256 {
    let (mut hash, mut left) = (Sha256::new(), bytes);
    let mut block = vec![0; 1 << 16];
    while left > 0 {
        let most = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        let count = stream.read(&mut block[..most]).unwrap();
        assert!(count > 0, "{left} bytes are missing");
        hash.update(&block[..count]);
        left -= count as u64;
    }
    hash
}

/// Stops reading at `reader`: the sender finds a zero window, and probes until it opens.
fn stop_and_go(lab: &Lab, writer: &TcpStream, reader: &TcpStream) {
    let before = of(lab, writer).1.zero_windows;
    let (sent, bytes) = fill(writer);
    until_right("Linux takes no more", || of(lab, reader).1, |info| info.snd_wnd == 0);
    until_right("pantala takes no more", || of(lab, writer).1, |info| info.zero_windows > before);
    let (to_reader, from_writer) = (of(lab, reader).1, of(lab, writer).1);
    let asked = || (of(lab, reader).1, of(lab, writer).1);
    until_right("both ask whether there is room", asked, |(reader, writer)| {
        reader.segs_out >= to_reader.segs_out + 2 && writer.segs_in >= from_writer.segs_in + 2
    });
    assert_eq!(drain(reader, bytes).finalize(), sent.finalize());
}

fn a_reader_that_stops_stops_the_writer_and_when_it_goes_on_nothing_is_missing() {
    let test =
        "interop::silence::a_reader_that_stops_stops_the_writer_and_when_it_goes_on_nothing_is_missing";
    let Some(lab) = lab(test, "") else { return };
    lab.both(|family| {
        for (from, to) in directions(&lab) {
            let talk = Talk::begin(from, to, family);
            stop_and_go(&lab, &talk.near, &talk.far);
            stop_and_go(&lab, &talk.far, &talk.near);
            talk.near.set_write_timeout(Some(PATIENCE)).unwrap();
            (&talk.near).write_all(b"on it goes").unwrap();
            let mut heard = [0; 10];
            (&talk.far).read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"on it goes");
        }
    });
}

harness::tests![
    questions_in_a_silence_are_answered_by_linux_and_an_end_that_is_gone_is_given_up,
    pantala_answers_questions_of_linux_in_a_silence_and_linux_gives_up_when_it_is_gone,
    linux_gives_up_what_is_not_acknowledged_in_its_user_timeout,
    pantala_gives_up_what_linux_does_not_acknowledge_in_its_user_timeout,
    a_reader_that_stops_stops_the_writer_and_when_it_goes_on_nothing_is_missing,
];
