//! Differences between the stack as it runs and a configuration.

use core::hash::Hash;
use std::collections::HashSet;

use net::sysctl::{VARIABLES, Variable};

use crate::config::{Config, Device, Interface, Route};

/// The differences between two configurations, and the order of changes.
#[derive(Default)]
pub(super) struct Plan {
    /// Names of interfaces whose devices are used again in another way.
    pub(super) close_first: Vec<String>,
    /// Interfaces whose devices are to be opened.
    pub(super) open: Vec<Interface>,
    /// Names of other interfaces that are gone.
    pub(super) close_last: Vec<String>,
    pub(super) routes_gone: Vec<Route>,
    pub(super) routes_new: Vec<Route>,
    /// Variables that get other values.
    pub(super) sysctls: Vec<(&'static Variable, i64)>,
    /// New size of the flow cache, if it changes.
    pub(super) flows: Option<u32>,
    /// A sentence for each change.
    pub(super) sentences: Vec<String>,
}

impl Plan {
    /// From the stack as it runs, as a configuration would say it, to another configuration.
    pub(super) fn between(old: &Config, new: &Config) -> Self {
        let mut plan = Self::default();
        plan.interfaces(old, new);
        plan.routes_gone = without(&old.routes, &new.routes);
        plan.routes_new = without(&new.routes, &old.routes);
        plan.sentences.extend(plan.routes_gone.iter().map(|route| format!("route to {} removed", route.to)));
        plan.sentences.extend(plan.routes_new.iter().map(|route| format!("route to {} added", route.to)));
        plan.settings(old, new);
        plan
    }

    /// Rules differ: as the configurations say, or because the rules were changed by hand.
    pub(super) fn rules(&mut self, old: &Config, new: &Config) {
        let sentence = match (&old.firewall, &new.firewall) {
            (before, now) if before == now => "the firewall's rules and settings are put back",
            (None, _) => "the firewall is configured",
            (_, None) => "the firewall has no rules any more",
            (Some(_), Some(_)) => "the firewall's rules or settings differ",
        };
        self.sentences.push(sentence.to_owned());
    }

    fn interfaces(&mut self, old: &Config, new: &Config) {
        for interface in &new.interfaces {
            match named(old, &interface.name) {
                None => self.opens(interface, format!("added: {}", interface.device)),
                Some(before) if needs_opening(before, interface) => {
                    self.close_first.push(before.name.clone());
                    self.opens(interface, "opened anew".to_owned());
                }
                Some(before) => self.sentences.extend(changes(before, interface)),
            }
        }
        for gone in old.interfaces.iter().filter(|interface| named(new, &interface.name).is_none()) {
            self.sentences.push(format!("interface {} removed", gone.name));
            if self.open.iter().any(|new| use_the_same(&gone.device, &new.device)) {
                self.close_first.push(gone.name.clone());
            } else {
                self.close_last.push(gone.name.clone());
            }
        }
    }

    fn opens(&mut self, interface: &Interface, what: String) {
        self.sentences.push(format!("interface {} {what}", interface.name));
        self.open.push(interface.clone());
    }

    fn settings(&mut self, old: &Config, new: &Config) {
        if old.forwarding != new.forwarding {
            self.sentences.push(format!("forwarding is {}", if new.forwarding { "on" } else { "off" }));
        }
        self.flows = (old.flow_cache != new.flow_cache).then_some(new.flow_cache);
        match (old.flow_cache, new.flow_cache) {
            (before, now) if before == now => {}
            (_, 0) => self.sentences.push("flow cache: off".to_owned()),
            (_, now) => self.sentences.push(format!("flow cache: {now} flows")),
        }
        for variable in VARIABLES {
            let (before, now) = (old.sysctl.get(variable.name), new.sysctl.get(variable.name));
            if before != now {
                let value = now.copied().unwrap_or_else(|| variable.default());
                self.sysctls.push((variable, value));
                self.sentences.push(format!("{} is {}", variable.name, variable.text(value)));
            }
        }
        for (serves, what) in [
            (without(&old.serves, &new.serves), "no longer served"),
            (without(&new.serves, &old.serves), "served"),
        ] {
            let sentences =
                serves.iter().map(|serve| format!("{} is {what} at {}", serve.folder.display(), serve.addr));
            self.sentences.extend(sentences);
        }
        for (services, what) in
            [(without(&old.services, &new.services), "no"), (without(&new.services, &old.services), "a")]
        {
            let sentences =
                services.iter().map(|service| format!("{what} {} at {}", service.kind, service.addr));
            self.sentences.extend(sentences);
        }
        for (what, differs) in [
            ("fpm", old.route_sources.fpm != new.route_sources.fpm),
            ("kernel", old.route_sources.kernel != new.route_sources.kernel),
            ("distance", old.route_sources.distances != new.route_sources.distances),
        ] {
            if differs {
                self.sentences.push(format!("[routes.{what}] differs"));
            }
        }
        for (what, differs) in [
            ("cpus", (&old.cpus, old.pinned) != (&new.cpus, new.pinned)),
            ("buffers", old.buffers != new.buffers),
            ("fibs", old.fibs != new.fibs),
            ("add_addr_all_fibs", old.add_addr_all_fibs != new.add_addr_all_fibs),
            ("polling", old.polling != new.polling),
            ("socket", old.socket != new.socket),
            ("admin", old.admin != new.admin),
        ] {
            if differs {
                self.sentences.push(format!("`{what}` differs, which takes effect at the next start"));
            }
        }
    }
}

fn named<'c>(config: &'c Config, name: &str) -> Option<&'c Interface> {
    config.interfaces.iter().find(|interface| interface.name == name)
}

