//! The packet generator: through the kernel and through pantala, over TAP and AF_XDP, and what it says of each.

use core::net::IpAddr;
use std::process::{Child, Command, Stdio};

use dev::netlink::{Route, Veth};
use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use dev::sys::sysctl;
use ipnet::IpNet;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab::{Attach, Family, Link, namespace};
use crate::need::{self, Permit};
use crate::pantala::{PROGRAM, Pantala, Said};
use crate::wait::until;

/// The forwarder between the generator's two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Router {
    Kernel,
    Pantala,
}

/// The attachment of the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    /// By TAPs of its own, whose kernel ends are the router's.
    Tap,
    /// By veth pairs, or the kernel ends of pantala's TAPs, which it takes over with AF_XDP.
    Xdp(&'static str),
}

/// A generator's namespace, and a router's: the same one where the generator has TAPs.
pub(crate) struct Track {
    pub(crate) ports: Ports,
    generator: Netns,
    pub(crate) router: Netns,
    pantala: Option<Pantala>,
    /// Further sections of pantala's configuration.
    more: String,
    _permit: Permit,
}

const FRAMES: u64 = 3000;

impl Track {
    fn build(who: Router, ports: Ports) -> Option<Self> {
        Self::build_with(who, ports, "")
    }

    pub(crate) fn build_with(who: Router, ports: Ports, more: &str) -> Option<Self> {
        if !need::lab(&[Link::new(Attach::Tap), Link::new(Attach::Native)]) {
            return None;
        }
        let permit = Permit::wait();
        let (generator, router) = (namespace(), namespace());
        let mut track =
            Self { ports, generator, router, pantala: None, more: more.to_owned(), _permit: permit };
        match (who, ports) {
            (Router::Kernel, Ports::Tap) => {}
            (Router::Kernel, Ports::Xdp(_)) => {
                track.cables();
                configure(&track.router, &["r0", "r1"]);
            }
            (Router::Pantala, Ports::Xdp(_)) => track.pantala_on_taps(),
            (Router::Pantala, Ports::Tap) => {
                track.cables();
                track.start_pantala(["af_xdp:r0,mode=native", "af_xdp:r1,mode=native"]);
            }
        }
        Some(track)
    }

    fn cables(&self) {
        let mut netlink = self.generator.netlink().unwrap();
        for (here, there) in [("g0", "r0"), ("g1", "r1")] {
            netlink.add_veth(&Veth::new(here, there)).unwrap();
            netlink.move_to(there, &self.router).unwrap();
            netlink.set_up(here, true).unwrap();
            self.router.netlink().unwrap().set_up(there, true).unwrap();
        }
    }

    fn pantala_on_taps(&mut self) {
        self.start_pantala(["tap:g0", "tap:g1"]);
        let mut netlink = self.router.netlink().unwrap();
        for tap in ["g0", "g1"] {
            netlink.move_to(tap, &self.generator).unwrap();
            self.generator.netlink().unwrap().set_up(tap, true).unwrap();
        }
    }

    fn start_pantala(&mut self, devices: [&str; 2]) {
        let section = |(at, device): (u8, &str)| {
            let [v4, v6] = Family::BOTH.map(|family| net(family, at, 1));
            format!(
                "[[interface]]\nname = \"if{at}\"\ndevice = \"{device}\"\naddress = [\"{v4}\", \"{v6}\"]\n"
            )
        };
        let sections: String = (1..).zip(devices).map(section).collect();
        self.pantala =
            Some(Pantala::start(&self.router, &format!("forwarding = true\n{sections}{}", self.more)));
        until("pantala's addresses may be used", || {
            let all = self.pantala.as_ref().unwrap().interfaces();
            let mut states =
                all.iter().flat_map(|interface| &interface.addresses).map(|address| address.state);
            states.all(|state| state == pantala::api::AddressState::Preferred).then_some(())
        });
    }

    /// The generator's command line, to the router and by `dst` to the other port.
    fn line(&self, family: Family, dst: &str, more: &str) -> String {
        let [tx, rx] = self.devices();
        let (own, gateway) = (net(family, 1, 2), net(family, 1, 1).addr());
        format!("pktgen -i {tx} --rx {rx} --addr {own} --gateway {gateway} --dst {dst} {more}")
    }

    /// The generator's devices.
    pub(crate) fn devices(&self) -> [String; 2] {
        ["g0", "g1"].map(|name| match self.ports {
            Ports::Tap => format!("tap:{name}"),
            Ports::Xdp(mode) => format!("af_xdp:{name},mode={mode}"),
        })
    }

