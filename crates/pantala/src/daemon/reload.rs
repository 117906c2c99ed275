//! Reading the configuration again: only what differs is changed, and nothing at all if the new one is wrong.

use core::hash::Hash;
use std::collections::HashSet;

use net::sysctl::VARIABLES;

use super::control::Control;
use super::log;
use crate::StackError;
use crate::api::{Error, ErrorKind, Reloaded};
use crate::config::{Config, Device, Interface, Machine, Route};

impl Control {
    /// Reads the file again and changes what differs.
    pub(super) fn reload_file(&mut self) -> Result<Reloaded, Error> {
        let Some(file) = &self.file else {
            let error = Error::new(ErrorKind::Unsupported, "this stack was not started from a file");
            return Err(error.hint("the program that embeds it has its configuration"));
        };
        let new = Config::load(file, &Machine::here());
        let new = new.map_err(|why| Error::new(ErrorKind::Invalid, why.to_string().trim_end().to_owned()))?;
        let new = Config { wires: self.config.wires.clone(), ..new };
        let plan = Plan::between(&self.config, &new);
        self.replace_devices(&plan)?;
        self.carry_out(&plan, new)?;
        Ok(Reloaded { changes: plan.sentences })
    }

    /// Opens what is new. That can fail, so it comes first, and what has been done is undone then.
    fn replace_devices(&mut self, plan: &Plan) -> Result<(), Error> {
        for interface in &plan.close_first {
            self.detach_quietly(&interface.name);
        }
        if !plan.close_first.is_empty() {
            self.publish()?;
        }
        for (done, interface) in plan.open.iter().enumerate() {
            if let Err(why) = self.attach(interface) {
                let error = Error::new(kind_of(&why), why.to_string());
                let lost = self.undo(plan.open.iter().take(done), &plan.close_first);
                return Err(error.hint(if lost.is_empty() {
                    "nothing was changed".to_owned()
                } else {
                    format!("and not to be had as it was before: {}", lost.join(", "))
                }));
            }
        }
        Ok(())
    }

    /// Back to the configuration that was in force; answers the interfaces that are lost.
    fn undo<'i>(&mut self, opened: impl Iterator<Item = &'i Interface>, closed: &[Interface]) -> Vec<String> {
        for interface in opened {
            self.detach_quietly(&interface.name);
        }
        let mut lost = Vec::new();
        for interface in closed {
            if let Err(why) = self.attach(interface) {
                log::error(&format!("interface {} is lost: {why}", interface.name));
                lost.push(interface.name.clone());
            }
        }
        if let Err(why) = self.publish() {
            log::error(&why.error);
        }
        lost
    }

    /// What cannot fail any more, unless the netisrs are dead.
    fn carry_out(&mut self, plan: &Plan, new: Config) -> Result<(), Error> {
        let mut watched = Vec::new();
        for interface in &mut self.attached {
            if let Some(config) = new.interfaces.iter().find(|new| new.name == interface.config.name) {
                if interface.config.monitor != config.monitor && interface.monitor != config.monitor {
                    interface.monitor = config.monitor;
                    watched.push((interface.index, config.monitor));
                }
                interface.config = config.clone();
            } else {
                // Nothing is sent to it from now on, so that its rings can be closed in peace.
                interface.up = false;
            }
        }
        for (index, on) in watched {
            self.watch(index, on)?;
        }
        let sysctls = (self.config.sysctl.clone(), new.sysctl.clone());
        let flows_differ = self.config.flow_cache != new.flow_cache;
        let firewall = (self.config.firewall != new.firewall).then(|| new.firewall.clone());
        self.config = new;
        self.configure_sysctls(&sysctls.0, &sysctls.1)?;
        self.publish()?;
        if let Some(firewall) = firewall {
            self.configure_firewall(firewall.as_ref())?;
        }
        self.configure_routes(&plan.routes_gone, &plan.routes_new)?;
        if flows_differ {
            self.remember_flows()?;
        }
        let (serves, services) = (self.config.serves.clone(), self.config.services.clone());
        drop(self.end_sites(&serves));
        self.end_services(&services);
        self.begin_sites(&serves)?;
        self.begin_services(&services)?;
        if plan.close_last.is_empty() {
            return Ok(());
        }
        for name in &plan.close_last {
            self.detach_quietly(name);
        }
        self.publish()
    }

    fn detach_quietly(&mut self, name: &str) {
        if let Err(why) = self.detach(name) {
            log::warning(&format!("interface {name}: {why}"));
        }
    }
}

fn kind_of(why: &StackError) -> ErrorKind {
    if matches!(why, StackError::Misfit(_)) { ErrorKind::Invalid } else { ErrorKind::Failed }
}

/// What differs between two configurations, and what is to be done in which order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Interfaces, as they were, whose devices are used again in another way.
    close_first: Vec<Interface>,
    /// Interfaces whose devices are to be opened.
    open: Vec<Interface>,
    /// Names of other interfaces that are gone.
    close_last: Vec<String>,
    routes_gone: Vec<Route>,
    routes_new: Vec<Route>,
    /// A sentence for each change.
    sentences: Vec<String>,
}