/// Whether only one of two devices can be open at a time.
fn use_the_same(old: &Device, new: &Device) -> bool {
    old == new || old.host().is_some_and(|host| new.host() == Some(host))
}

/// Whether the change cannot be made while the device is open. The MTU of a TAP is also the kernel's.
fn needs_opening(old: &Interface, new: &Interface) -> bool {
    let parts = |i: &Interface| {
        (i.device.clone(), i.mac, i.rings, i.rxcsum, i.offload, i.xdp.clone(), i.is_port, i.twin_of.clone())
    };
    let kernel_mtu = new.device.is_made_here() || new.mtu.is_none() || new.mtu > old.mtu;
    parts(old) != parts(new) || (old.mtu != new.mtu && kernel_mtu)
}

fn changes(old: &Interface, new: &Interface) -> Vec<String> {
    let name = &new.name;
    let gone = without(&old.addresses, &new.addresses).into_iter();
    let added = without(&new.addresses, &old.addresses).into_iter();
    let mtu = (old.mtu != new.mtu).then(|| format!("interface {name}: mtu {}", new.mtu.unwrap_or_default()));
    let monitor = (old.monitor != new.monitor).then(|| {
        format!("interface {name}: {}", if new.monitor { "monitor mode on" } else { "monitor mode off" })
    });
    let queue = (old.queue != new.queue)
        .then(|| format!("interface {name}: packets queue in {}", new.queue.discipline.name()));
    let autoconf = (old.autoconf != new.autoconf).then(|| {
        let how = if new.autoconf.is_some() { "configures itself" } else { "does not configure itself" };
        format!("interface {name}: {how}")
    });
    let vlanpcp = (old.vlanpcp != new.vlanpcp).then(|| format!("interface {name}: vlanpcp {}", new.vlanpcp));
    let metric = (old.metric != new.metric).then(|| format!("interface {name}: metric {}", new.metric));
    let fib = (old.fib != new.fib).then(|| format!("interface {name}: routing table {}", new.fib));
    let fdb = ((&old.fdb, &old.bridge) != (&new.fdb, &new.bridge)).then(|| {
        let (timeout, most, statics) = (new.fdb.timeout_s, new.fdb.addresses_max, new.fdb.statics.len());
        let tree = match &new.bridge.stp {
            Some(stp) if stp.settings.is_stp => ", spanning tree (stp)",
            Some(_) => ", spanning tree (rstp)",
            None => "",
        };
        format!("interface {name}: timeout {timeout}, maxaddr {most}, {statics} static addresses{tree}")
    });
    let description = (old.description != new.description)
        .then(|| format!("interface {name}: {}", new.description.as_deref().unwrap_or("no description")));
    let ra = (old.ra != new.ra).then(|| {
        let how =
            if new.ra.is_some() { "advertises itself as configured" } else { "does not advertise itself" };
        format!("interface {name}: {how}")
    });
    let kernel_ports = (old.kernel_ports != new.kernel_ports)
        .then(|| format!("interface {name}: the kernel has other ports"));
    let punt = (old.punt != new.punt).then(|| match &new.punt {
        Some(twin) => format!("interface {name}: its twin in the kernel is {twin}"),
        None => format!("interface {name}: no twin in the kernel"),
    });
    let publish = (old.publish != new.publish).then(|| {
        let (count, proxy) = (new.publish.addresses.len(), if new.publish.proxy_arp { "on" } else { "off" });
        format!("interface {name}: {count} published addresses, proxy ARP {proxy}")
    });
    gone.map(|net| format!("interface {name}: {net} removed"))
        .chain(added.map(|net| format!("interface {name}: {net} added")))
        .chain(mtu)
        .chain(monitor)
        .chain(queue)
        .chain(autoconf)
        .chain(vlanpcp)
        .chain(metric)
        .chain(fib)
        .chain(fdb)
        .chain(ra)
        .chain(kernel_ports)
        .chain(punt)
        .chain(description)
        .chain(publish)
        .chain(dhcp_changes(old, new))
        .collect()
}

