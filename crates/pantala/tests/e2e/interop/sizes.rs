//! Small segments: because Linux wants them so, and because a link carries no longer ones.

use std::thread;

use dev::sys::sockopt::set_int;

use super::{Talk, accept, connect, directions, lab, lab_of, listen, of, port_of};
use crate::lab::{Attach, Family, Host, Link, at};
use crate::socket::{receive, send};
use crate::wait::PATIENCE;

const BYTES: u64 = 500_000;
// linux/tcp.h: IPPROTO_TCP, TCP_MAXSEG.
const MAXSEG: (i32, i32) = (6, 2);

/// Begins as [`Talk::begin`], with sockets that take segments of `mss` bytes.
fn talk(from: &Host, to: &Host, family: Family, mss: i32) -> Talk {
    let listener = listen(to, family);
    set_int(&listener, MAXSEG.0, MAXSEG.1, mss).unwrap();
    let target = at(from.router(family), port_of(to, family));
    let near = from.netns.run(|| {
        let domain = family.pick(rustix::net::AddressFamily::INET, rustix::net::AddressFamily::INET6);
        let socket = rustix::net::socket(domain, rustix::net::SocketType::STREAM, None).unwrap();
        set_int(&socket, MAXSEG.0, MAXSEG.1, mss).unwrap();
        rustix::net::connect(&socket, &target).unwrap();
        std::net::TcpStream::from(socket)
    });
    let near = near.unwrap();
    near.set_read_timeout(Some(PATIENCE)).unwrap();
    Talk { near, far: accept(&listener) }
}

/// Sends both ways, one after the other; all of it arrives.
fn arrives(talk: &Talk) {
    for (from, to) in [(&talk.near, &talk.far), (&talk.far, &talk.near)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::scope(|scope| {
            let sent = scope.spawn(|| send(from, BYTES));
            assert_eq!(receive(to).unwrap(), sent.join().unwrap().unwrap());
        });
    }
}

fn segments_are_no_longer_than_linux_wants_them() {
    let Some(lab) = lab("interop::sizes::segments_are_no_longer_than_linux_wants_them", "") else { return };
    lab.both(|family| {
        for (from, to) in directions(&lab) {
            for mss in [88, 536] {
                let talk = talk(from, to, family, mss);
                for stream in [&talk.near, &talk.far] {
                    let longest = of(&lab, stream).1.mss;
                    assert!((1..=u32::try_from(mss).unwrap()).contains(&longest), "{longest} of {mss}");
                }
                arrives(&talk);
            }
        }
    });
}

fn segments_are_no_longer_than_the_links_carry() {
    let test = "interop::sizes::segments_are_no_longer_than_the_links_carry";
    let links = [Link::new(Attach::Native), Link::new(Attach::Tap)].map(|link| link.mtu(1280));
    let Some(lab) = lab_of(test, &links, "") else { return };
    lab.both(|family| {
        for (from, to) in directions(&lab) {
            let talk = Talk::begin(from, to, family);
            for stream in [&talk.near, &talk.far] {
                let (mss, most) = (of(&lab, stream).1.mss, family.pick(1240, 1220));
                assert!((most - 12..=most).contains(&mss), "{mss} of {most}");
            }
            arrives(&talk);
            drop(connect(from, family, super::ECHO));
        }
    });
}

harness::tests![segments_are_no_longer_than_linux_wants_them, segments_are_no_longer_than_the_links_carry,];
