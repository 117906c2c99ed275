//! XDP programs of users: in the kernel before ours, and in pantala on a TAP, as the hosts at both ends see them.

use core::time::Duration;
use std::net::UdpSocket;
use std::path::Path;

use dev::bpf::link::{XdpLink, XdpMode};
use dev::bpf::map::XskMap;
use dev::bpf::redirect;
use dev::sys::ethtool::{Ethtool, Feature};

use crate::lab::{Attach, Family, Lab, Link, at};
use crate::pantala::{Folder, Pantala};
use crate::socket::{datagram_arrives, udp};
use crate::wait::until;

const PROGRAM: &str = "../dev/tests/xdp/ports.o";
/// The number in the file that stands for the interface to redirect to.
const REDIRECT_TO: u32 = 0x5eed_5eed;
const SENT_BACK: u16 = 7;
const DROPPED: u16 = 9;
const REDIRECTED: u16 = 19;
const TAGGED: u16 = 21;

/// Two hosts that finish their checksums, with the program on the first one's link; and what lets their ends of a veth receive
/// what is sent back.
fn lab(test: &str, attach: Attach, folder: &Folder) -> Option<(Lab, Vec<XdpLink>)> {
    let mut lab = Lab::without_pantala(test, &[Link::new(attach), Link::new(attach)])?;
    let mut links = Vec::new();
    if attach.is_made_by_pantala() {
        // As `ifconfig` numbers them.
        write_program(&folder.file("ports.o"), 2);
    } else {
        let number = lab.router.netlink().unwrap().link("port2").unwrap().index;
        write_program(&folder.file("ports.o"), number);
        for host in &lab.hosts {
            let set = || {
                let device = Ethtool::open("eth0").unwrap();
                device.set_feature(Feature::TxChecksum, false).unwrap();
                device.set_feature(Feature::Gro, true).unwrap();
            };
            host.netns.run(set).unwrap();
            if attach == Attach::Native {
                let number = host.netns.netlink().unwrap().link("eth0").unwrap().index;
                links.push(host.netns.run(|| pass_all(number)).unwrap());
            }
        }
    }
    let config = with_program(&lab.config(""), &format!("{}:by_port", folder.file("ports.o").display()));
    lab.pantala = Some(Pantala::start(&lab.router, &config));
    lab.attach();
    Some((lab, links))
}

/// A program that lets all frames pass: without one, a veth does not see what the program of its other end sends back.
fn pass_all(ifindex: u32) -> XdpLink {
    let program = redirect::load(&XskMap::new(1).unwrap(), false).unwrap();
    XdpLink::attach(&program, ifindex, XdpMode::Native).unwrap()
}

/// Writes the program that redirects to an interface.
fn write_program(file: &Path, number: u32) {
    let mut bytes = std::fs::read(PROGRAM).unwrap();
    let at = bytes.windows(4).position(|word| word == REDIRECT_TO.to_le_bytes()).unwrap();
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    std::fs::write(file, bytes).unwrap();
}

fn with_program(config: &str, program: &str) -> String {
    config.replacen("rings = 1\n", &format!("rings = 1\nxdp = \"{program}\"\n"), 1)
}

/// Verdicts on the first interface: passed, dropped, sent back, redirected, aborted.
fn verdicts(lab: &Lab) -> [u64; 5] {
    let xdp = lab.pantala().interface("if1").device.unwrap().xdp.unwrap();
    [xdp.passed, xdp.dropped, xdp.sent_back, xdp.redirected, xdp.aborted]
}

/// A datagram socket on this port of the second host.
fn server(lab: &Lab, family: Family, port: u16) -> UdpSocket {
    let socket = lab.hosts[1].netns.run(|| UdpSocket::bind((family.any(), port))).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

fn decides(lab: &Lab, family: Family) {
    let (a, b) = lab.pair();
    let mut buffer = [0; 64];
    until("the hosts reach each other", || {
        datagram_arrives(&a.netns, &b.netns, b.addr(family), 100).then_some(())
    });
    let client = udp(&a.netns, b.addr(family));
    let before = verdicts(lab);
    client.send_to(b"back", at(b.addr(family), SENT_BACK)).unwrap();
    let (len, from) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from), (&b"back"[..], at(b.addr(family), SENT_BACK)), "nobody listens there");
    let (dropped, redirected) = (server(lab, family, DROPPED), server(lab, family, REDIRECTED));
    client.send_to(b"dropped", at(b.addr(family), DROPPED)).unwrap();
    client.send_to(b"redirected", at(b.addr(family), REDIRECTED)).unwrap();
    let (len, from) = redirected.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from.ip()), (&b"redirected"[..], a.addr(family)));
    let unknown = lab.pantala().dropped("vlan_unknown");
    client.send_to(b"tagged", at(b.addr(family), TAGGED)).unwrap();
    until("the tag of the frame is seen", || (lab.pantala().dropped("vlan_unknown") > unknown).then_some(()));
    dropped.set_nonblocking(true).unwrap();
    assert!(dropped.recv_from(&mut buffer).is_err(), "it came before what has arrived");
    let after = verdicts(lab);
    assert!(after[0] > before[0]);
    assert_eq!([1, 2, 3, 4].map(|at| after[at] - before[at]), [1, 1, 1, 0]);
}