    pub(crate) fn start(&self, line: &str) -> Child {
        // The kernel end of a TAP is with the kernel that is to route.
        let place = if self.ports == Ports::Tap { &self.router } else { &self.generator };
        start(place, line)
    }

    /// Runs a test. Where the generator brings TAPs, the kernel is configured as soon as they are there.
    pub(crate) fn run(&self, line: &str) -> Said {
        let child = self.start(line);
        if self.ports == Ports::Tap {
            configure(&self.router, &["g0", "g1"]);
        }
        child.wait_with_output().unwrap().into()
    }

    fn measure(&self, family: Family, dst: &str, more: &str) -> (Option<i32>, Value) {
        let said = self.run(&self.line(family, dst, more));
        let summary = serde_json::from_str(&said.out).unwrap_or_else(|why| panic!("{why}: {said:?}"));
        (said.code, summary)
    }
}

pub(crate) fn start(netns: &Netns, line: &str) -> Child {
    let mut command = Command::new(PROGRAM);
    command.arg("--json").args(line.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    netns.put(&mut command).unwrap();
    end_with_parent(&mut command).spawn().unwrap()
}

/// Address `host` of link `number`.
pub(crate) fn net(family: Family, number: u8, host: u16) -> IpNet {
    let [_, low] = host.to_be_bytes();
    let v4: IpAddr = [10, 78, number, low].into();
    let v6: IpAddr = [0xfd78, 0, 0, number.into(), 0, 0, 0, host].into();
    IpNet::new_assert(family.pick(v4, v6), family.pick(24, 64))
}

/// Ten destinations on the link behind the router.
fn destinations(family: Family) -> String {
    format!("{}-{}", net(family, 2, 0x10).addr(), net(family, 2, 0x19).addr())
}

/// Makes a router of the kernel: an address on each link, in each family.
pub(crate) fn configure(router: &Netns, links: &[&str]) {
    let forward = ["ipv4.ip_forward", "ipv6.conf.all.forwarding"];
    router.run(|| forward.iter().for_each(|name| sysctl::set(name, 1).unwrap())).unwrap();
    let mut netlink = router.netlink().unwrap();
    for (number, link) in (1..).zip(links) {
        until("the link is there", || netlink.link(link).ok());
        netlink.set_up(link, true).unwrap();
        for family in Family::BOTH {
            netlink.add_address(link, net(family, number, 1)).unwrap();
        }
    }
}

pub(crate) fn count(summary: &Value, path: &str) -> u64 {
    summary.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {summary:#}"))
}

const TRACKS: [(Router, Ports); 4] = [
    (Router::Kernel, Ports::Tap),
    (Router::Kernel, Ports::Xdp("native")),
    (Router::Kernel, Ports::Xdp("generic")),
    (Router::Pantala, Ports::Xdp("generic")),
];

fn at_a_low_rate_nothing_is_lost_by_any_router_over_any_device() {
    for (who, ports) in TRACKS {
        let Some(track) = Track::build(who, ports) else { return };
        for family in Family::BOTH {
            let more = format!("--rate 2kpps --count {FRAMES} --size imix --wait 5s --loss-limit 0%");
            let (code, summary) = track.measure(family, &destinations(family), &more);
            let at = format!("{who:?} {ports:?} {family:?}: {summary:#}");
            assert_eq!(code, Some(0), "{at}");
            assert_eq!((count(&summary, "/sent/frames"), count(&summary, "/lost")), (FRAMES, 0), "{at}");
            assert_eq!(count(&summary, "/received/unique"), FRAMES, "{at}");
            assert_eq!(count(&summary, "/received/flows"), 10, "{at}");
            assert_eq!(count(&summary, "/received/duplicated"), 0, "{at}");
            // What is written to a TAP goes to the backlog of the writer's CPU: a writer that the kernel moves to another one
            // overtakes itself.
            let keeps_order = (who, ports) != (Router::Kernel, Ports::Tap);
            assert!(!keeps_order || count(&summary, "/received/reordered") == 0, "{at}");
            assert!(count(&summary, "/latency_ns/p50") > 0, "{at}");
        }
    }
}

fn between_veths_pantala_forwards_what_af_xdp_sends() {
    let Some(mut track) = Track::build(Router::Pantala, Ports::Tap) else { return };
    track.ports = Ports::Xdp("native");
    for family in Family::BOTH {
        for proto in ["udp", "tcp"] {
            let more = format!("--rate 2kpps --count {FRAMES} --proto {proto} --wait 5s --loss-limit 0%");
            let (code, summary) = track.measure(family, &destinations(family), &more);
            assert_eq!((code, count(&summary, "/lost")), (Some(0), 0), "{family:?} {proto}: {summary:#}");
        }
    }
}

/// One of ten destinations leads nowhere: a tenth is lost, neither more nor less.
fn what_a_router_discards_is_missed() {
    for who in [Router::Kernel, Router::Pantala] {
        let ports = if who == Router::Kernel { Ports::Xdp("native") } else { Ports::Xdp("generic") };
        let Some(track) = Track::build(who, ports) else { return };
        for family in Family::BOTH {
            let hole = IpNet::new_assert(net(family, 2, 0x13).addr(), family.pick(32, 128));
            match &track.pantala {
                Some(pantala) => drop(pantala.shows(&format!("route add {hole} -blackhole"))),
                None => blackhole(&track.router, hole),
            }
            let more = format!("--rate 2kpps --count {FRAMES} --wait 1s --loss-limit 9.9%");
            let (code, summary) = track.measure(family, &destinations(family), &more);
            assert_eq!(count(&summary, "/lost"), FRAMES / 10, "{who:?} {family:?}: {summary:#}");
            assert_eq!((code, &summary["passed"]), (Some(1), &Value::from(false)), "more than 9.9 %");
            let more = format!("--rate 2kpps --count {FRAMES} --wait 1s --loss-limit 10%");
            assert_eq!(track.measure(family, &destinations(family), &more).0, Some(0), "no more than 10 %");
        }
    }
}

/// A host route to the loopback, whose kernel discards what is not its own.
fn blackhole(router: &Netns, to: IpNet) {
    let mut netlink = router.netlink().unwrap();
    netlink.set_up("lo", true).unwrap();
    let loopback = netlink.link("lo").unwrap().index;
    netlink.add_route(&Route { to, via: None, ifindex: Some(loopback) }).unwrap();
}

fn a_silent_gateway_is_an_error_with_its_address() {
    let Some(track) = Track::build(Router::Kernel, Ports::Xdp("native")) else { return };
    for family in Family::BOTH {
        let nobody = net(family, 1, 0x77).addr();
        let line = track.line(family, &destinations(family), "--count 1");
        let said = track.run(
            &line.replace(&format!("--gateway {}", net(family, 1, 1).addr()), &format!("--gateway {nobody}")),
        );
        assert_eq!(said.code, Some(1), "{said:?}");
        let protocol = family.pick("ARP", "neighbour discovery");
        for part in [
            nobody.to_string(),
            "times by ".to_owned() + protocol,
            "af_xdp:g0".to_owned(),
            "--dst-mac".to_owned(),
        ] {
            assert!(said.err.contains(&part), "{part}: {}", said.err);
        }
        is_put_back(&track);
    }
}

fn an_interrupted_test_says_what_it_saw_and_puts_everything_back() {
    for ports in [Ports::Xdp("native"), Ports::Tap] {
        let Some(track) = Track::build(Router::Kernel, ports) else { return };
        let child = track.start(&track.line(Family::V4, &destinations(Family::V4), "--rate 1kpps --time 1h"));
        if ports == Ports::Tap {
            configure(&track.router, &["g0", "g1"]);
        }
        // The router has seen frames: the test is under way.
        let mut netlink = track.router.netlink().unwrap();
        until("frames pass", || {
            let neighbours =
                track.router.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
            forwarded(&neighbours).filter(|count| *count > 300)
        });
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let said: Said = child.wait_with_output().unwrap().into();
        let summary: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!((said.code, &summary["interrupted"]), (Some(0), &Value::from(true)), "{said:?}");
        assert!(count(&summary, "/received/unique") > 100, "{summary:#}");
        match ports {
            Ports::Tap => {
                assert!(["g0", "g1"].iter().all(|tap| netlink.link(tap).is_err()), "the TAPs are gone")
            }
            Ports::Xdp(_) => is_put_back(&track),
        }
    }
}

/// `ForwDatagrams` of the kernel's statistics, which count the namespace that they are read in.
fn forwarded(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "ForwDatagrams")?;
    values.split_whitespace().nth(at)?.parse().ok()
}

fn is_put_back(track: &Track) {
    let mut netlink = track.generator.netlink().unwrap();
    for name in ["g0", "g1"] {
        let link = netlink.link(name).unwrap();
        assert!(link.xdp.is_none(), "the program of {name} is gone");
        assert!(!link.flags.contains(dev::netlink::LinkFlags::PROMISC), "{name} is not promiscuous any more");
    }
}

/// A running pantala as a sink: it measures as the generator does, and forwards again when it is told to.
fn an_interface_that_monitors_measures_and_does_nothing_else() {
    let Some(mut track) = Track::build(Router::Pantala, Ports::Tap) else {
        return;
    };
    track.ports = Ports::Xdp("native");
    let pantala = track.pantala.as_ref().unwrap();
    let mac = pantala.interface("if1").mac.unwrap();
    for family in Family::BOTH {
        pantala.shows("ifconfig if1 monitor");
        assert!(pantala.shows("ifconfig if1").contains("MONITOR"));
        let (_, summary) = send_to(&track, family, &mac.to_string());
        assert_eq!((count(&summary, "/sent/frames"), count(&summary, "/received/unique")), (FRAMES, 0));
        let seen = pantala.json("netstat -M -I if1");
        assert_eq!(
            (count(&seen, "/measured"), count(&seen, "/flows"), count(&seen, "/lost")),
            (FRAMES, 10, 0),
            "{seen:#}"
        );
        assert_eq!((count(&seen, "/duplicated"), count(&seen, "/reordered")), (0, 0), "{seen:#}");
        assert!(pantala.dropped("monitor") >= FRAMES, "that is how they ended");
        pantala.shows("ifconfig if1 -monitor");
        assert_eq!(pantala.command("netstat -M -I if1").code, Some(1), "it does not monitor any more");
        let (code, summary) = track.measure(
            family,
            &destinations(family),
            "--rate 2kpps --count 200 --wait 5s --loss-limit 0%",
        );
        assert_eq!((code, count(&summary, "/lost")), (Some(0), 0), "{family:?}: {summary:#}");
    }
}

/// Sends without resolving an address; nothing comes back.
fn send_to(track: &Track, family: Family, mac: &str) -> (Option<i32>, Value) {
    let line = track.line(
        family,
        &destinations(family),
        &format!("--dst-mac {mac} --rate 2kpps --count {FRAMES} --wait 0s"),
    );
    let said = track.run(&line.replace(&format!("--gateway {}", net(family, 1, 1).addr()), ""));
    (said.code, serde_json::from_str(&said.out).unwrap_or_else(|why| panic!("{why}: {said:?}")))
}

fn a_device_without_a_wire_takes_everything_and_gives_frames_without_end() {
    let _permit = Permit::wait();
    let place = namespace();
    for family in Family::BOTH {
        let (src, dst) = (net(family, 1, 2).addr(), net(family, 2, 2).addr());
        let line =
            format!("pktgen -i null: --src {src} --dst {dst} --dst-mac 02:00:00:00:00:01 --count 100000");
        let said: Said = start(&place, &line).wait_with_output().unwrap().into();
        let summary: Value = serde_json::from_str(&said.out).unwrap_or_else(|why| panic!("{why}: {said:?}"));
        assert_eq!((count(&summary, "/sent/frames"), count(&summary, "/received/frames")), (100_000, 0));
    }
    let said: Said =
        start(&place, "pktgen -i null:rx=60 --sink --time 1s").wait_with_output().unwrap().into();
    let summary: Value = serde_json::from_str(&said.out).unwrap_or_else(|why| panic!("{why}: {said:?}"));
    assert!(count(&summary, "/received/other") > 100_000, "{summary:#}");
    let said: Said =
        start(&place, "pktgen -i null:rx=59 --sink --time 1s").wait_with_output().unwrap().into();
    assert!(
        said.code == Some(2) && said.err.contains("null:rx=N for frames of 60 to 1514 bytes"),
        "{said:?}"
    );
}

harness::tests![
    a_device_without_a_wire_takes_everything_and_gives_frames_without_end,
    at_a_low_rate_nothing_is_lost_by_any_router_over_any_device,
    between_veths_pantala_forwards_what_af_xdp_sends,
    what_a_router_discards_is_missed,
    a_silent_gateway_is_an_error_with_its_address,
    an_interrupted_test_says_what_it_saw_and_puts_everything_back,
    an_interface_that_monitors_measures_and_does_nothing_else,
];
