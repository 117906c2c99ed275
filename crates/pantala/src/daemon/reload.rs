//! Another configuration takes the place of the one in force, as a whole or not at all.
//!
//! ```text
//!   what can fail, beside what is in force:  rules  folders  ports  devices  routes  tables
//!                                                                                       │ if any fails,
//!   one message per netisr:                  tables, rules, variables, flow cache ◀─────┤ all is undone
//!   behind it:                               sites and services                         │
//!   what cannot fail:                        devices that are gone are closed ◀─────────┘
//! ```
//!
//! A netisr changes everything that says which packets pass in one step between two packets. Routes and tables of rules are
//! copies that no CPU has read before, so none changes under a packet. Packets handed over meanwhile carry the generation of
//! the tables they have met ([`net::next::Stamp`]). New devices take packets in from the moment they are open, and the netisrs drop
//! them until tables have the interface, which come with its rules. So no packet passes that neither the old nor the new
//! configuration lets pass, also when a step fails; the start of a stack is such a change too, from a configuration with
//! nothing in it.
//!
//! Differences are found by a look at the stack as it runs, not at the file that was read last: what was changed by hand is
//! put back where the file has something to say of it (`docs/design/RELOAD.md`).

mod fault;
mod prepared;
mod plan;
mod undo;
#[cfg(test)]
pub(super) mod tests;

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use net::cpu::CpuId;
use net::sock;
use net::sysctl::Variable;
use net::tables::IfIndex;

use self::fault::{Step, fault};
use self::plan::{Plan, without};
use self::prepared::Next;
use super::admin::NextHttp;
use super::control::{self, Control};
use super::device;
use super::dhcp::OpenLeases;
use super::log;
use super::route_sources::OpenSources;
use super::routing::RouteKey;
use super::running;
use super::switch::Switch;
use super::tables::Attached;
use super::web::OpenSite;
use crate::StackError;
use crate::api::{Error, ErrorKind, Reloaded};
use crate::config::{Config, Interface, Route, Serve, Service, ServiceKind, Sysctls};

/// Why another configuration did not come into force. The one before is in force again.
pub(super) struct Failure {
    pub(super) why: StackError,
    /// Interfaces whose devices were closed and cannot be opened again.
    lost: Vec<String>,
}

impl Failure {
    /// Turns it into an error of the admin API.
    pub(super) fn told(self) -> Error {
        let Self { why, lost } = self;
        let error = Error::new(kind_of(&why), why.to_string());
        error.hint(if lost.is_empty() {
            "nothing was changed".to_owned()
        } else {
            let lost = lost.join(", ");
            format!("and the state before could not be restored: {lost}; the next reload tries again")
        })
    }
}

/// The parts of a configuration that are compared with the stack as it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of it, as a reload does.
    All,
    /// Its interfaces: what was changed by hand elsewhere stays.
    Interfaces,
}

/// Changes for another configuration, to be undone if it does not come into force.
#[derive(Default)]
struct Done {
    /// Interfaces, there still in the tables, whose devices were closed.
    closed: Vec<IfIndex>,
    /// Interfaces, in no tables yet, whose devices were opened.
    opened: Vec<Attached>,
    /// Interfaces that began, or ceased, to monitor.
    watched: Vec<(IfIndex, bool)>,
    ended_sites: Vec<Serve>,
    ended_services: Vec<Service>,
    /// The netisrs' new configuration.
    next: Option<Next>,
    /// Variables that have got other values, and those that they had.
    sysctls: Vec<(&'static Variable, i64)>,
    has_other_flows: bool,
    /// Another HTTP listener, or none, if it changes.
    http: Option<NextHttp>,
    /// Leases of DHCP servers that begin.
    leases: OpenLeases,
    /// Sockets of sources of routes that begin.
    sources: OpenSources,
    begun_sites: Vec<Serve>,
    begun_services: Vec<Service>,
}

impl Control {
    /// Reads the file again and changes what differs, and tells the service manager.
    pub(super) fn reload_file(&mut self) -> Result<Reloaded, Error> {
        self.manager.reloading();
        let reloaded = self.read_again();
        let status = reloaded.as_ref().map_or_else(|why| format!("not reloaded: {why}"), |_| self.summary());
        self.manager.ready(&status);
        reloaded
    }

    fn read_again(&mut self) -> Result<Reloaded, Error> {
        let file = self.file.as_ref().ok_or_else(running::without_file)?;
        let (source, new) = running::read(file).map_err(|why| running::invalid(&why))?;
        let new = Config { wires: self.config.wires.clone(), force: self.config.force, ..new };
        let before = self.snapshot();
        let changes = self.go_over(new, Scope::All).map_err(Failure::told)?;
        self.was_reloaded(source.text, before, !changes.is_empty());
        Ok(Reloaded { changes })
    }