fn a_program_decides_in_the_kernel_and_in_pantala_alike() {
    let test = "xdp::a_program_decides_in_the_kernel_and_in_pantala_alike";
    for attach in [Attach::Tap, Attach::Native, Attach::Generic] {
        let folder = Folder::new();
        let Some((lab, _links)) = lab(test, attach, &folder) else { return };
        lab.both(|family| decides(&lab, family));
        let place = if attach == Attach::Tap { "process" } else { "kernel" };
        let shown = lab.pantala().shows("ifconfig if1");
        assert!(
            shown.contains("\txdp program: by_port ") && shown.contains(&format!(" {place} pass ")),
            "{shown}"
        );
        let metrics = lab.pantala().metrics();
        assert!(metrics.contains("pantala_if_xdp_frames_total{if=\"if1\",verdict=\"drop\"} 2"), "{metrics}");
    }
}

fn what_a_program_drops_can_be_captured() {
    let test = "xdp::what_a_program_drops_can_be_captured";
    for attach in [Attach::Tap, Attach::Native] {
        let folder = Folder::new();
        let Some((lab, _links)) = lab(test, attach, &folder) else { return };
        let pantala = lab.pantala();
        lab.both(|family| {
            let (a, b) = lab.pair();
            let client = udp(&a.netns, b.addr(family));
            std::thread::scope(|scope| {
                let filter = format!("tcpdump -n -i if1 -Q drop -c 2 udp and dst host {}", b.addr(family));
                let captured = scope.spawn(move || pantala.command(&filter));
                until("the capture has what it wants", || {
                    client.send_to(b"dropped", at(b.addr(family), DROPPED)).unwrap();
                    captured.is_finished().then_some(())
                });
                let said = captured.join().unwrap();
                assert!(said.out.contains("xdp_drop") || said.out.contains("XDP_DROP"), "{said:?}");
            });
        });
        let handed = lab.pantala().dropped("xdp_drop");
        assert!(handed >= 4);
        if attach == Attach::Native {
            // The kernel keeps them again.
            let (a, b) = lab.pair();
            let before = verdicts(&lab)[1];
            udp(&a.netns, b.addr(Family::V4)).send_to(b"dropped", at(b.addr(Family::V4), DROPPED)).unwrap();
            until("it is dropped", || (verdicts(&lab)[1] > before).then_some(()));
            assert_eq!(verdicts(&lab)[1] - before, 1);
        }
    }
}

fn a_reload_changes_and_removes_a_program_or_nothing() {
    let test = "xdp::a_reload_changes_and_removes_a_program_or_nothing";
    let folder = Folder::new();
    let Some((lab, _links)) = lab(test, Attach::Native, &folder) else { return };
    let (a, b) = lab.pair();
    let arrives = || datagram_arrives(&a.netns, &b.netns, b.addr(Family::V4), 100);
    until("the hosts reach each other", || arrives().then_some(()));
    let two = Path::new("../dev/tests/xdp/two.o").canonicalize().unwrap();
    let with = |program: &str| with_program(&lab.config(""), &format!("{}:{program}", two.display()));
    lab.pantala().rewrite_config(&with("nothing"));
    let said = lab.pantala().command("reload");
    assert!(
        said.err.contains("no XDP program or section `nothing` in it (there are pass, drop)"),
        "{said:?}"
    );
    assert!(arrives(), "the program is what it was");
    assert!(lab.pantala().shows("ifconfig if1").contains("xdp program: by_port"));
    lab.pantala().rewrite_config(&with("drop"));
    lab.pantala().shows("reload");
    let client = udp(&a.netns, b.addr(Family::V4));
    until("nothing passes any more", || {
        client.send_to(b"x", at(b.addr(Family::V4), 80)).unwrap();
        (verdicts(&lab)[1] > 0).then_some(())
    });
    lab.pantala().rewrite_config(&lab.config(""));
    lab.pantala().shows("reload");
    until("all passes again", || arrives().then_some(()));
    assert!(!lab.pantala().shows("ifconfig if1").contains("xdp program:"));
}

harness::tests![
    a_program_decides_in_the_kernel_and_in_pantala_alike,
    what_a_program_drops_can_be_captured,
    a_reload_changes_and_removes_a_program_or_nothing,
];
