//! The control thread's view of the running stack, and its changes.

use std::path::PathBuf;
use std::sync::Arc;

use dev::netlink::LinkMonitor;
use net::count::INTERFACES_MAX;
use net::fib::{Refused, Rib};
use net::msg::Remote;
use net::netisr::Netisr;
use net::sysctl::Sysctls;
use net::tables::{IfIndex, Ifnet, Learned, Tables};
use tokio::sync::Notify;

use super::admin::HttpService;
use super::cpus::{Cpus, NewRing};
use super::device::{self, Workshop};
use super::dhcp::Dhcp;
use super::dhcp6_clients::Dhcp6;
use super::ipfix::IpfixService;
use super::log;
use super::pppoe_clients::Pppoe;
use super::ready_waiters::Waiting;
use super::ring_placement::RingPlacement;
use super::route_sources::RouteSources;
use super::routing::{Edits, Routing};
use super::running::RunningConfig;
use super::service_manager::ServiceManager;
use super::services::Started;
use super::sflow::SflowService;
use super::stack::capture::Captures;
use super::stack::changes::Readers;
use super::stack::ping::Running;
use super::tables::{self, Attached};
use super::twins::Twins;
use super::web::WebServer;
use crate::StackError;
use crate::api::{Error, ErrorKind};
use crate::config::{Config, Interface, Publish};
use crate::firewall::publish::FirewallControl;
use crate::plural::counted;
use crate::programs::Asker;

/// The running stack.
pub(crate) struct Control {
    /// Where the configuration is read again, if it was read from a file.
    pub(crate) file: Option<PathBuf>,
    /// The configuration as it was read last; what was changed by hand since then is not in it.
    pub(crate) config: Config,
    /// Its text, as commands have changed it.
    pub(super) running: RunningConfig,
    pub(crate) cpus: Cpus,
    pub(crate) workshop: Workshop,
    /// Hears of interfaces of the kernel that come and go, until [`super::hotplug`] takes it.
    pub(crate) monitor: Option<LinkMonitor>,
    /// In the order of their index.
    pub(crate) attached: Vec<Attached>,
    /// The index that was given last.
    pub(crate) last_index: IfIndex,
    pub(crate) routing: Routing,
    /// Routes of others.
    pub(super) route_sources: RouteSources,
    pub(crate) firewall: FirewallControl,
    /// DHCP servers and clients.
    pub(super) dhcp: Dhcp,
    /// DHCPv6 servers and clients.
    pub(super) dhcp6: Dhcp6,
    /// PPPoE clients.
    pub(super) pppoe: Pppoe,
    /// The kernel's twins of interfaces, as they were set last.
    pub(super) twins: Twins,
    /// Pings that run, and some that have ended.
    pub(super) pings: Vec<Running>,
    /// Captures that run.
    pub(super) captures: Captures,
    /// Readers of changes.
    pub(super) readers: Readers,
    /// Web servers.
    pub(super) sites: Vec<WebServer>,
    /// Small services.
    pub(super) services: Vec<Started>,
    /// Asks the thread that serves unmodified programs, if there is one.
    pub(super) programs: Option<Asker>,
    /// The HTTP listener.
    pub(super) http: Arc<HttpService>,
    /// Export of flows.
    pub(super) ipfix: IpfixService,
    pub(super) sflow: SflowService,
    /// Values of sysctl variables.
    pub(crate) sysctls: Sysctls,
    /// Secret of stable interface identifiers.
    pub(crate) secret: u128,
    /// Callers that wait until the stack's addresses can be used.
    pub(crate) waiting: Arc<Waiting>,
    /// Told of reloads.
    pub(crate) manager: Arc<ServiceManager>,
    /// The tables that the netisrs have now.
    pub(crate) tables: Arc<Tables>,
}

impl Control {
    /// Told when a netisr panics.
    pub(crate) fn crashed(&self) -> Arc<Notify> {
        Arc::clone(&self.cpus.crashed)
    }