    /// Puts another configuration in force, and answers a sentence for each change; with an error, all is as it was.
    pub(super) fn go_over(&mut self, new: Config, scope: Scope) -> Result<Vec<String>, Failure> {
        let mut done = Done::default();
        self.go_step_by_step(new, scope, &mut done).map_err(|why| Failure { why, lost: self.roll_back(done) })
    }

    fn go_step_by_step(
        &mut self,
        mut new: Config,
        scope: Scope,
        done: &mut Done,
    ) -> Result<Vec<String>, StackError> {
        self.with_leases(&mut new);
        let mut plan = match scope {
            Scope::All => Plan::between(&self.running(&new), &new),
            Scope::Interfaces => self.plan_of_interfaces(&mut new),
        };
        let failed = |why: String| StackError::Misfit(format!("the firewall: {why}"));
        let firewall_config = match scope {
            Scope::All => self.next_firewall(&new),
            Scope::Interfaces => self.same_firewall(),
        };
        let firewall_config = firewall_config.map_err(failed)?;
        if firewall_config
            .as_ref()
            .is_some_and(|firewall_config| !firewall_config.is_as(&self.firewall.config))
        {
            warnings_of(&new).iter().for_each(|warning| log::warning(warning));
            plan.rules(&self.config, &new);
        }
        if scope == Scope::All {
            done.http = self.next_http(&new, &mut plan.sentences)?;
            if self.config.sflow != new.sflow {
                plan.sentences.push(new.sflow.map_or_else(
                    || "no samples exported".to_owned(),
                    |sflow| format!("one of {} frames told to {}", sflow.sampling, sflow.collector),
                ));
            }
            if self.config.ipfix != new.ipfix {
                plan.sentences.push(new.ipfix.map_or_else(
                    || "no flows exported".to_owned(),
                    |ipfix| format!("flows exported to {}", ipfix.collector),
                ));
            }
        }
        fault(Step::Rules)?;
        if plan.sentences.is_empty() {
            self.config = new;
            return Ok(plan.sentences);
        }
        let sites = self.open_sites(&new.serves)?;
        fault(Step::Folders)?;
        self.try_ports(&sites, &new)?;
        done.leases = self.open_leases(&new)?;
        done.sources = self.open_route_sources(&new)?;
        fault(Step::Ports)?;
        self.replace_devices(&plan, new.force, done)?;
        let next = self.next(&plan, new, firewall_config, &done.closed, &done.opened)?;
        fault(Step::Tables)?;
        self.end_programs(&next.config, done);
        fault(Step::Ended)?;
        self.watch_others(&next.attached, done)?;
        fault(Step::Watched)?;
        self.put_in_force(next, &plan, done)?;
        fault(Step::InForce)?;
        self.begin_programs(sites, done)?;
        fault(Step::Begun)?;
        self.settle(&plan, core::mem::take(done));
        Ok(plan.sentences)
    }

    /// The differences of interfaces alone. Whether one monitors stays as it was set by hand, unless that is the difference.
    fn plan_of_interfaces(&self, new: &mut Config) -> Plan {
        for interface in &mut new.interfaces {
            let same =
                |other: &&Interface| other.name == interface.name && other.monitor == interface.monitor;
            if self.config.interfaces.iter().any(|other| same(&other))
                && let Some(own) = self.interface(&interface.name)
            {
                interface.monitor = own.monitor;
            }
        }
        let old = Config { interfaces: self.running(new).interfaces, ..new.clone() };
        Plan::between(&old, new)
    }

    /// The stack as it runs, in the words of a configuration: as the last one has it, but for what was changed by hand and either
    /// configuration has something to say of.
    fn running(&self, new: &Config) -> Config {
        let interfaces = self.attached.iter();
        let interfaces =
            interfaces.map(|own| Interface { monitor: own.monitor, ..own.config.clone() }).collect();
        Config {
            interfaces,
            routes: self.running_routes(new),
            sysctl: self.running_sysctls(new),
            serves: self.serves(),
            services: self.running_services(),
            ..self.config.clone()
        }
    }

    /// Static routes to where either configuration has one. The others were made by hand, and stay.
    fn running_routes(&self, new: &Config) -> Vec<Route> {
        let named: BTreeSet<RouteKey> =
            self.config.routes.iter().chain(&new.routes).map(|route| (route.fib, route.to)).collect();
        named.into_iter().filter_map(|key| Some(self.routing.get(key)?.to(key))).collect()
    }

