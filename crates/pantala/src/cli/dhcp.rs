//! `dhcp`: servers and their leases, and clients.

use super::flags::Flags;
use super::{Failure, Session};
use crate::api::Dhcp as Shown;
use crate::show;

pub(crate) const USAGE: &str = "pantala dhcp [IF]";

pub(crate) const HELP: &str = "\
Shows the DHCP servers of interfaces (address pools, counters and leases), and
interfaces that have their address from a DHCP server. A client whose lease has
ended gets the same address again if it is still free. Relays, and clients,
servers and relays of DHCPv6 follow, with delegated prefixes and what is left
of their lifetimes.

Examples:
  pantala dhcp
  pantala dhcp lan --json";

/// The command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dhcp {
    interface: Option<String>,
}

impl Dhcp {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("dhcp", words, "", "")?;
        let interface = match flags.operands.as_slice() {
            [] => None,
            _ => Some(flags.one_operand("dhcp", "the interface")?.to_owned()),
        };
        Ok(Self { interface })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut all: Shown = session.client.get("/v1/dhcp")?;
        if let Some(name) = &self.interface {
            all.servers.retain(|server| server.interface == *name);
            all.clients.retain(|client| client.interface == *name);
            all.relays.retain(|relay| relay.interface == *name);
            all.relays6.retain(|relay| relay.interface == *name);
            all.servers6.retain(|server| server.interface == *name);
            all.clients6.retain(|client| client.interface == *name);
            if all == Shown::default() {
                return Err(Failure::Failed(format!("interface {name} has no DHCP server, relay or client")));
            }
        }
        session.show(&all, show::dhcp)
    }
}