impl Plan {
    fn between(old: &Config, new: &Config) -> Self {
        let mut plan = Self::default();
        plan.interfaces(old, new);
        plan.routes_gone = without(&old.routes, &new.routes);
        plan.routes_new = without(&new.routes, &old.routes);
        plan.sentences.extend(plan.routes_gone.iter().map(|route| format!("route to {} removed", route.to)));
        plan.sentences.extend(plan.routes_new.iter().map(|route| format!("route to {} added", route.to)));
        plan.settings(old, new);
        plan
    }

    fn interfaces(&mut self, old: &Config, new: &Config) {
        for interface in &new.interfaces {
            match named(old, &interface.name) {
                None => self.opens(interface, format!("added: {}", interface.device)),
                Some(before) if needs_opening(before, interface) => {
                    self.close_first.push(before.clone());
                    self.opens(interface, "opened anew".to_owned());
                }
                Some(before) => self.sentences.extend(changes(before, interface)),
            }
        }
        for gone in old.interfaces.iter().filter(|interface| named(new, &interface.name).is_none()) {
            self.sentences.push(format!("interface {} removed", gone.name));
            let is_reused =
                |new: &Interface| gone.device.host().is_some_and(|host| new.device.host() == Some(host));
            if self.open.iter().any(is_reused) {
                self.close_first.push(gone.clone());
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
        match (old.flow_cache, new.flow_cache) {
            (before, now) if before == now => {}
            (_, 0) => self.sentences.push("the flow cache is off".to_owned()),
            (_, now) => self.sentences.push(format!("the flow cache is of {now} flows")),
        }
        for variable in VARIABLES {
            let (before, now) = (old.sysctl.get(variable.name), new.sysctl.get(variable.name));
            if before != now {
                let value = variable.text(now.copied().unwrap_or_else(|| variable.default()));
                self.sentences.push(format!("{} is {value}", variable.name));
            }
        }
        for (serves, what) in [
            (without(&old.serves, &new.serves), "not served any more"),
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
        match (&old.firewall, &new.firewall) {
            (before, now) if before == now => {}
            (None, _) => self.sentences.push("the firewall is configured".to_owned()),
            (_, None) => self.sentences.push("the firewall has no rules any more".to_owned()),
            (Some(_), Some(_)) => self.sentences.push("the firewall's rules or settings differ".to_owned()),
        }
        for (what, differs) in [
            ("cpus", (&old.cpus, old.pinned) != (&new.cpus, new.pinned)),
            ("buffers", old.buffers != new.buffers),
            ("polling", old.polling != new.polling),
            ("socket", old.socket != new.socket),
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

/// Whether the change cannot be made while the device is open. The MTU of a TAP is also the kernel's.
fn needs_opening(old: &Interface, new: &Interface) -> bool {
    let parts = |i: &Interface| (i.device.clone(), i.mac, i.rings, i.rxcsum);
    let kernel_mtu = matches!(new.device, Device::Tap { .. }) || new.mtu.is_none() || new.mtu > old.mtu;
    parts(old) != parts(new) || (old.mtu != new.mtu && kernel_mtu)
}

fn changes(old: &Interface, new: &Interface) -> Vec<String> {
    let name = &new.name;
    let gone = without(&old.addresses, &new.addresses).into_iter();
    let added = without(&new.addresses, &old.addresses).into_iter();
    let mtu = (old.mtu != new.mtu).then(|| format!("interface {name}: mtu {}", new.mtu.unwrap_or_default()));
    let monitor = (old.monitor != new.monitor).then(|| {
        format!("interface {name}: {}", if new.monitor { "only monitors" } else { "does not monitor" })
    });
    let queue = (old.queue != new.queue)
        .then(|| format!("interface {name}: packets queue in {}", new.queue.discipline.name()));
    let autoconf = (old.autoconf != new.autoconf).then(|| {
        let how = if new.autoconf.is_some() { "configures itself" } else { "does not configure itself" };
        format!("interface {name}: {how}")
    });
    gone.map(|net| format!("interface {name}: {net} removed"))
        .chain(added.map(|net| format!("interface {name}: {net} added")))
        .chain(mtu)
        .chain(monitor)
        .chain(queue)
        .chain(autoconf)
        .collect()
}

/// What is in `a` and not in `b`.
fn without<T: Eq + Hash + Clone>(a: &[T], b: &[T]) -> Vec<T> {
    let b: HashSet<&T> = b.iter().collect();
    a.iter().filter(|item| !b.contains(item)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("198.51.100.1/24\"]", "198.51.100.1/24\"]\nmonitor = true", &["interface b: only monitors"]),
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
            ("forwarding = true", "forwarding = true\nflow_cache = 64", &["the flow cache is of 64 flows"]),
        ] {
            let sentences = plan(|text| text.replace(from, to));
            assert_eq!(sentences.len(), says.len(), "{sentences:?}");
            for (sentence, says) in sentences.iter().zip(says) {
                assert!(sentence.contains(says), "{sentence}");
            }
        }
    }
}
