//! Hosts that flood the office's links with DHCP and router advertisements: the others keep what they have.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use serde_json::Value;

use super::hosts::Host;
use super::provider::Access;
use super::{LONG, Site, Watches};
use crate::need;
use crate::pantala::Pantala;
use crate::wait::within;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/office/flood.py");

/// A flood, until it is dropped.
struct Flood(Child);

impl Flood {
    fn begin(netns: &Netns, folder: &std::path::Path, interface: &str, kind: &str) -> Self {
        let mut command = Command::new("python3");
        command.args([SOURCE, interface, kind]).current_dir(folder).stdout(Stdio::piped());
        end_with_parent(&mut command);
        let mut process = netns.put(&mut command).unwrap().spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        Self(process)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An office of which all hosts have their addresses and reach the provider's server.
fn settled() -> Option<(Site, Watches)> {
    if !need::program("python3") {
        return None;
    }
    let mut site = Site::build(Access::Dhcp)?;
    site.provider.serve(0);
    let begun = Instant::now();
    site.pantala = Some(Pantala::start(&site.router, &site.config()));
    site.hosts.iter_mut().for_each(Host::begin);
    let watches = Watches::begin(&site);
    watches.rows(&site, "start", begun, 0);
    Some((site, watches))
}

fn number(shown: &Value, path: &str) -> u64 {
    shown.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {shown}"))
}

/// Waits until something that a flood brings about is so, during which pantala goes on to answer.
fn comes(site: &Site, what: &str, mut is_so: impl FnMut(&Value, &Value) -> bool) {
    let mut seen = (Value::Null, Value::Null);
    let came = within(LONG, || {
        seen = (site.pantala().json("dhcp lan --json"), site.pantala().json("dhcp wan --json"));
        is_so(&seen.0, &seen.1).then_some(())
    });
    assert!(came.is_some(), "{what}: {} {}", seen.0, seen.1);
}

/// All hosts, old addresses in use, are answered by the provider's server from now on.
fn all_reach(watches: &Watches, what: &str) {
    let now = Instant::now();
    let is_again = |watch: &super::watch::Watch| watch.last().is_some_and(|last| last > now);
    let reached = within(LONG, || watches.hosts.iter().flatten().all(is_again).then_some(()));
    assert!(reached.is_some(), "{what}: not all reach the provider's server");
}

fn floods_of_dhcp_clients_and_of_routers_on_the_lan_take_nothing_from_others() {
    let Some((site, watches)) = settled() else { return };
    let before: Vec<_> = site.hosts.iter().map(Host::addresses).collect();
    let leases = number(&site.pantala().json("dhcp wan --json"), "/clients/0/acks");
    let _discovers = Flood::begin(&site.switch, site.folder.path(), "br0", "discover");
    // Nothing of the pool is left, and the client on the WAN renews its lease meanwhile.
    comes(&site, "the pool is exhausted", |lan, wan| {
        assert!(number(lan, "/servers/0/offered") <= 100, "{lan}");
        let counters = &lan["servers"][0]["counters"];
        let refused = number(counters, "/exhausted") + number(counters, "/probes_full");
        refused > 1000 && number(wan, "/clients/0/acks") > leases
    });
    all_reach(&watches, "a flood of clients");
    // Advertisements are none of pantala's business on a link where it is the router. The hosts believe them, and are not asked.
    drop(watches);
    let ignored = site.pantala().counter("nd_router_ignored");
    let adverts = Flood::begin(&site.switch, site.folder.path(), "br0", "advertise");
    let came = within(LONG, || (site.pantala().counter("nd_router_ignored") > ignored + 1000).then_some(()));
    assert!(came.is_some(), "{}", site.pantala().shows("netstat -s"));
    drop(adverts);
    let own: Vec<_> = site.addresses("lan").into_iter().map(|own| own.to_string()).collect();
    assert!(!own.iter().any(|own| own.starts_with("2001:db8:bb")), "{own:?}");
    for (host, before) in site.hosts.iter().zip(before) {
        assert_eq!(host.addresses()[0], before[0], "{:?}", host.client);
    }
}

fn floods_of_dhcp_servers_and_of_routers_on_the_wan_take_neither_lease_nor_way() {
    let Some((site, watches)) = settled() else { return };
    let (isp, folder) = (&site.provider.netns, site.folder.path());
    let mac = site.pantala().interface("wan").mac.unwrap().to_string();
    std::fs::write(folder.join("target"), mac).unwrap();
    let wan = site.pantala().json("dhcp wan --json");
    let (address, acks) = (wan["clients"][0]["address"].clone(), number(&wan, "/clients/0/acks"));
    let delegated = wan["clients6"][0]["leases"].as_array().unwrap().len();
    let _offers = Flood::begin(isp, folder, "wan", "offer");
    // The server is late: its client waits for an answer while others come.
    site.provider.answers(false);
    let mut ignored = None;
    comes(&site, "the client waits for its server in the flood", |_, wan| {
        let own = &wan["clients"][0];
        assert_eq!(own["address"], address, "{wan}");
        let is_waiting = own["state"] == "renewing";
        assert!(is_waiting || ignored.is_none(), "no other answer is taken: {wan}");
        let before = is_waiting.then(|| *ignored.get_or_insert_with(|| number(own, "/ignored")));
        before.is_some_and(|before| number(own, "/ignored") > before + 1000)
    });
    site.provider.answers(true);
    comes(&site, "the lease is renewed in the flood", |_, wan| {
        let own = &wan["clients"][0];
        assert_eq!(own["address"], address, "{wan}");
        number(own, "/acks") > acks
    });
    all_reach(&watches, "a flood of servers");
    let _adverts = Flood::begin(isp, folder, "wan", "advertise");
    let full = || site.pantala().counter("nd_routers_full");
    let came = within(LONG, || (full() > 1000).then_some(()));
    assert!(came.is_some(), "{}", site.pantala().shows("netstat -s"));
    let own = site.addresses("wan");
    assert!(own.len() <= 20, "{own:?}");
    all_reach(&watches, "a flood of routers");
    let wan = site.pantala().json("dhcp wan --json");
    assert_eq!(wan["clients"][0]["address"], address, "{wan}");
    assert_eq!(wan["clients6"][0]["leases"].as_array().unwrap().len(), delegated, "{wan}");
}

harness::tests![
    floods_of_dhcp_clients_and_of_routers_on_the_lan_take_nothing_from_others,
    floods_of_dhcp_servers_and_of_routers_on_the_wan_take_neither_lease_nor_way,
];
