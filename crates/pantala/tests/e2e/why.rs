//! `why` and `trace`: what is said of packets, beside what then happens to them.

use core::net::IpAddr;
use core::time::Duration;
use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use dev::netns::Netns;
use rustix::net::sockopt;
use serde_json::Value;

use crate::firewall::section;
use crate::lab::{Attach, Family, Lab, Link, at};
use crate::socket::{hear_errors, listen, ping, udp};
use crate::wait::until;

const RULES: &str = "\
add 100 check-state
add 110 allow ip from any to me
add 120 deny tcp from any to any 23
add 130 reset tcp from any to any 25
add 200 allow ip from any to any recv if1 keep-state
add 210 allow ip from me to any
";

/// Time after which nothing comes any more, also on a machine that has much to do.
const SOON: Duration = Duration::from_secs(2);

/// What then happens.
#[derive(Debug, PartialEq)]
enum Fate {
    /// The other host gets it.
    Arrives,
    /// An error comes back.
    Refused,
    /// Nothing comes back.
    Silence,
}

fn lab(test: &str) -> Option<Lab> {
    let links = [Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2)];
    let mut lab = Lab::without_pantala(test, &links)?;
    lab.run_pantala(&section("deny", RULES));
    Some(lab)
}

/// A datagram: whether it arrives at `to`, or an error comes back.
fn datagram(from: &UdpSocket, to: Option<&UdpSocket>, target: IpAddr, port: u16) -> Fate {
    hear_errors(from, Family::of(target));
    from.connect(at(target, port)).unwrap();
    from.set_read_timeout(Some(SOON)).unwrap();
    from.send(b"?").unwrap();
    let mut buffer = [0; 8];
    if let Some(to) = to {
        to.set_read_timeout(Some(SOON)).unwrap();
        if to.recv(&mut buffer).is_ok() {
            return Fate::Arrives;
        }
    }
    match from.recv(&mut buffer).map_err(|why| why.kind()) {
        Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => Fate::Silence,
        Err(_) => Fate::Refused,
        Ok(_) => Fate::Arrives,
    }
}

fn connect(from: &Netns, target: IpAddr, port: u16) -> Fate {
    let connected = from.run(|| TcpStream::connect_timeout(&at(target, port), SOON)).unwrap();
    match connected.map_err(|why| why.kind()) {
        Ok(_) => Fate::Arrives,
        Err(ErrorKind::TimedOut) => Fate::Silence,
        Err(_) => Fate::Refused,
    }
}

/// Compares what is said of a packet with what happens to it then; returns the end and the verdict.
fn check(lab: &Lab, line: String, fate: &dyn Fn() -> Fate) -> (String, String) {
    let states = || lab.pantala().json("ipfw -d list").as_array().map_or(0, Vec::len);
    let before = states();
    let answer: Value = lab.pantala().json(&format!("why {line}"));
    assert!(states() <= before, "{line}: {answer}");
    let [end, verdict] = ["end", "verdict"].map(|key| answer[key].as_str().unwrap().to_owned());
    let expected = match end.as_str() {
        "sent" | "delivered" => Fate::Arrives,
        "answered" => Fate::Refused,
        _ => Fate::Silence,
    };
    let reason = verdict.rsplit_once('(').map(|(_, name)| name.trim_end_matches(')').to_owned());
    let dropped = reason.as_ref().map(|reason| lab.pantala().dropped(reason));
    assert_eq!(fate(), expected, "{line}: {answer}");
    if let Some((reason, before)) = reason.zip(dropped) {
        until("it is counted", || (lab.pantala().dropped(&reason) > before).then_some(()));
    }
    (end, verdict)
}