/// The differences in what DHCP, of both versions, does on an interface, and in what it has got by it.
fn dhcp_changes(old: &Interface, new: &Interface) -> Vec<String> {
    let name = &new.name;
    let kinds = [
        ("DHCP server", old.dhcp_server != new.dhcp_server, new.dhcp_server.is_some()),
        ("DHCP client", old.dhcp != new.dhcp, new.dhcp.is_some()),
        ("DHCP relay", old.dhcp_relay != new.dhcp_relay, new.dhcp_relay.is_some()),
        ("DHCPv6 relay", old.dhcp6_relay != new.dhcp6_relay, !new.dhcp6_relay.is_empty()),
        ("DHCPv6 server", old.dhcp6_server != new.dhcp6_server, new.dhcp6_server.is_some()),
        ("DHCPv6 client", old.dhcp6 != new.dhcp6, new.dhcp6.is_some()),
    ];
    let kinds =
        kinds.into_iter().filter(|(_, differs, _)| *differs).map(|(kind, _, is_there)| match is_there {
            true => format!("interface {name}: a {kind} as configured"),
            false => format!("interface {name}: no {kind}"),
        });
    let prefix_from = (old.prefix_from != new.prefix_from).then(|| match &new.prefix_from {
        Some(from) => format!("interface {name}: subnet {} of the prefix of {}", from.subnet, from.interface),
        None => format!("interface {name}: no delegated prefix"),
    });
    let leased = (old.leased != new.leased).then(|| {
        let nets: Vec<String> = new.leased.iter().map(|leased| leased.net.to_string()).collect();
        match nets.is_empty() {
            false => format!("interface {name}: {} leased", nets.join(", ")),
            true => format!("interface {name}: no address is leased"),
        }
    });
    let resolver =
        (old.resolver != new.resolver).then(|| format!("interface {name}: name servers of the provider"));
    let ppp = (old.ppp != new.ppp).then(|| format!("interface {name}: PPP as configured"));
    let session = (old.session != new.session).then(|| match &new.session {
        Some(session) => format!("interface {name}: PPPoE session {}", session.id),
        None => format!("interface {name}: no PPPoE session"),
    });
    kinds.chain(prefix_from).chain(leased).chain(resolver).chain(ppp).chain(session).collect()
}

/// Returns the elements of `a` that are not in `b`.
pub(super) fn without<T: Eq + Hash + Clone>(a: &[T], b: &[T]) -> Vec<T> {
    let b: HashSet<&T> = b.iter().collect();
    a.iter().filter(|item| !b.contains(item)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Machine;

    const OLD: &str = r#"
        forwarding = true
        [[interface]]
        name = "a"
        device = "tap:pt-a"
        address = ["192.0.2.1/24"]
        [[interface]]
        name = "b"
        device = "tap:pt-b"
        address = ["198.51.100.1/24"]
        [[route]]
        to = "203.0.113.0/24"
        via = ["192.0.2.2"]
    "#;

    fn plan(change: impl Fn(String) -> String) -> Vec<String> {
        let parse = |text: &str| Config::parse("t", text, &Machine { cpus: vec![0] }).unwrap();
        Plan::between(&parse(OLD), &parse(&change(OLD.to_owned()))).sentences
    }

    #[test]
    fn the_same_configuration_changes_nothing() {
        assert_eq!(plan(|same| same), Vec::<String>::new());
        assert_eq!(plan(|text| text + "# a comment\n"), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_one_sentence() {
        for (from, to, says) in [
            (
                "198.51.100.1/24",
                "198.51.100.7/24",
                &["b: 198.51.100.1/24 removed", "b: 198.51.100.7/24 added"][..],
            ),
            ("forwarding = true", "", &["forwarding is off"]),
            ("203.0.113.0/24", "203.0.113.0/25", &["203.0.113.0/24 removed", "203.0.113.0/25 added"]),
            ("via = [\"192.0.2.2\"]", "reject = true", &["203.0.113.0/24 removed", "203.0.113.0/24 added"]),
            ("198.51.100.1/24\"]", "198.51.100.1/24\"]\nmonitor = true", &["interface b: monitor mode on"]),
            (
                "198.51.100.1/24\"]",
                "198.51.100.1/24\"]\nautoconf = true",
                &["interface b: configures itself"],
            ),
            ("tap:pt-b", "tap:pt-c", &["interface b opened anew"]),
            ("name = \"b\"", "name = \"c\"", &["interface c added: tap:pt-b", "interface b removed"]),
            ("forwarding = true", "forwarding = true\npolling = \"never\"", &["at the next start"]),
            (
                "[[route]]",
                "[sysctl]\nnet.inet.tcp.delacktime = 20\n[[route]]",
                &["net.inet.tcp.delacktime is 20"],
            ),
            ("forwarding = true", "forwarding = true\nflow_cache = 64", &["flow cache: 64 flows"]),
        ] {
            let sentences = plan(|text| text.replace(from, to));
            assert_eq!(sentences.len(), says.len(), "{sentences:?}");
            for (sentence, says) in sentences.iter().zip(says) {
                assert!(sentence.contains(says), "{sentence}");
            }
        }
    }
}
