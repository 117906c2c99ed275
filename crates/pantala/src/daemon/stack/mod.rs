//! The admin API's requests, answered by the running stack.

mod addresses;
pub(super) mod changes;
pub(super) mod capture;
pub(super) mod ping;
mod interfaces;
mod links;
#[cfg(feature = "cli")]
mod monitor;
#[cfg(not(feature = "cli"))]
#[path = "no_monitor.rs"]
mod monitor;
mod neighbours;
mod offloaded;
pub(crate) mod listing;
mod ready;
mod rings;
mod routes;
mod sockets;
mod spanning;
mod stations;
mod stats;
mod sysctl;
mod trace;
mod why;

use core::net::IpAddr;

use net::ip6::autoconf::Forget;
use tokio::sync::mpsc;

use super::control::Control;
use crate::Mac;
use crate::api::stack::{Echo, EchoAnswer, Snapshot, Stack, Web};
use crate::api::{
    CaptureBatch, CaptureRequest, ConfigEdits, Counters, Dhcp, Error, Family, HttpListener, Interface,
    InterfaceChange, IpfixStatus, Latencies, Learned, LearnedLink, Monitored, Neighbour, NeighbourRequest,
    Netisr, OffloadedFlow, Pool, ReloadRequest, Reloaded, Ring, RingChange, Route, RouteAnswer, RouteEdit,
    RoutePage, RouteSource, RunningConfiguration, SflowStatus, StackChange, Sysctl, SysctlChange,
    SysctlChanged, TraceBatch, TraceRequest, WhyAnswer, WhyRequest,
};

impl Stack for Control {
    fn retire_offloaded(&mut self) {
        self.cpus.retire_offloaded();
    }

