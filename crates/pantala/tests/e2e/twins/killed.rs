//! Twins of a pantala that was killed, and those of others.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use dev::netlink::{Heard, Link as KernelLink, RouteMonitor};
use dev::netns::Netns;
use dev::sys::tun::Tap;
use ipnet::IpNet;
use rustix::process::Signal;

use super::{MORE, PORT, addresses, answer, both_live, greet, lab, net};
use crate::lab::{Attach, Family, Lab, at};
use crate::need;
use crate::pantala::{Pantala, up_fails};
use crate::wait::{until, until_right};

/// `RTM_DELLINK` and `RTM_DELADDR`.
const REMOVED: [u16; 2] = [17, 21];

fn link(lab: &Lab, name: &str) -> Option<KernelLink> {
    lab.router.netlink().unwrap().link(name).ok()
}

/// The addresses of the interface, when its twin has the same.
fn mirrored(lab: &Lab) -> Vec<IpNet> {
    let ours = || {
        let shown = lab.pantala().interface("if2").addresses;
        let mut own: Vec<_> =
            shown.iter().map(|own| IpNet::new_assert(own.address, own.prefix_len)).collect();
        own.sort_unstable();
        own
    };
    until_right("the same addresses", || (addresses(lab), ours()), |(a, b)| a == b).0
}

fn ip(netns: &Netns, line: &str) -> String {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace());
    let done = netns.put(&mut command).unwrap().output().unwrap();
    assert!(done.status.success(), "ip {line}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// The kernel's routes by the twin, but for what they say of carrier.
fn routes(lab: &Lab) -> String {
    let all = ["-4", "-6"].map(|family| ip(&lab.router, &format!("{family} route show dev if2 table all")));
    all.concat().replace(" dead", "").replace(" linkdown", "")
}

/// Whether the kernel has told of an address or of an interface that was removed.
fn has_lost_any(monitor: &mut RouteMonitor) -> bool {
    let mut lost = false;
    loop {
        let mut rest = match monitor.read().unwrap() {
            Heard::Messages(messages) => messages,
            Heard::Overrun => panic!("messages were lost"),
            Heard::Nothing => return lost,
        };
        while let Some((header, _)) = rest.split_first_chunk::<16>() {
            let [a, b, c, d, kind @ ..] = *header;
            lost |= REMOVED.contains(&u16::from_ne_bytes([kind[0], kind[1]]));
            let len = (u32::from_ne_bytes([a, b, c, d]) as usize).next_multiple_of(4);
            rest = rest.get(len..).unwrap_or_default();
        }
    }
}

/// A connection of the kernel with a program of the second host.
fn connection(lab: &Lab, family: Family) -> [TcpStream; 2] {
    let (own, theirs) = (lab.hosts[1].router(family), lab.hosts[1].addr(family));
    let listener = lab.router.run(|| TcpListener::bind(at(own, PORT + 1))).unwrap().unwrap();
    let other = lab.hosts[1].netns.run(|| TcpStream::connect(at(own, PORT + 1))).unwrap().unwrap();
    let (stream, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), theirs);
    [stream, other]
}

fn kill(lab: &mut Lab) {
    lab.pantala = lab.pantala.take().map(Pantala::killed);
    until_right("no carrier", || link(lab, "if2").unwrap().carrier, |carrier| *carrier == Some(false));
}

fn start_again(lab: &mut Lab) {
    let ended = lab.pantala.take().unwrap();
    lab.pantala = Some(ended.started_again(&lab.router));
    until("all interfaces run", || lab.pantala().is_running().then_some(()));
}

