//! A reading of the admin API.

use std::time::Instant;

use serde::de::DeserializeOwned;

use super::view::Pane;
use crate::api::client::{Client, ClientError};
use crate::api::rates::Sample;
use crate::api::{FirewallStates, TcpConnections};

/// Rows that are read of tables that may have millions.
pub(super) const ROWS_MAX: usize = 1000;

/// Reads what `panes` show; tables that none of them shows are not asked for.
pub(super) fn take(client: &Client, panes: &[Pane]) -> Result<Sample, ClientError> {
    let shows = |pane| panes.contains(&pane);
    let rules = shows(Pane::Rules).then(|| client.get("/v1/firewall/rules")).transpose()?;
    let states: Option<FirewallStates> = page(client, "/v1/firewall/states?", shows(Pane::Flows))?;
    let connections: Option<TcpConnections> =
        page(client, "/v1/tcp/connections?info=true&", shows(Pane::Connections))?;
    let cut = states.as_ref().is_some_and(|page| page.next.is_some())
        || connections.as_ref().is_some_and(|page| page.next.is_some());
    Ok(Sample {
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

fn page<T: DeserializeOwned>(client: &Client, path: &str, wanted: bool) -> Result<Option<T>, ClientError> {
    wanted.then(|| client.get(&format!("{path}limit={ROWS_MAX}"))).transpose()
}
