//! The netisrs' part of another configuration, switched in one step each.

use std::sync::Arc;

use net::firewall;
use net::netisr::Netisr;
use net::sysctl::{self, Variable};
use net::tables::Tables;

use super::flow_offload::FlowOffload;

/// All that the netisrs are given of another configuration.
pub(crate) struct Switch {
    pub(crate) tables: Arc<Tables>,
    /// Rules, if there is a firewall.
    pub(crate) rules: Option<firewall::Shared>,
    /// Variables that get other values.
    pub(crate) sysctls: Vec<(&'static Variable, i64)>,
    /// New size of the flow cache, if it changes: `Some(None)` for none.
    pub(crate) flows: Option<Option<usize>>,
    /// Flows that drivers forward, if they may.
    pub(crate) offload: FlowOffload,
}

impl Switch {
    /// On one of them.
    pub(crate) fn put_in_force(&self, netisr: &mut Netisr) {
        for (variable, value) in &self.sysctls {
            sysctl::set(&mut netisr.cpu, variable, *value);
        }
        netisr.reconfigure(Arc::clone(&self.tables), self.rules.as_ref());
        if let Some(flows) = self.flows {
            netisr.set_flows(flows);
        }
        self.offload.begin_on(netisr);
    }
}
