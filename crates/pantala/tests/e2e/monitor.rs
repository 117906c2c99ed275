//! `route monitor`: changes as they are made.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::lab::{Attach, Lab, Link};
use crate::pantala::{Folder, PROGRAM, Pantala};
use crate::socket::ping;
use crate::wait::until;

/// `pantala route monitor`, and the lines that it has written.
struct Monitor {
    child: Child,
    folder: Folder,
}

impl Monitor {
    /// Starts it, and waits until it tells changes.
    fn start(pantala: &Pantala, options: &[&str]) -> Self {
        let folder = Folder::new();
        let out = File::create(folder.file("lines")).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("--socket").arg(pantala.socket()).args(options).args(["route", "-n", "monitor"]);
        let child = command.stdin(Stdio::null()).stdout(out).spawn().unwrap();
        let monitor = Self { child, folder };
        until("the monitor tells changes", || {
            pantala.shows("route add 198.18.0.0/15 -blackhole");
            pantala.shows("route delete 198.18.0.0/15");
            monitor.text().contains("198.18.0.0/15").then_some(())
        });
        monitor
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.folder.file("lines")).unwrap()
    }

    /// Waits until there are lines that end so, in this order.
    #[track_caller]
    fn tells(&self, wanted: &[String]) {
        until(&format!("{wanted:#?}"), || {
            let text = self.text();
            let mut left = wanted.iter().peekable();
            for line in text.lines() {
                left.next_if(|wanted| line.ends_with(wanted.as_str()));
            }
            left.peek().is_none().then_some(())
        });
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn changes_of_routes_neighbours_addresses_and_interfaces_are_told() {
    const TEST: &str = "monitor::changes_of_routes_neighbours_addresses_and_interfaces_are_told";
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Tap)]) else { return };
    let (host, pantala) = (&lab.hosts[0], lab.pantala());
    let name = host.ifname();
    let monitor = Monitor::start(pantala, &[]);
    lab.both(|family| {
        let (net, gateway) = (family.pick("203.0.113.0/24", "2001:db8:cafe::/48"), host.addr(family));
        pantala.shows(&format!("route add {net} {gateway}"));
        pantala.shows(&format!("route change {net} -blackhole"));
        pantala.shows(&format!("route delete {net}"));
        monitor.tells(&[
            format!("RTM_ADD {net} {gateway} {name} static"),
            format!("RTM_CHANGE {net} blackhole static"),
            format!("RTM_DELETE {net} blackhole static"),
        ]);
        let alias = family.pick("inet 10.97.0.1/24", "inet6 fd97::1/64");
        let address = alias.split_once(' ').unwrap().1;
        pantala.shows(&format!("ifconfig {name} {alias} alias"));
        pantala.shows(&format!("ifconfig {name} {alias} -alias"));
        monitor.tells(&[format!("RTM_NEWADDR {address} {name}"), format!("RTM_DELADDR {address} {name}")]);
    });
    pantala.shows("ifconfig tun8 create");
    pantala.shows("ifconfig tun8 down");
    pantala.shows("ifconfig tun8 destroy");
    monitor.tells(
        &["RTM_IFANNOUNCE tun8 created", "RTM_IFINFO tun8 up", "RTM_IFINFO tun8 down"].map(str::to_owned),
    );
    monitor.tells(&["RTM_IFANNOUNCE tun8 destroyed".to_owned()]);
}

fn a_neighbour_is_told_when_it_is_learnt_changed_and_forgotten() {
    const TEST: &str = "monitor::a_neighbour_is_told_when_it_is_learnt_changed_and_forgotten";
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Tap).rings(2)]) else { return };
    let (host, pantala) = (&lab.hosts[0], lab.pantala());
    let name = host.ifname();
    let monitor = Monitor::start(pantala, &[]);
    let mac = host.netns.netlink().unwrap().link(&host.inside()).unwrap().mac.unwrap();
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    lab.both(|family| {
        let (word, addr, other) = (family.pick("arp", "ndp"), host.addr(family), host.neighbour(family, 9));
        assert_eq!(ping(&host.netns, host.router(family), 1), 1);
        monitor.tells(&[format!("RTM_ADD {addr} lladdr {mac} {name}")]);
        pantala.shows(&format!("{word} -d {addr}"));
        monitor.tells(&[format!("RTM_DELETE {addr} lladdr {mac} {name}")]);
        for mac in ["02:00:00:00:00:07", "02:00:00:00:00:08"] {
            pantala.shows(&format!("{word} -s {other} {mac}"));
        }
        pantala.shows(&format!("{word} -d {other}"));
        monitor.tells(&[
            format!("RTM_ADD {other} lladdr 02:00:00:00:00:07 {name}"),
            format!("RTM_CHANGE {other} lladdr 02:00:00:00:00:08 {name}"),
            format!("RTM_DELETE {other} lladdr 02:00:00:00:00:08 {name}"),
        ]);
    });
}

fn changes_are_told_as_json_and_again_after_a_reload() {
    const TEST: &str = "monitor::changes_are_told_as_json_and_again_after_a_reload";
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Tap)]) else { return };
    let (host, pantala) = (&lab.hosts[0], lab.pantala());
    let monitor = Monitor::start(pantala, &["--json"]);
    lab.both(|family| {
        let net = family.pick("203.0.113.0/24", "2001:db8:cafe::/48");
        let route = format!("[[route]]\nto = \"{net}\"\nvia = \"{}\"\n", host.addr(family));
        pantala.rewrite_config(&lab.config(&route));
        pantala.shows("reload");
        pantala.rewrite_config(&lab.config(""));
        pantala.shows("reload");
        for op in ["added", "deleted"] {
            until(op, || {
                let text = monitor.text();
                let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                let is_it =
                    |line: &Value| line["kind"] == "route" && line["op"] == op && line["route"]["to"] == net;
                lines.any(|line| is_it(&line) && line["at_ns"].as_u64() > Some(0)).then_some(())
            });
        }
    });
}

harness::tests![
    changes_of_routes_neighbours_addresses_and_interfaces_are_told,
    a_neighbour_is_told_when_it_is_learnt_changed_and_forgotten,
    changes_are_told_as_json_and_again_after_a_reload,
];