    /// Opens the device of an interface, as number `index`, and gives its rings to the netisrs. No packet flows before tables
    /// have it.
    pub(crate) fn open(
        &mut self,
        interface: &Interface,
        index: IfIndex,
        unit: u16,
    ) -> Result<Attached, StackError> {
        let opened = device::open(interface, unit, &mut self.workshop)?;
        let baseline = self.counted(index);
        let placement = RingPlacement::of(&self.workshop.map(unit, opened.rings.len()), opened.rings.len());
        let waiters = opened.rings.iter().map(|ring| ring.waiter.clone()).collect();
        let attached = Attached {
            index,
            unit,
            config: interface.clone(),
            facts: opened.facts,
            placement,
            up: true,
            monitor: interface.monitor,
            by_hand: Publish::default(),
            learned: Arc::default(),
            secret: self.secret,
            baseline,
            waiters,
            has_carrier: true,
            away: None,
            hold: Arc::new(opened.hold),
        };
        self.workshop.offload.add(&attached);
        self.last_index = index;
        if let Err(why) = self.hand_out(&attached, opened.rings) {
            self.close(index);
            return Err(StackError::Netisr(why.error));
        }
        log::info(&format!("interface {}: {}", interface.name, attached.description()));
        Ok(attached)
    }

    fn hand_out(&self, attached: &Attached, rings: Vec<NewRing>) -> Result<(), Error> {
        self.cpus.attach(attached.index, rings, &attached.hold, &attached.placement)?;
        if self.captures.want_drops() {
            attached.hold.hand_up_dropped(true);
        }
        if attached.monitor { self.watch(attached.index, true) } else { Ok(()) }
    }

    /// Takes the rings of an interface from the netisrs, closed. Its device is closed with the last clone of it.
    pub(crate) fn close(&self, index: IfIndex) {
        self.workshop.offload.remove(index);
        if let Err(why) = self.cpus.detach(index) {
            log::warning(&format!("the rings of interface number {index}: {why}"));
        }
    }

    /// Works the tables out anew, of interfaces that changed, and gives them to all netisrs, with the rules that name
    /// interfaces and their addresses.
    pub(crate) fn publish(&mut self) -> Result<(), Error> {
        tables::inherit(&mut self.attached);
        let ifs = tables::ifnets(&self.attached, self.routing.statics());
        let mut edits = Edits::default();
        self.routing.interfaces_changed(&self.attached, &ifs, &mut edits);
        let before = self.routes_before(&edits);
        let (_, refused) = self.routing.prepare(&edits);
        let rib = &self.routing.rib;
        let tables = tables_of(self.tables.generation + 1, ifs, self.config.forwarding, rib);
        self.tables = Arc::new(tables);
        self.share_addresses();
        self.mirror_twins();
        let rules = self.compile_rules();
        let epoch = self.firewall.config.lookups.epoch();
        self.cpus.set_tables_and_rules(&self.tables, rules)?;
        self.firewall.config.lookups.retire(epoch);
        self.route_sources_see_interfaces();
        self.pppoe.changed.notify_one();
        self.commit(refused)?.iter().for_each(warn_of_refused);
        self.note_changes(before);
        Ok(())
    }

    /// Changes routes, without a pause for lookups; returns those that the table refused.
    pub(crate) fn publish_routes(&mut self, edits: &Edits) -> Result<Vec<Refused>, Error> {
        let is_settled_anew = self.is_settled_anew();
        let refused = if edits.is_empty() { Vec::new() } else { self.publish_edits(edits)? };
        if is_settled_anew {
            self.publish()?;
        }
        Ok(refused)
    }

    /// Whether something else of what routers have said is in force, now that static routes have changed.
    fn is_settled_anew(&self) -> bool {
        let has_learned = |interface: &Attached| *interface.learned != Learned::default();
        self.attached.iter().any(has_learned) && {
            let ifs = tables::ifnets(&self.attached, self.routing.statics());
            let is_same =
                |new: &Ifnet| self.tables.ifnet(new.index).is_none_or(|old| old.learned == new.learned);
            !ifs.iter().all(is_same)
        }
    }

    fn publish_edits(&mut self, edits: &Edits) -> Result<Vec<Refused>, Error> {
        let before = self.routes_before(edits);
        let (are_hops_new, refused) = self.routing.prepare(edits);
        if are_hops_new {
            let mut tables = (*self.tables).clone();
            tables.generation += 1;
            tables.hops = self.routing.rib.hops();
            self.tables = Arc::new(tables);
            self.cpus.set_tables(&self.tables)?;
        }
        let refused = self.commit(refused)?;
        self.note_changes(before);
        Ok(refused)
    }