fn twenty_packets_end_as_why_says() {
    let Some(lab) = lab("why::twenty_packets_end_as_why_says") else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let (from, to) = (a.addr(family), b.addr(family));
        // Neighbours are known.
        assert_eq!(ping(&a.netns, to, 1), 1);
        let check = |line: String, fate: &dyn Fn() -> Fate| check(&lab, line, fate);
        let connect = |target, port| connect(&a.netns, target, port);
        let far = family.pick("203.0.113.9", "2001:db8:ffff::9").parse::<IpAddr>().unwrap();
        let router = a.router(family);
        let listener = listen(&b.netns, family, 0);
        let port = listener.local_addr().unwrap().port();
        let (there, back) = (|| udp(&a.netns, to), udp(&b.netns, to));
        let open = back.local_addr().unwrap().port();

        let (end, verdict) =
            check(format!("{from} {to} udp {open}"), &|| datagram(&there(), Some(&back), to, open));
        assert_eq!((end.as_str(), verdict), ("sent", format!("sent by if2 to {to}")));
        check(format!("{from} {to} tcp {port}"), &|| connect(to, port));
        let (end, _) = check(format!("{from} {to} tcp 23"), &|| connect(to, 23));
        assert_eq!(end, "dropped");
        let (end, _) = check(format!("{from} {to} tcp 25"), &|| connect(to, 25));
        assert_eq!(end, "answered");
        let (_, verdict) = check(format!("{from} {far} udp 7"), &|| datagram(&there(), None, far, 7));
        assert!(verdict.contains("no_route"), "{verdict}");
        let (_, verdict) = check(format!("{from} {router} udp 7"), &|| datagram(&there(), None, router, 7));
        assert_eq!(verdict, "refused: no socket has port 7");
        let (_, verdict) = check(format!("{from} {router} tcp 7"), &|| connect(router, 7));
        assert_eq!(verdict, "refused: no socket has port 7");
        let (end, _) = check(format!("{from} {router}"), &|| match ping(&a.netns, router, 1) {
            1 => Fate::Arrives,
            _ => Fate::Silence,
        });
        assert_eq!(end, "delivered");
        let (_, verdict) = check(format!("{from} {to} udp {open} ttl 1"), &|| {
            let socket = there();
            match family {
                Family::V4 => sockopt::set_ip_ttl(&socket, 1).unwrap(),
                Family::V6 => sockopt::set_ipv6_unicast_hops(&socket, Some(1)).unwrap(),
            }
            datagram(&socket, Some(&back), to, open)
        });
        assert!(verdict.contains("ICMP error"), "{verdict}");
        let (_, verdict) = check(format!("{to} {from} udp 7"), &|| {
            let (caller, called) = (udp(&b.netns, from), udp(&a.netns, from));
            datagram(&caller, Some(&called), from, called.local_addr().unwrap().port())
        });
        assert!(verdict.contains("firewall_deny"), "{verdict}");
    });
}

fn mistakes_are_explained() {
    let Some(lab) = lab("why::mistakes_are_explained") else { return };
    for (line, says) in [
        ("why 10.77.1.2 10.77.2.2 tcp 1 from nowhere", "nowhere"),
        ("why 203.0.113.9 10.77.2.2 tcp 1", "no route leads to the source"),
        ("why 10.77.1.2 10.77.2.2 udp 1 len 9000", "1800 at the most"),
        ("trace -c 100000", "count: 1 to 10000"),
    ] {
        let said = lab.pantala().command(line);
        assert!(said.code != Some(0) && said.err.contains(says), "{line}: {}", said.err);
    }
}

fn packets_are_traced_as_they_come() {
    let Some(lab) = lab("why::packets_are_traced_as_they_come") else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let to = b.addr(family);
        assert_eq!(ping(&a.netns, to, 1), 1);
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
        command.arg("--socket").arg(lab.pantala().socket()).args(["--json", "trace", "-c", "2"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        until("two are traced", || {
            ping(&a.netns, to, 1);
            child.try_wait().unwrap()
        });
        let said = child.wait_with_output().unwrap();
        let text = String::from_utf8(said.stdout).unwrap();
        let packets: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(packets.len(), 2, "{text}");
        let steps = packets[0]["steps"].as_array().unwrap();
        assert!(steps.iter().any(|step| step["cycles"].as_u64().unwrap() > 0), "{text}");
        // Off again.
        assert_eq!(ping(&a.netns, to, 3), 3);
    });
}

harness::tests![twenty_packets_end_as_why_says, mistakes_are_explained, packets_are_traced_as_they_come];