    fn webs(&mut self) -> Vec<Web<'_>> {
        self.list_webs()
    }

    fn http(&mut self) -> Option<HttpListener> {
        self.http.status()
    }

    fn ipfix(&mut self) -> Option<IpfixStatus> {
        self.ipfix_status()
    }

    fn sflow(&mut self) -> Option<SflowStatus> {
        self.sflow_status()
    }

    fn interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        self.list_interfaces()
    }

    fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let reports = self.cpus.last_reports();
        Ok(Snapshot {
            interfaces: self.interfaces_by(&reports),
            netisrs: self.list_netisrs(&reports),
            counters: self.list_counters(),
            pools: self.list_pools(&reports),
            firewall: self.firewall_by(&reports),
        })
    }

    fn change_interface(&mut self, name: &str, change: &InterfaceChange) -> Result<(), Error> {
        self.change(name, change)
    }

    fn rings(&mut self) -> Result<Vec<Ring>, Error> {
        self.list_rings()
    }

    fn move_ring(&mut self, interface: &str, ring: u32, change: RingChange) -> Result<(), Error> {
        self.seat_ring(interface, ring, change.cpu)
    }

    fn latencies(&mut self) -> Result<Vec<Latencies>, Error> {
        Self::latencies(self)
    }

    fn monitored(&mut self, name: &str) -> Result<Monitored, Error> {
        self.what_was_monitored(name)
    }

    fn routes(&mut self, page: &RoutePage) -> Result<Vec<Route>, Error> {
        self.list_routes(page)
    }

    fn route_to(&mut self, fib: u8, to: IpAddr) -> Result<RouteAnswer, Error> {
        self.way_to(fib, to)
    }

    fn edit_routes(&mut self, edits: &[RouteEdit]) -> Result<Vec<Result<(), Error>>, Error> {
        self.change_routes(edits)
    }

    fn flush_routes(&mut self, fib: u8, family: Option<Family>) -> Result<u64, Error> {
        self.remove_all_routes(fib, family)
    }

    fn neighbours(&mut self) -> Result<Vec<Neighbour>, Error> {
        self.list_neighbours()
    }

    fn set_neighbour(&mut self, address: IpAddr, request: &NeighbourRequest) -> Result<(), Error> {
        self.insert_neighbour(address, request)
    }

    fn delete_neighbour(&mut self, address: IpAddr) -> Result<(), Error> {
        self.remove_neighbour(address)
    }

    fn flush_neighbours(&mut self, family: Family) -> Result<u64, Error> {
        self.forget_neighbours(family)
    }

    fn forget_stations(&mut self, interface: &str, mac: Option<Mac>) -> Result<u64, Error> {
        self.forget_learnt(interface, mac)
    }

    fn forget_learned(&mut self, what: Learned) -> Result<u64, Error> {
        let what = match what {
            Learned::Routers => Forget::Routers,
            Learned::Prefixes => Forget::Prefixes,
        };
        self.forget_of(None, what)
    }

    fn links(&mut self) -> Result<Vec<LearnedLink>, Error> {
        self.list_links()
    }

    fn offloaded(&mut self, limit: usize) -> Result<Vec<OffloadedFlow>, Error> {
        self.list_offloaded(limit)
    }

    fn dhcp(&mut self) -> Result<Dhcp, Error> {
        Ok(Dhcp {
            servers: self.list_dhcp(),
            clients: self.list_dhcp_clients(),
            relays: self.list_dhcp_relays(),
            relays6: self.list_dhcp6_relays(),
            servers6: self.list_dhcp6_servers(),
            clients6: self.list_dhcp6_clients(),
        })
    }

    fn route_sources(&mut self) -> Result<Vec<RouteSource>, Error> {
        Ok(self.list_route_sources())
    }

    fn netisrs(&mut self) -> Result<Vec<Netisr>, Error> {
        Ok(self.list_netisrs(&self.cpus.reports()?))
    }

    fn pools(&mut self) -> Result<Vec<Pool>, Error> {
        Ok(self.list_pools(&self.cpus.reports()?))
    }

    fn counters(&mut self) -> Result<Counters, Error> {
        Ok(self.list_counters())
    }

    fn sysctls(&mut self) -> Result<Vec<Sysctl>, Error> {
        Ok(self.list_sysctls())
    }

    fn change_sysctl(&mut self, name: &str, change: &SysctlChange) -> Result<SysctlChanged, Error> {
        self.turn_sysctl(name, change)
    }

    fn echo(&mut self, echo: &Echo, answers: mpsc::Sender<EchoAnswer>) -> Result<(), Error> {
        self.send_echo(echo, answers)
    }

    fn begin_capture(&mut self, request: &CaptureRequest) -> Result<u32, Error> {
        self.attach_capture(request)
    }

    fn read_capture(&mut self, capture: u32) -> Result<CaptureBatch, Error> {
        self.take_captured(capture)
    }

    fn end_capture(&mut self, capture: u32) {
        self.detach_capture(capture);
    }

    fn why(&mut self, request: &WhyRequest) -> Result<WhyAnswer, Error> {
        self.follow(request)
    }

    fn begin_trace(&mut self, request: &TraceRequest) -> Result<(), Error> {
        self.attach_tracer(request)
    }

    fn read_trace(&mut self) -> Result<TraceBatch, Error> {
        self.take_traced()
    }

    fn end_trace(&mut self) {
        self.detach_tracer();
    }

    fn begin_changes(&mut self) -> Result<u32, Error> {
        self.add_reader()
    }

    fn read_changes(&mut self, reader: u32) -> Result<Vec<StackChange>, Error> {
        self.take_changes(reader)
    }

    fn end_changes(&mut self, reader: u32) {
        self.remove_reader(reader);
    }

    fn configuration(&mut self) -> Result<RunningConfiguration, Error> {
        self.running_configuration()
    }

    fn edit_configuration(&mut self, edits: &ConfigEdits) -> Result<Reloaded, Error> {
        self.edit_interfaces(edits)
    }

    fn configuration_saved(&mut self) -> Result<(), Error> {
        self.was_saved()
    }

    fn undo_configuration(&mut self, count: u32) -> Result<Reloaded, Error> {
        self.undo(count)
    }

    fn reload_with(&mut self, request: &ReloadRequest) -> Result<Reloaded, Error> {
        self.reload_or_confirm(request)
    }

    fn reload(&mut self) -> Result<Reloaded, Error> {
        self.reload_file()
    }
}
