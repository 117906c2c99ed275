//! What the admin API asks, answered by the running stack.

pub(super) mod echo;
mod interfaces;
mod neighbours;
mod routes;
mod stats;

use core::net::IpAddr;

use ipnet::IpNet;
use tokio::sync::mpsc;

use super::control::Control;
use crate::api::stack::{Echo, EchoAnswer, Stack};
use crate::api::{
    Counters, Error, Family, Interface, InterfaceChange, Neighbour, NeighbourRequest, Netisr, Pool, Reloaded,
    Route, RouteAnswer, RouteRequest,
};

impl Stack for Control {
    fn interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        self.list_interfaces()
    }

    fn change_interface(&mut self, name: &str, change: &InterfaceChange) -> Result<(), Error> {
        self.change(name, change)
    }

    fn routes(&mut self) -> Result<Vec<Route>, Error> {
        Ok(self.list_routes())
    }

    fn route_to(&mut self, to: IpAddr) -> Result<RouteAnswer, Error> {
        self.way_to(to)
    }

    fn add_route(&mut self, route: &RouteRequest) -> Result<(), Error> {
        self.insert_route(route)
    }

    fn delete_route(&mut self, to: IpNet, via: Option<IpAddr>) -> Result<(), Error> {
        self.remove_route(to, via)
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

    fn netisrs(&mut self) -> Result<Vec<Netisr>, Error> {
        Ok(self.list_netisrs())
    }

    fn pools(&mut self) -> Result<Vec<Pool>, Error> {
        self.list_pools()
    }

    fn counters(&mut self) -> Result<Counters, Error> {
        Ok(self.list_counters())
    }

    fn echo(&mut self, echo: &Echo, answers: mpsc::Sender<EchoAnswer>) -> Result<(), Error> {
        self.send_echo(echo, answers)
    }

    fn reload(&mut self) -> Result<Reloaded, Error> {
        self.reload_file()
    }
}
