//! Addresses and routers that a Linux router's advertisements bring.

use std::process::{Child, Command, Stdio};

use dev::sys::sysctl;
use ipnet::IpNet;
use serde_json::Value;

use crate::lab::{Attach, Family, Host, Lab, Link};
use crate::need;
use crate::pantala::Folder;
use crate::socket::ping;
use crate::wait::until;

/// The router's address in the prefix that it advertises, and one behind it.
const NEAR: &str = "fd99:1::1";
const FAR: &str = "fd99:2::1";

/// A router that advertises itself, until it is dropped.
struct Radvd {
    child: Child,
    _folder: Folder,
}

impl Radvd {
    /// `also` is advertised beside the router's own prefix.
    fn start(host: &Host, also: &[String]) -> Self {
        host.netns.run(|| sysctl::set("ipv6.conf.all.forwarding", 1)).unwrap().unwrap();
        let mut netlink = host.netns.netlink().unwrap();
        for (link, addr, len) in [(host.inside(), NEAR, 64), ("lo".to_owned(), FAR, 128)] {
            netlink.add_address(&link, IpNet::new_assert(addr.parse().unwrap(), len)).unwrap();
        }
        let folder = Folder::new();
        let (config, pid) = (folder.file("radvd.conf"), folder.file("radvd.pid"));
        let prefix = |prefix: &str| {
            format!(
                "prefix {prefix} {{ AdvOnLink on; AdvAutonomous on; AdvValidLifetime 600; AdvPreferredLifetime 300; }};\n"
            )
        };
        let prefixes: String = also.iter().map(String::as_str).chain(["fd99:1::/64"]).map(prefix).collect();
        let text = format!(
            "interface {} {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4;\n{prefixes}}};\n",
            host.inside()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new("radvd");
        command
            .args(["--nodaemon", "--logmethod", "stderr", "--config"])
            .arg(config)
            .arg("--pidfile")
            .arg(pid);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: host.netns.put(&mut command).unwrap().spawn().unwrap(), _folder: folder }
    }
}

impl Drop for Radvd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn a_linux_router_gives_pantala_an_address_and_a_way_to_what_is_behind_it() {
    const TEST: &str = "autoconf::a_linux_router_gives_pantala_an_address_and_a_way_to_what_is_behind_it";
    if !need::program("radvd") {
        return;
    }
    // The interface's section is the last of the configuration.
    let Some(lab) = Lab::start_with(TEST, &[Link::new(Attach::Tap).rings(2)], "autoconf = true\n") else {
        return;
    };
    let host = &lab.hosts[0];
    let _radvd = Radvd::start(host, &[]);
    let own = until("pantala has an address in the router's prefix", || {
        let interface = lab.pantala().json(&format!("ifconfig {}", host.ifname()));
        let is_own = |addr: &&Value| addr["autoconf"] == true && addr["state"] == "preferred";
        interface["addresses"].as_array()?.iter().find(is_own).cloned()
    });
    let address = own["address"].as_str().unwrap();
    assert!(address.starts_with("fd99:1::") || address.starts_with("fd99:1:0:0:"), "{own}");
    assert!(own["valid_s"].as_u64().unwrap() > 500, "{own}");
    assert_eq!(ping(&host.netns, address.parse().unwrap(), 3), 3, "the router reaches pantala");
    let out = lab.pantala().shows(&format!("ping -c 3 -i 0.1 {FAR}"));
    assert!(out.contains("3 packets received"), "what is behind the router: {out}");
    let routers = lab.pantala().shows("ndp -r");
    assert!(routers.contains("pref=medium") && routers.contains("chosen"), "{routers}");
    assert!(lab.pantala().shows("ndp -p").contains("fd99:1::/64"));
}

fn an_address_that_autoconfiguration_has_made_is_removed_by_the_command() {
    const TEST: &str = "autoconf::an_address_that_autoconfiguration_has_made_is_removed_by_the_command";
    if !need::program("radvd") {
        return;
    }
    let Some(lab) = Lab::start_with(TEST, &[Link::new(Attach::Tap)], "autoconf = true\n") else { return };
    let host = &lab.hosts[0];
    let name = host.ifname();
    let own = || {
        let interface = lab.pantala().json(&format!("ifconfig {name}"));
        let is_own = |addr: &&Value| addr["autoconf"] == true && addr["state"] == "preferred";
        interface["addresses"].as_array()?.iter().find(is_own).cloned()
    };
    let radvd = Radvd::start(host, &[]);
    let found = until("pantala has an address in the router's prefix", own);
    let address = found["address"].as_str().unwrap();
    assert_eq!(ping(&host.netns, address.parse().unwrap(), 3), 3);
    // A router that goes on would have it made again.
    drop(radvd);
    lab.pantala().shows(&format!("ifconfig {name} inet6 {address} -alias"));
    until("the address is gone", || own().is_none().then_some(()));
    assert_eq!(ping(&host.netns, address.parse().unwrap(), 1), 0, "no host has it");
    assert_eq!(ping(&host.netns, host.router(Family::V6), 3), 3, "others stay");
}

