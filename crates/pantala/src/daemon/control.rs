//! What the control thread knows of the running stack, and how it changes it.

use std::path::PathBuf;
use std::sync::Arc;

use dev::netlink::LinkMonitor;
use net::count::INTERFACES_MAX;
use net::fib::Refused;
use net::msg::Remote;
use net::netisr::Netisr;
use net::sysctl::Sysctls;
use net::tables::{IfIndex, Ifnet, Learned, Tables};
use tokio::sync::Notify;

use super::cpus::Cpus;
use super::device::{self, Workshop};
use super::firewall::Wall;
use super::log;
use super::routing::{Edits, Routing};
use super::seats::Seats;
use super::services::Started;
use super::sites::Site;
use super::stack::echo::Running;
use super::tables::{self, Attached};
use crate::StackError;
use crate::api::{Error, ErrorKind};
use crate::config::{Config, Interface};

/// The running stack.
pub(crate) struct Control {
    /// Where the configuration is read again, if it was read from a file.
    pub(super) file: Option<PathBuf>,
    /// The configuration as it was read last; what was changed by hand since then is not in it.
    pub(super) config: Config,
    pub(super) cpus: Cpus,
    pub(super) workshop: Workshop,
    /// Hears of interfaces of the kernel that come and go, until [`super::hotplug`] takes it.
    pub(super) monitor: Option<LinkMonitor>,
    /// In the order of their index.
    pub(super) attached: Vec<Attached>,
    pub(super) routing: Routing,
    pub(super) wall: Wall,
    /// Pings that run, and some that have ended.
    pub(super) pings: Vec<Running>,
    /// Web servers.
    pub(super) sites: Vec<Site>,
    /// Small services.
    pub(super) services: Vec<Started>,
    /// What variables of the stack say.
    pub(super) sysctls: Sysctls,
    /// What stable identifiers of interfaces are made of.
    pub(super) secret: u128,
    /// What the netisrs were given last.
    pub(super) tables: Arc<Tables>,
}

impl Control {
    /// Told when a netisr panics.
    pub(super) fn crashed(&self) -> Arc<Notify> {
        Arc::clone(&self.cpus.crashed)
    }

    /// Opens the device of an interface and gives its rings to the netisrs. Packets flow once the tables have it.
    pub(super) fn attach(&mut self, interface: &Interface) -> Result<(), StackError> {
        let index = self.free_index().ok_or_else(|| {
            StackError::Misfit(format!(
                "interface {}: no more than {} interfaces",
                interface.name,
                INTERFACES_MAX - 1
            ))
        })?;
        let unit = unit(index);
        let opened = device::open(interface, unit, &mut self.workshop)?;
        let baseline = self.counted(index);
        let seats = Seats::of(&self.workshop.map(unit, opened.rings.len()), opened.rings.len());
        let waiters = opened.rings.iter().map(|ring| ring.waiter.clone()).collect();
        self.cpus.attach(index, opened.rings, &seats).map_err(|why| StackError::Netisr(why.error))?;
        if interface.monitor {
            self.watch(index, true).map_err(|why| StackError::Netisr(why.error))?;
        }
        let attached = Attached {
            index,
            config: interface.clone(),
            facts: opened.facts,
            seats,
            up: true,
            monitor: interface.monitor,
            learned: Arc::default(),
            secret: self.secret,
            baseline,
            waiters,
            away: None,
            hold: opened.hold,
        };
        log::info(&format!("interface {}: {}", interface.name, attached.description()));
        let at = self.attached.partition_point(|other| other.index < index);
        self.attached.insert(at, attached);
        Ok(())
    }

    /// Takes the rings of an interface from the netisrs and closes its device. The tables should not have it any more.
    pub(super) fn detach(&mut self, name: &str) -> Result<(), Error> {
        let Some(at) = self.attached.iter().position(|interface| interface.config.name == name) else {
            return Ok(());
        };
        let gone = self.attached.remove(at);
        let closed = self.cpus.detach(gone.index);
        drop(gone);
        closed
    }