    /// The table changes; what it took out is used again when every CPU has been seen since.
    fn commit(&mut self, mut refused: Vec<Refused>) -> Result<Vec<Refused>, Error> {
        let (epoch, also_refused) = self.routing.commit();
        refused.extend(also_refused);
        refused.iter().for_each(|refused| self.routing.refuse(refused));
        self.cpus.visit_all()?;
        self.routing.rib.retire(epoch);
        Ok(refused)
    }

    /// Ends everything in good order. Nothing can be asked of it afterwards.
    ///
    /// # Errors
    /// Not all was in order; it has ended all the same.
    pub(crate) fn shut_down(&mut self) -> Result<(), Error> {
        let readers = self.end_sites(&[]);
        self.end_services(&[]);
        self.release_dhcp6();
        self.release_pppoe();
        self.say_farewell();
        let closed = self.cpus.shut_down();
        // Programs are detached and interfaces are put back.
        self.attached.clear();
        // They get no more requests. One that has panicked has said so.
        readers.into_iter().for_each(|reader| drop(reader.join()));
        closed
    }

    /// Tells hosts that this is no router any more.
    fn say_farewell(&mut self) {
        let ended = self.attached.iter_mut().filter_map(|interface| interface.config.ra.take()).count();
        if ended > 0
            && let Err(why) = self.publish()
        {
            log::warning(&format!("hosts may use this router until its lifetime ends: {}", why.error));
        }
    }

    /// The ways to all netisrs, in the order of their CPUs.
    pub(crate) fn remotes(&self) -> Vec<Remote> {
        self.cpus.remotes()
    }

    /// Runs `ask` on one CPU and waits for its answer.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        cpu: usize,
        ask: impl FnOnce(&mut Netisr) -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.cpus.call(cpu, ask)
    }

    /// Calls `done` when every CPU has begun another turn, without waiting for it.
    #[cfg(feature = "cli")]
    pub(crate) fn visit_all_then(&self, done: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.cpus.visit_all_then(done)
    }

    /// Summary of what runs.
    pub(crate) fn summary(&self) -> String {
        let cpus = counted(self.cpus.iter().count() as u64, "CPU");
        format!("{cpus}, {}", counted(self.attached.len() as u64, "interface"))
    }

    /// Callers that wait until the stack's addresses can be used.
    pub(crate) fn waiting(&self) -> Arc<Waiting> {
        Arc::clone(&self.waiting)
    }

    pub(crate) fn interface(&self, name: &str) -> Option<&Attached> {
        self.attached.iter().find(|interface| interface.config.name == name)
    }

    pub(crate) fn interface_by_index(&self, index: IfIndex) -> Option<&Attached> {
        self.attached.iter().find(|interface| interface.index == index)
    }

    /// The error for a name that no interface has.
    pub(crate) fn no_interface(&self, name: &str) -> Error {
        let names: Vec<&str> = self.attached.iter().map(|interface| interface.config.name.as_str()).collect();
        Error::new(ErrorKind::NotFound, format!("there is no interface `{name}`"))
            .hint(diagnostic::did_you_mean(name, &names))
    }

    /// An index that no interface has, nor one of `others`. One that was given back is used again as late as can be: packets
    /// that are still on their way may bear it.
    pub(crate) fn free_index(&self, others: &[Attached], name: &str) -> Result<IfIndex, StackError> {
        let end = IfIndex::try_from(INTERFACES_MAX).unwrap_or(IfIndex::MAX);
        let mut behind = (self.last_index.saturating_add(1)..end).chain(1..end);
        let is_free = |index: &IfIndex| {
            let mut there = self.attached.iter().chain(others);
            there.all(|other| other.index != *index)
        };
        behind.find(is_free).ok_or_else(|| {
            let most = INTERFACES_MAX - 1;
            StackError::Misfit(format!("interface {name}: no more than {most} interfaces"))
        })
    }
}

/// The tables for these interfaces, whose routes are in `rib` or will be in a moment.
pub(crate) fn tables_of(generation: u64, ifs: Vec<Ifnet>, forwarding: bool, rib: &Rib) -> Tables {
    let config = net::tables::Config { generation, ifs, forwarding, ..net::tables::Config::default() };
    Tables::with(config, rib.fib(), rib.hops())
}

pub(crate) fn warn_of_refused(refused: &Refused) {
    log::warning(&format!("route to {} is not in force: {}", refused.to, refused.error));
}
