//! Back to the configuration before, after a step has failed.

use std::sync::Arc;

use net::sysctl::Variable;
use net::tables::IfIndex;

use super::super::control::Control;
use super::super::log;
use super::super::switch::Switch;
use super::super::tables::Attached;
use super::prepared::Next;
use super::{Done, flows};
use crate::api::Error;
use crate::config::{Interface, Serve, Service};

impl Control {
    /// Undoes what was done, last things first; answers the interfaces that are lost.
    pub(super) fn roll_back(&mut self, done: Done) -> Vec<String> {
        let Done { closed, opened, watched, ended_sites, ended_services, .. } = done;
        self.end_begun(&done.begun_sites, &done.begun_services);
        if let Some(next) = done.next {
            self.put_back(&next, done.sysctls, done.has_other_flows);
        }
        for (index, on) in watched {
            complain(self.watch(index, !on));
        }
        opened.iter().for_each(|interface| self.close(interface.index));
        drop(opened);
        let lost = closed.into_iter().filter_map(|index| self.reopen(index)).collect();
        self.begin_ended(&ended_sites, &ended_services);
        lost
    }

    fn end_begun(&mut self, sites: &[Serve], services: &[Service]) {
        let kept: Vec<Serve> = self.serves().into_iter().filter(|serve| !sites.contains(serve)).collect();
        drop(self.end_sites(&kept));
        let mut kept = self.running_services();
        kept.retain(|service| !services.contains(service));
        self.end_services(&kept);
    }

    /// Gives the netisrs what they had. The tables are of a new generation, so that they differ from those between.
    fn put_back(&mut self, next: &Next, sysctls: Vec<(&'static Variable, i64)>, changed_flows: bool) {
        let mut tables = (*self.tables).clone();
        tables.generation = next.tables.generation + 1;
        self.tables = Arc::new(tables);
        if let Some(firewall_config) = &next.firewall_config {
            self.firewall.config.rules.resume_after(&firewall_config.rules);
        }
        let rules = next.rules.as_ref().map(|_| self.compile_firewall_in_force());
        let flows = changed_flows.then(|| flows(self.config.flow_cache));
        let offload = self.workshop.offload.clone();
        let switch = Switch { tables: Arc::clone(&self.tables), rules, sysctls, flows, offload };
        complain(self.cpus.reconfigure(switch));
    }

    /// Opens the device of an interface again that is still in the tables; answers its name if it is lost.
    fn reopen(&mut self, index: IfIndex) -> Option<String> {
        let at = self.attached.iter().position(|interface| interface.index == index)?;
        let before = self.attached[at].clone();
        let interface = Interface { monitor: before.monitor, ..before.config.clone() };
        let lost = match self.open(&interface, index, before.unit) {
            Ok(Attached { facts, placement, hold, .. }) => {
                self.attached[at] = Attached { facts, placement, hold, ..before };
                None
            }
            Err(why) => {
                log::error(&format!("interface {} is lost: {why}", interface.name));
                self.attached.remove(at);
                Some(interface.name)
            }
        };
        complain(self.publish());
        lost
    }

    fn begin_ended(&mut self, sites: &[Serve], services: &[Service]) {
        let sites = sites.iter().map(|serve| self.begin_again(serve)).collect::<Vec<_>>();
        let services = services.iter().map(|service| self.begin_service(*service)).collect::<Vec<_>>();
        for why in sites.into_iter().chain(services).filter_map(Result::err) {
            log::error(&format!("the state before could not be restored: {why}"));
        }
    }
}

/// Reports what could not be undone.
fn complain(outcome: Result<(), Error>) {
    if let Err(why) = outcome {
        log::error(&why.error);
    }
}