/// A server of addresses on a host's link, until it is dropped.
struct Dnsmasq(Child, #[expect(dead_code, reason = "it goes with the value")] Folder);

impl Dnsmasq {
    fn start(host: &Host) -> Self {
        let folder = Folder::new();
        let v4 = |last| host.neighbour(Family::V4, last);
        let mut command = Command::new("dnsmasq");
        command.args(["--no-daemon", "--conf-file=/dev/null", "--port=0", "--no-ping", "--user=root"]);
        command.arg(format!("--interface={}", host.inside()));
        command.arg(format!("--dhcp-range={},{},255.255.255.0,10m", v4(100), v4(110)));
        command.arg(format!("--dhcp-option=3,{}", v4(2)));
        command.arg(format!("--dhcp-leasefile={}", folder.file("leases").display()));
        command.arg(format!("--pid-file={}", folder.file("pid").display()));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(host.netns.put(&mut command).unwrap().spawn().unwrap(), folder)
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn of_two_leases_that_of_the_interface_with_the_least_metric_leads() {
    const TEST: &str = "autoconf::of_two_leases_that_of_the_interface_with_the_least_metric_leads";
    if !need::program("dnsmasq") {
        return;
    }
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Tap), Link::new(Attach::Tap)]) else { return };
    let _servers: Vec<Dnsmasq> = lab.hosts.iter().map(Dnsmasq::start).collect();
    let section = |(host, metric): (&Host, u32)| {
        let (name, port) = (host.ifname(), host.outside());
        format!(
            "[[interface]]\nname = \"{name}\"\ndevice = \"tap:{port}\"\nrings = 1\nmtu = 1500\nmetric = {metric}\naddress = \"dhcp\"\n"
        )
    };
    let sections: String = lab.hosts.iter().zip([20, 10]).map(section).collect();
    lab.pantala().rewrite_config(&format!("forwarding = true\n{sections}"));
    lab.pantala().shows("reload");
    let leads = |wanted: &Host| {
        until("the default route leads there", || {
            let routes = lab.pantala().json("netstat -rn");
            let default = routes.as_array()?.iter().find(|route| route["to"] == "0.0.0.0/0")?;
            let hop = &default["next_hops"][0];
            let gateway = wanted.addr(Family::V4).to_string();
            (hop["interface"] == wanted.ifname() && hop["gateway"] == gateway).then_some(())
        });
    };
    let (first, second) = lab.pair();
    until("both have a lease", || {
        let has = |host: &Host| {
            lab.pantala().interface(&host.ifname()).addresses.iter().any(|own| own.address.is_ipv4())
        };
        lab.hosts.iter().all(has).then_some(())
    });
    leads(second);
    lab.pantala().shows(&format!("ifconfig {} metric 30", second.ifname()));
    leads(first);
    lab.pantala().shows(&format!("ifconfig {} metric 5", second.ifname()));
    leads(second);
}

fn an_advertisement_of_the_prefix_of_another_interface_is_refused_and_what_is_shown_is_used() {
    const TEST: &str =
        "autoconf::an_advertisement_of_the_prefix_of_another_interface_is_refused_and_what_is_shown_is_used";
    if !need::program("radvd") {
        return;
    }
    let links = [Link::new(Attach::Tap).rings(2), Link::new(Attach::Tap).rings(2)];
    let Some(lab) = Lab::start_with(TEST, &links, "autoconf = true\n") else { return };
    let (lan, wan) = lab.pair();
    let victim = lan.addr(Family::V6);
    let (all, half) =
        (format!("{}/64", lan.neighbour(Family::V6, 0)), format!("{}/65", lan.neighbour(Family::V6, 0)));
    let _radvd = Radvd::start(wan, &[all.clone(), half.clone()]);
    let shown = until("pantala has heard the router", || {
        Some(lab.pantala().shows("ndp -p")).filter(|shown| shown.contains("fd99:1::/64"))
    });
    for stolen in [&all, &half] {
        let line =
            shown.lines().find(|line| line.starts_with(stolen.as_str())).unwrap_or_else(|| panic!("{shown}"));
        assert!(line.contains(&format!("if={}", wan.ifname())) && line.ends_with("refused"), "{shown}");
    }
    let routes = lab.pantala().json("netstat -rn");
    let of = |to: &str| {
        let of = routes.as_array().unwrap().iter().filter(|route| route["to"] == to);
        of.map(|route| (route["origin"].clone(), route["next_hops"][0]["interface"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&all), [("connected".into(), lan.ifname().into())], "{routes:#}");
    assert_eq!(of(&half), [], "{routes:#}");
    assert_eq!(of("fd99:1::/64"), [("advertised".into(), wan.ifname().into())], "{routes:#}");
    assert_eq!(of("::/0"), [("advertised".into(), wan.ifname().into())], "{routes:#}");
    let out = lab.pantala().shows(&format!("ping -c 3 -i 0.1 {victim}"));
    assert!(out.contains("3 packets received"), "from here: {out}");
    assert_eq!(ping(&wan.netns, victim, 3), 3, "what is forwarded");
    let own = lab.pantala().json(&format!("ifconfig {}", wan.ifname()));
    let own = own["addresses"].as_array().unwrap().iter().filter(|own| own["autoconf"] == true);
    let own: Vec<_> = own.map(|own| own["address"].as_str().unwrap().to_owned()).collect();
    assert!(own.len() == 1 && own[0].starts_with("fd99:1:"), "{own:?}");
    assert!(lab.pantala().counter("nd_prefixes_refused") >= 2);
}

harness::tests![
    an_address_that_autoconfiguration_has_made_is_removed_by_the_command,
    of_two_leases_that_of_the_interface_with_the_least_metric_leads,
    a_linux_router_gives_pantala_an_address_and_a_way_to_what_is_behind_it,
    an_advertisement_of_the_prefix_of_another_interface_is_refused_and_what_is_shown_is_used,
];