    /// Values of the variables that either configuration names, but for those that have their usual value and are only in the
    /// last one.
    fn running_sysctls(&self, new: &Config) -> Sysctls {
        let value = |name: &&'static str| {
            let variable = Variable::named(name)?;
            let value = variable.read(&self.sysctls);
            (new.sysctl.contains_key(name) || value != variable.default()).then_some((*name, value))
        };
        self.config.sysctl.keys().chain(new.sysctl.keys()).filter_map(value).collect()
    }

    /// Whether what is to listen can: each service begins on each CPU and ends again before a packet comes. Where something that
    /// is to end listens now, only the moment itself tells.
    fn try_ports(&self, sites: &[OpenSite], new: &Config) -> Result<(), StackError> {
        let (serves, services) = (self.serves(), self.running_services());
        let ending = serves.iter().filter(|serve| !new.serves.contains(serve)).map(|serve| serve.addr);
        let ending = ending.chain(
            services.iter().filter(|service| !new.services.contains(service)).map(|service| service.addr),
        );
        let ending: HashSet<u16> = ending.map(|addr| addr.port()).collect();
        let own: Vec<IpAddr> =
            new.interfaces.iter().flat_map(|interface| &interface.addresses).map(IpNet::addr).collect();
        let sites = sites.iter().map(|site| (listener_at(site.serve().addr), site.to_string()));
        let begins = new.services.iter().filter(|service| !services.contains(service));
        let begins = begins.map(|service| (*service, format!("no {} at {}", service.kind, service.addr)));
        for (service, what) in sites.chain(begins) {
            let ip = service.addr.ip();
            if ip.is_multicast() || ending.contains(&service.addr.port()) {
                continue;
            }
            match self.try_service(service)? {
                Ok(()) => {}
                // It comes with the tables.
                Err(sock::Error::AddrNotAvailable) if own.contains(&ip) => {}
                Err(why) => return Err(StackError::Misfit(format!("{what}: {why}"))),
            }
        }
        Ok(())
    }

    /// Frees devices that are used in another way, and opens those that are new. While a device is closed its interface is in
    /// the tables still: what routes lead there is lost, and does not go elsewhere.
    fn replace_devices(&mut self, plan: &Plan, force: bool, done: &mut Done) -> Result<(), StackError> {
        for interface in &plan.open {
            if !force && !self.has_device_of(interface) {
                device::leaves_the_machine_reachable(interface, &mut self.workshop.netlink)?;
            }
        }
        for at in 0..self.attached.len() {
            if plan.close_first.contains(&self.attached[at].config.name) {
                let index = self.attached[at].index;
                done.closed.push(index);
                self.cpus.detach(index).map_err(netisr)?;
                self.attached[at].hold = Arc::default();
            }
        }
        fault(Step::Closed)?;
        for interface in &plan.open {
            let index = self.free_index(&done.opened, &interface.name)?;
            let unit = self.free_unit(plan, &done.opened);
            let mut opened = self.open(interface, index, unit)?;
            if let Some(before) = self.attached.iter().find(|own| own.config.name == interface.name) {
                opened.by_hand.clone_from(&before.by_hand);
            }
            done.opened.push(opened);
            fault(Step::Opened)?;
        }
        self.have_buffers(plan, &done.opened)
    }

    /// Whether an interface has the kernel's interface already that this one is to have.
    fn has_device_of(&self, new: &Interface) -> bool {
        self.attached
            .iter()
            .any(|own| new.device.host().is_some() && own.config.device.host() == new.device.host())
    }

    /// The first number for dealing rings that no interface will have then.
    fn free_unit(&self, plan: &Plan, opened: &[Attached]) -> u16 {
        let taken: Vec<u16> = self.staying(plan).chain(opened).map(|other| other.unit).collect();
        (0..).find(|unit| !taken.contains(unit)).unwrap_or_default()
    }

    /// Interfaces that keep their devices.
    fn staying<'c>(&'c self, plan: &'c Plan) -> impl Iterator<Item = &'c Attached> {
        let goes = |name| plan.close_first.contains(name) || plan.close_last.contains(name);
        self.attached.iter().filter(move |interface| !goes(&interface.config.name))
    }

    /// Whether something is left for the stack when all rings have their buffers.
    fn have_buffers(&self, plan: &Plan, opened: &[Attached]) -> Result<(), StackError> {
        if opened.is_empty() {
            return Ok(());
        }
        for (cpu, thread) in (0..).map(CpuId).zip(self.cpus.iter()) {
            let placement = self.staying(plan).chain(opened).flat_map(|interface| interface.placement.iter());
            let rings = placement.filter(|owner| *owner == cpu).count();
            if !self.workshop.memory.is_enough_for(rings) {
                let processor = thread.processor;
                return Err(StackError::Misfit(format!(
                    "CPU {processor} has no buffers for {rings} rings; give more with `buffers`, and start again"
                )));
            }
        }
        Ok(())
    }