fn a_twin_outlives_a_killed_pantala_and_is_taken_over() {
    let test = "twins::a_twin_outlives_a_killed_pantala_and_is_taken_over";
    let Some(mut lab) = need::program("ip").then(|| lab(test, Attach::Native, 1)).flatten() else { return };
    let before = mirrored(&lab);
    let number = link(&lab, "if2").unwrap().index;
    for family in Family::BOTH {
        let (own, via) = (lab.hosts[1].router(family), lab.hosts[1].addr(family));
        let to = family.pick("198.18.0.0/16", "2001:db8::/32");
        ip(&lab.router, &format!("route add {to} via {via} dev if2 src {own}"));
        greet(&lab.router, own, PORT);
    }
    let known = routes(&lab);
    assert!(known.contains("198.18.0.0/16") && known.contains("2001:db8::/32"), "{known}");
    let mut streams = Family::BOTH.map(|family| connection(&lab, family));
    let mut monitor = lab.router.run(RouteMonitor::open_for_links).unwrap().unwrap();

    kill(&mut lab);
    assert_eq!(
        (link(&lab, "if2").unwrap().index, addresses(&lab), routes(&lab)),
        (number, before.clone(), known.clone())
    );
    start_again(&mut lab);
    until_right("carrier", || link(&lab, "if2").unwrap().carrier, |carrier| *carrier == Some(true));
    assert_eq!(mirrored(&lab), before);
    assert_eq!((link(&lab, "if2").unwrap().index, routes(&lab)), (number, known));
    assert!(!has_lost_any(&mut monitor), "an address, or an interface, was removed");
    let b = &lab.hosts[1];
    lab.both(|family| both_live(&lab.router, &b.netns, b.router(family), b.addr(family), family));
    for [own, other] in &mut streams {
        own.write_all(b"still").unwrap();
        let mut text = [0; 5];
        other.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"still");
    }

    // The configuration and the twin change while nothing runs.
    kill(&mut lab);
    let of = |family, host| net(family, lab.hosts[1].neighbour(family, host));
    let [old, new] = [1, 9].map(|host| of(Family::V4, host));
    let [kept, added] = [1, 9].map(|host| of(Family::V6, host));
    let config = lab.config(MORE).replace(&old.to_string(), &new.to_string());
    let config = config.replace(&format!("\"{kept}\""), &format!("\"{kept}\", \"{added}\""));
    lab.pantala().rewrite_config(&config.replace("mtu = 1500", "mtu = 1400"));
    ip(&lab.router, "address add 192.0.2.1/32 dev if2");
    ip(&lab.router, "link set dev if2 address 02:00:00:00:00:77");
    start_again(&mut lab);
    let after = mirrored(&lab);
    assert!([new, kept, added].iter().all(|net| after.contains(net)), "{after:?}");
    // The fourth is link-local.
    assert!(!after.contains(&old) && after.len() == 4, "{after:?}");
    let twin = link(&lab, "if2").unwrap();
    let own = lab.pantala().interface("if2").mac.unwrap().0.octets();
    assert_eq!((twin.index, twin.mtu, twin.mac), (number, 1400, Some(own)));
    greet(&lab.router, new.addr(), PORT);
    until("the new address answers", || answer(&lab.hosts[1].netns, new.addr(), PORT, b"x").ok());
    lab.pantala().signal(Signal::TERM);
    lab.pantala_mut().wait();
    assert!(link(&lab, "if2").is_none(), "it goes at an orderly end");
}

fn twins_of_a_killed_pantala_that_nothing_needs_are_removed_and_those_of_others_are_not() {
    let test = "twins::twins_of_a_killed_pantala_that_nothing_needs_are_removed_and_those_of_others_are_not";
    let Some(mut lab) = lab(test, Attach::Native, 1) else { return };
    // One that other programs keep, and one of another pantala, which is about to start again.
    for (name, alias) in [("kept", None), ("other", Some("pantala twin of other; /etc/other.toml"))] {
        lab.router.run(|| Tap::open(name, 1).unwrap().set_persistent(true).unwrap()).unwrap();
        alias.iter().for_each(|alias| lab.router.netlink().unwrap().set_alias(name, alias).unwrap());
    }
    kill(&mut lab);
    lab.pantala().rewrite_config(&lab.config(MORE).replace("punt = true", "punt = \"new\""));
    start_again(&mut lab);
    assert!(link(&lab, "if2").is_none(), "nothing needs it");
    assert!(["kept", "other", "new"].iter().all(|name| link(&lab, name).is_some()));
    // It is not shared, and not taken.
    for (name, says) in [("kept", "an interface kept that"), ("other", "/etc/other.toml")] {
        lab.pantala().rewrite_config(&lab.config(MORE).replace("punt = true", &format!("punt = \"{name}\"")));
        let said = lab.pantala().command("reload").err;
        assert!(said.contains(says) && said.contains("write punt = \"NAME\" with another name"), "{said}");
        assert!(link(&lab, "new").is_some());
    }
    lab.pantala = lab.pantala.take().map(Pantala::killed);
    let said = up_fails(&lab.router, lab.pantala().folder());
    assert!(said.err.contains("/etc/other.toml"), "{said:?}");
    // The one of the run before waits for a start that succeeds.
    assert!(link(&lab, "new").is_some());
    lab.pantala().rewrite_config(&lab.config(MORE).replace("punt = true", "punt = \"newer\""));
    start_again(&mut lab);
    assert!(link(&lab, "new").is_none() && link(&lab, "kept").is_some() && link(&lab, "other").is_some());
    // A start that has taken it over, and fails, removes it.
    lab.pantala = lab.pantala.take().map(Pantala::killed);
    let config = lab.config(MORE).replace("punt = true", "punt = \"newer\"");
    lab.pantala().rewrite_config(&(config + "[[interface]]\nname = \"no\"\ndevice = \"tap:lo\"\n"));
    let said = up_fails(&lab.router, lab.pantala().folder());
    assert!(said.err.contains("interface lo is no TAP"), "{said:?}");
    assert!(link(&lab, "newer").is_none(), "{said:?}");
}

harness::tests![
    a_twin_outlives_a_killed_pantala_and_is_taken_over,
    twins_of_a_killed_pantala_that_nothing_needs_are_removed_and_those_of_others_are_not,
];
