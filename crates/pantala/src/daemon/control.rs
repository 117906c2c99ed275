//! What the control thread knows of the running stack, and how it changes it.

use std::path::PathBuf;
use std::sync::Arc;

use net::count::INTERFACES_MAX;
use net::tables::{IfIndex, Tables};
use tokio::sync::Notify;

use super::cpus::Cpus;
use super::device::{self, Workshop};
use super::stack::echo::Running;
use super::tables::{self, Attached};
use super::{UpError, log};
use crate::api::{CopyMode, DeviceMode, Error, ErrorKind};
use crate::config::{Config, Interface, Route, RouteTarget};

/// The running stack.
pub(crate) struct Control {
    /// Where the configuration is read again.
    pub(super) file: PathBuf,
    /// The configuration as it was read last; what was changed by hand since then is not in it.
    pub(super) config: Config,
    pub(super) cpus: Cpus,
    pub(super) workshop: Workshop,
    /// In the order of their index.
    pub(super) attached: Vec<Attached>,
    /// Static routes: configured, or added by hand.
    pub(super) routes: Vec<Route>,
    /// Pings that run, and some that have ended.
    pub(super) pings: Vec<Running>,
    /// What the netisrs were given last.
    pub(super) tables: Arc<Tables>,
}

impl Control {
    /// Told when a netisr panics.
    pub(super) fn crashed(&self) -> Arc<Notify> {
        Arc::clone(&self.cpus.crashed)
    }

    /// Opens the device of an interface and gives its rings to the netisrs. Packets flow once the tables have it.
    pub(super) fn attach(&mut self, interface: &Interface) -> Result<(), UpError> {
        let index = self.free_index().ok_or_else(|| {
            UpError::Misfit(format!(
                "interface {}: no more than {} interfaces",
                interface.name,
                INTERFACES_MAX - 1
            ))
        })?;
        let opened = device::open(interface, &mut self.workshop)?;
        let baseline = self.counted(index);
        self.cpus.attach(index, opened.rings).map_err(|why| UpError::Netisr(why.error))?;
        let attached = Attached {
            index,
            config: interface.clone(),
            facts: opened.facts,
            up: true,
            baseline,
            hold: opened.hold,
        };
        log::info(&greeting(&attached));
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

    /// Works the tables out anew and gives them to all netisrs.
    pub(super) fn publish(&mut self) -> Result<(), Error> {
        let generation = self.tables.generation + 1;
        let (attached, routes) = (&self.attached, &self.routes);
        let tables = tables::tables(attached, routes, self.config.forwarding, self.cpus.len(), generation);
        self.tables = Arc::new(tables);
        self.cpus.set_tables(&self.tables)
    }

    /// Ends everything in good order. Nothing can be asked of it afterwards.
    pub(super) fn shut_down(&mut self) {
        self.cpus.shut_down();
        // Programs are detached and interfaces are put back.
        self.attached.clear();
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

/// Several gateways are kept and shown, but the table holds one.
pub(super) fn warn_of_gateways(routes: &[Route]) {
    for route in routes {
        if let RouteTarget::Via(hops) = &route.target
            && hops.len() > 1
        {
            log::warning(&format!(
                "route to {}: packets are not yet spread over {} gateways; the first that is up is used",
                route.to,
                hops.len()
            ));
        }
    }
}

fn greeting(interface: &Attached) -> String {
    let facts = &interface.facts;
    let mode = match (facts.mode, facts.copy) {
        (DeviceMode::Native, Some(CopyMode::ZeroCopy)) => ", zero-copy",
        (DeviceMode::Native, _) => ", native",
        (DeviceMode::Generic, _) => ", generic",
        (DeviceMode::Tap | DeviceMode::Pcap | DeviceMode::Mem, _) => "",
    };
    let plural = if facts.rings == 1 { "" } else { "s" };
    let (name, device, mtu) = (&interface.config.name, &interface.config.device, interface.mtu());
    format!("interface {name}: {device}{mode}, {} ring{plural}, {}, mtu {mtu}", facts.rings, facts.mac)
}