    /// Ends what another configuration does not have, under the rules under which it ran.
    fn end_programs(&mut self, new: &Config, done: &mut Done) {
        done.ended_sites = without(&self.serves(), &new.serves);
        done.ended_services = without(&self.running_services(), &new.services);
        drop(self.end_sites(&new.serves));
        self.end_services(&new.services);
    }

    /// Lets interfaces monitor that are to, which ends what comes from them, and gives others back their rings, from which
    /// nothing passes before the tables say so.
    fn watch_others(&self, next: &[Attached], done: &mut Done) -> Result<(), StackError> {
        for interface in next {
            let differs = |own: &&Attached| own.index == interface.index && own.monitor != interface.monitor;
            if self.attached.iter().any(|own| differs(&own)) {
                done.watched.push((interface.index, interface.monitor));
                self.watch(interface.index, interface.monitor).map_err(netisr)?;
            }
        }
        Ok(())
    }

    /// Gives the netisrs all of it, each in one step.
    fn put_in_force(&self, next: Next, plan: &Plan, done: &mut Done) -> Result<(), StackError> {
        let switch = Switch {
            tables: Arc::clone(&next.tables),
            rules: next.rules.clone(),
            sysctls: plan.sysctls.clone(),
            flows: plan.flows.map(flows),
            offload: self.workshop.offload.clone(),
        };
        done.next = Some(next);
        let before = plan.sysctls.iter().map(|(variable, _)| (*variable, variable.read(&self.sysctls)));
        (done.sysctls, done.has_other_flows) = (before.collect(), plan.flows.is_some());
        self.cpus.reconfigure(switch).map_err(netisr)
    }

    /// Begins what is new, under the rules that came with it.
    fn begin_programs(&mut self, sites: Vec<OpenSite>, done: &mut Done) -> Result<(), StackError> {
        for site in sites {
            let serve = site.serve().clone();
            self.begin_site(site)?;
            done.begun_sites.push(serve);
        }
        let services = done.next.as_ref().map(|next| next.config.services.clone()).unwrap_or_default();
        for service in without(&services, &self.running_services()) {
            self.begin_service(service)?;
            done.begun_services.push(service);
        }
        Ok(())
    }

    /// Takes over what is in force into the control thread's state; unused devices are closed.
    fn settle(&mut self, plan: &Plan, done: Done) {
        let Some(Next { config, attached, routing, refused, firewall_config, tables, .. }) = done.next else {
            return;
        };
        refused.iter().for_each(control::warn_of_refused);
        let before = core::mem::replace(&mut self.config, config);
        let routes_before = routing.as_ref().and_then(|routing| self.all_routes_before(routing));
        self.tables = tables;
        plan.sysctls.iter().for_each(|(variable, value)| variable.write(&mut self.sysctls, *value));
        let is_loaded = routing.is_some();
        if let Some(routing) = routing {
            self.routing = routing;
        }
        if let Some(firewall_config) = firewall_config {
            self.keep_firewall(firewall_config);
        }
        let closing = core::mem::replace(&mut self.attached, attached);
        for gone in closing {
            let stays = self.interface_by_index(gone.index).is_some();
            if !stays && !done.closed.contains(&gone.index) {
                self.close(gone.index);
            }
        }
        self.note_changes(routes_before);
        self.share_addresses();
        self.mirror_twins();
        if is_loaded {
            self.route_sources.are_loaded(&self.attached);
        }
        self.settle_route_sources(done.sources, &before.route_sources);
        self.settle_pppoe();
        self.settle_dhcp(done.leases);
        self.settle_http(done.http);
        self.ipfix.changed.notify_one();
        self.sflow.changed.notify_one();
    }
}

fn listener_at(addr: SocketAddr) -> Service {
    Service { kind: ServiceKind::Relay(addr), addr }
}

fn warnings_of(config: &Config) -> &[String] {
    config.firewall.as_ref().map_or(&[], |firewall| &firewall.warnings)
}

fn flows(count: u32) -> Option<usize> {
    Some(count as usize).filter(|count| *count > 0)
}

fn netisr(why: Error) -> StackError {
    StackError::Netisr(why.error)
}

fn kind_of(why: &StackError) -> ErrorKind {
    if matches!(why, StackError::Misfit(_)) { ErrorKind::Invalid } else { ErrorKind::Failed }
}