    /// Works the tables out anew, of interfaces that came, went or changed, and gives them to all netisrs.
    pub(super) fn publish(&mut self) -> Result<(), Error> {
        let ifs = tables::ifnets(&self.attached, &self.routing);
        let mut edits = Edits::default();
        self.routing.interfaces_changed(&self.attached, &ifs, &mut edits);
        let (_, refused) = self.routing.prepare(&edits);
        let generation = self.tables.generation + 1;
        let forwarding = self.config.forwarding;
        let config = net::tables::Config { generation, ifs, forwarding, ..net::tables::Config::default() };
        let (fib, hops) = (self.routing.rib.fib(), self.routing.rib.hops());
        self.tables = Arc::new(Tables::with(config, fib, hops));
        self.cpus.set_tables(&self.tables)?;
        self.commit(refused).map(|refused| refused.iter().for_each(warn_of_refused))?;
        // Rules name interfaces, and their addresses.
        self.publish_firewall()
    }

    /// Changes routes, without a pause for those who look up; answers those that the table refused.
    pub(super) fn publish_routes(&mut self, edits: &Edits) -> Result<Vec<Refused>, Error> {
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
            let ifs = tables::ifnets(&self.attached, &self.routing);
            let is_same =
                |new: &Ifnet| self.tables.ifnet(new.index).is_none_or(|old| old.learned == new.learned);
            !ifs.iter().all(is_same)
        }
    }

    fn publish_edits(&mut self, edits: &Edits) -> Result<Vec<Refused>, Error> {
        let (are_hops_new, refused) = self.routing.prepare(edits);
        if are_hops_new {
            let mut tables = (*self.tables).clone();
            tables.generation += 1;
            tables.hops = self.routing.rib.hops();
            self.tables = Arc::new(tables);
            self.cpus.set_tables(&self.tables)?;
        }
        self.commit(refused)
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

    /// Switches fast forwarding on or off, as the configuration says.
    pub(super) fn remember_flows(&self) -> Result<(), Error> {
        let flows = Some(self.config.flow_cache as usize).filter(|flows| *flows > 0);
        self.cpus.call_all(move |netisr| netisr.set_flows(flows)).map(drop)
    }

    /// Ends everything in good order. Nothing can be asked of it afterwards.
    ///
    /// # Errors
    /// Not all was in order; it has ended all the same.
    pub(crate) fn shut_down(&mut self) -> Result<(), Error> {
        let readers = self.end_sites(&[]);
        self.end_services(&[]);
        let closed = self.cpus.shut_down();
        // Programs are detached and interfaces are put back.
        self.attached.clear();
        // Nobody asks them any more. One that has panicked has said so.
        readers.into_iter().for_each(|reader| drop(reader.join()));
        closed
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

    pub(super) fn interface(&self, name: &str) -> Option<&Attached> {
        self.attached.iter().find(|interface| interface.config.name == name)
    }

    pub(super) fn interface_by_index(&self, index: IfIndex) -> Option<&Attached> {
        self.attached.iter().find(|interface| interface.index == index)
    }

    /// The error for a name that no interface has.
    pub(super) fn no_interface(&self, name: &str) -> Error {
        let names: Vec<&str> = self.attached.iter().map(|interface| interface.config.name.as_str()).collect();
        Error::new(ErrorKind::NotFound, format!("there is no interface `{name}`"))
            .hint(crate::suggest::did_you_mean(name, &names))
    }

    fn free_index(&self) -> Option<IfIndex> {
        let most = IfIndex::try_from(INTERFACES_MAX).unwrap_or(IfIndex::MAX);
        (1..most).find(|index| self.interface_by_index(*index).is_none())
    }
}

/// The number by which the rings of an interface are dealt to CPUs.
pub(super) const fn unit(index: IfIndex) -> u16 {
    index.saturating_sub(1)
}

fn warn_of_refused(refused: &Refused) {
    log::warning(&format!("route to {} is not in force: {}", refused.to, refused.error));
}
