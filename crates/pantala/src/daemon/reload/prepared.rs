//! A configuration worked out: what the netisrs are given, and what the control thread keeps.

use std::sync::Arc;

use net::fib::Refused;
use net::firewall::Shared;
use net::tables::{IfIndex, Tables};

use super::super::control::{Control, tables_of};
use super::super::routing::Routing;
use super::super::tables::{self, Attached};
use super::plan::Plan;
use crate::StackError;
use crate::config::Config;
use crate::firewall::FirewallConfig;

/// All that takes the place of what is in force. Nothing of it has been read by a packet.
pub(super) struct Next {
    pub(super) config: Config,
    pub(super) attached: Vec<Attached>,
    /// Routes in a table of their own, if any differs.
    pub(super) routing: Option<Routing>,
    /// Routes that the table refused.
    pub(super) refused: Vec<Refused>,
    /// The firewall, if there is one.
    pub(super) firewall_config: Option<FirewallConfig>,
    pub(super) rules: Option<Shared>,
    pub(super) tables: Arc<Tables>,
}

impl Control {
    /// Works a configuration out. `closed` are interfaces whose devices are closed, `opened` those that take their place.
    pub(super) fn next(
        &self,
        plan: &Plan,
        config: Config,
        mut firewall_config: Option<FirewallConfig>,
        closed: &[IfIndex],
        opened: &[Attached],
    ) -> Result<Next, StackError> {
        let stay = self.attached.iter().filter(|interface| !closed.contains(&interface.index));
        let stay = stay.filter_map(|interface| interface.configured(&config));
        let mut attached: Vec<Attached> = stay.chain(opened.iter().cloned()).collect();
        attached.sort_by_key(|interface| interface.index);
        tables::inherit(&mut attached);
        let statics = self.routing.statics_of((&plan.routes_gone, &plan.routes_new));
        let ifs = tables::ifnets(&attached, &statics);
        let routing = self.routing.next(&attached, &ifs, statics);
        let routing =
            routing.map_err(|why| StackError::System { doing: "reserve memory for routes", why })?;
        let (mut routing, refused) = routing.unzip();
        if let Some(routing) = &mut routing {
            self.route_sources.load(routing, &attached, &self.config.route_sources);
        }
        let rib = &routing.as_ref().unwrap_or(&self.routing).rib;
        let tables = Arc::new(tables_of(self.tables.generation + 1, ifs, config.forwarding, rib));
        let rules =
            firewall_config.as_mut().map(|firewall_config| self.compile_firewall(firewall_config, &tables));
        let refused = refused.unwrap_or_default();
        Ok(Next { config, attached, routing, refused, firewall_config, rules, tables })
    }
}

impl Attached {
    /// As a configuration has it; `None` if that has it no more. Whether it is up is said by hand alone.
    fn configured(&self, config: &Config) -> Option<Self> {
        let new = config.interfaces.iter().find(|new| new.name == self.config.name)?;
        Some(Self { config: new.clone(), monitor: new.monitor, ..self.clone() })
    }
}
