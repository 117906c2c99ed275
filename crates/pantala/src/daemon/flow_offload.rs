//! Flows that drivers forward: the table that the programs of all AF_XDP devices with `offload = "auto"` share.

use std::sync::{Arc, OnceLock};

use dev::bpf::offload::{Offload, Writer, grace};
use dev::netlink::xdp_features;
use net::flow::offloader::AFTER_DEFAULT;
use net::netisr::Netisr;
use net::tables::{IfIndex, Tables};

use super::tables::Attached;
use super::{entropy, log};
use crate::config::Interface;

/// Flows of each family that there is room for.
const FLOWS: u32 = 1 << 17;

/// The table, from the first interface on that wants it; `None` if the kernel refused it.
#[derive(Clone, Default)]
pub(crate) struct FlowOffload(Arc<OnceLock<Option<Arc<Offload>>>>);

impl FlowOffload {
    /// Returns the table for an interface that is about to be opened, if that wants it and it is to be had.
    pub(super) fn table_for(&self, interface: &Interface) -> Option<Arc<Offload>> {
        if !interface.offload {
            return None;
        }
        let table = self.0.get_or_init(|| {
            let table = make().inspect_err(|why| log::warning(&format!("flows are not offloaded: {why}")));
            table.ok().map(Arc::new)
        });
        table.clone()
    }

    fn table(&self) -> Option<&Arc<Offload>> {
        self.0.get()?.as_ref()
    }

    /// Lets a CPU offload flows, if there is a table.
    pub(super) fn begin_on(&self, netisr: &mut Netisr) {
        if let Some(table) = self.table() {
            netisr.set_offload(Some(Box::new(Writer(Arc::clone(table)))), AFTER_DEFAULT);
        }
    }

    /// Lets an interface take part whose device runs the program.
    pub(super) fn add(&self, interface: &Attached) {
        let (Some(table), Some((host, ifindex))) = (self.table(), &interface.facts.host) else { return };
        let Some(port) = interface.hold.port().and_then(|port| port.offload()) else { return };
        let name = &interface.config.name;
        let sends = sends_redirected(*ifindex);
        port.set_sends(sends);
        if !sends {
            warn_of_silence(name, host);
        }
        match table.add_device(interface.index, *ifindex, true, sends) {
            Ok(()) => port.set(interface.index, interface.facts.mac.octets()),
            Err(why) => log::warning(&format!("interface {name}: flows are not offloaded: {why}")),
        }
    }

    /// Asks again whether an interface sends redirected frames. The kernel does not tell when that changes, and drops them
    /// silently.
    pub(super) fn look_again(&self, interface: &Attached) {
        let (Some(table), Some((host, ifindex))) = (self.table(), &interface.facts.host) else { return };
        let Some(port) = interface.hold.port().and_then(|port| port.offload()) else { return };
        let sends = sends_redirected(*ifindex);
        if sends == port.sends() || table.add_device(interface.index, *ifindex, true, sends).is_err() {
            return;
        }
        port.set_sends(sends);
        if !sends {
            self.retire();
            warn_of_silence(&interface.config.name, host);
        }
    }

    /// Ends an interface's part; returns when nothing is sent there any more.
    pub(super) fn remove(&self, index: IfIndex) {
        if let Some(table) = self.table()
            && table.remove_device(index)
        {
            self.retire();
        }
    }

    /// Names the addresses of this host, before CPUs have them: what comes from one is left to the stack.
    pub(super) fn name_own(&self, tables: &Tables) {
        if let Some(table) = self.table() {
            table.set_own(tables.own.all());
        }
    }

    /// Invalidates all records, and returns when no program forwards by one any more.
    pub(super) fn retire(&self) {
        if let Some(table) = self.table()
            && let Err(why) = table.retire()
        {
            log::warning(&format!("cannot wait for programs that forward flows: {why}"));
        }
    }
}

fn sends_redirected(ifindex: u32) -> bool {
    xdp_features(ifindex).ok().flatten().is_some_and(|features| features.sends_redirected())
}

fn warn_of_silence(name: &str, host: &str) {
    log::warning(&format!(
        "interface {name}: flows that leave by {host} are not offloaded: its driver does not send redirected frames \
         (for a veth, `ethtool -K PEER gro on` at its other end)"
    ));
}

fn make() -> Result<Offload, Box<dyn core::error::Error>> {
    grace::is_available()?;
    let mut secret = [0; 4];
    for pair in secret.chunks_exact_mut(2) {
        let [a, b, c, d, e, f, g, h, rest @ ..] = entropy::key()?.to_ne_bytes();
        pair[0] = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        pair[1] = u64::from_ne_bytes(rest);
    }
    Ok(Offload::new(FLOWS, secret)?)
}
