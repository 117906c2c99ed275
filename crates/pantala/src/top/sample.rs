//! A reading of the admin API.

use std::time::Instant;

use serde::de::DeserializeOwned;

use super::view::Pane;
use crate::api::client::{Client, ClientError};
use crate::api::{
    Counters, FirewallRule, FirewallState, FirewallStates, Interface, Netisr, Pool, TcpConnection,
    TcpConnections, Version,
};

/// Rows that are read of tables that may have millions.
pub(super) const ROWS_MAX: usize = 1000;

/// A reading. What no visible pane needs is not asked for, and is `None`.
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) version: Version,
    pub(super) netisrs: Vec<Netisr>,
    pub(super) pools: Vec<Pool>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) counters: Counters,
    pub(super) rules: Option<Vec<FirewallRule>>,
    pub(super) states: Option<Vec<FirewallState>>,
    pub(super) connections: Option<Vec<TcpConnection>>,
    /// A table had more than [`ROWS_MAX`] rows.
    pub(super) cut: bool,
}

impl Sample {
    /// Reads what `panes` show.
    pub(super) fn take(client: &Client, panes: &[Pane]) -> Result<Self, ClientError> {
        let shows = |pane| panes.contains(&pane);
        let rules = shows(Pane::Rules).then(|| client.get("/v1/firewall/rules")).transpose()?;
        let states: Option<FirewallStates> = page(client, "/v1/firewall/states?", shows(Pane::Flows))?;
        let connections: Option<TcpConnections> =
            page(client, "/v1/tcp/connections?info=true&", shows(Pane::Connections))?;
        let cut = states.as_ref().is_some_and(|page| page.next.is_some())
            || connections.as_ref().is_some_and(|page| page.next.is_some());
        Ok(Self {
            version: client.get("/v1/version")?,
            interfaces: client.get("/v1/interfaces")?,
            pools: client.get("/v1/pools")?,
            counters: client.get("/v1/counters")?,
            rules,
            states: states.map(|page| page.states),
            connections: connections.map(|page| page.connections),
            cut,
            netisrs: client.get("/v1/netisr")?,
            at: Instant::now(),
        })
    }
}

fn page<T: DeserializeOwned>(client: &Client, path: &str, wanted: bool) -> Result<Option<T>, ClientError> {
    wanted.then(|| client.get(&format!("{path}limit={ROWS_MAX}"))).transpose()
}
