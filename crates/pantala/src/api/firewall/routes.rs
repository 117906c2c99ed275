//! Requests that concern the firewall.

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;

use crate::api::server::SharedStack;
use crate::api::server::requests::{PAGE, Parameter, Requests, about, may, must};
use crate::api::server::routes::{Answer, json, parse, read};
use crate::api::types::{
    Error, ErrorKind, FirewallBindings, FirewallCommands, FirewallDone, FirewallFlows, FirewallLog,
    FirewallNat, FirewallNat64, FirewallPrefixes, FirewallRule, FirewallShapes, FirewallStates,
    FirewallStatus, FirewallTable, FirewallTableEntry, FirewallTablePage, FirewallTracks,
};

/// Commands may bring a table.
pub(in crate::api) const COMMANDS: &str = "/v1/firewall/commands";
/// A million entries of it.
pub(in crate::api) const COMMANDS_BYTES_MAX: usize = 64 << 20;
/// Default page length of states, groups, translated flows, flows in pipes.
pub(in crate::api) const ROWS: usize = 1000;
/// Largest page length: while it is looked up, no other request is served.
pub(in crate::api) const ROWS_MAX: usize = 10_000;
/// Entries of a table that are shown at once, at the most.
const ENTRIES_MAX: usize = 100_000;

const STATES: &[Parameter] = &[
    may("after", "string", "`next` of the page before"),
    may("limit", "integer", "rows, 10,000 at most"),
    may("expired", "boolean", "whether states whose lives are over are shown"),
];
const KEY: &[Parameter] = &[must("key", "string", "a key of the table's type")];
const LOG: &[Parameter] = &[may("after", "string", "`next` of an earlier answer")];

pub(in crate::api) fn requests() -> Requests {
    Requests::default()
        .get("/v1/firewall", status, about("Switches and settings").answers::<FirewallStatus>())
        .post(
            COMMANDS,
            commands,
            about("Runs commands, all or none").takes::<FirewallCommands>().answers::<Vec<FirewallDone>>(),
        )
        .get("/v1/firewall/rules", rules, about("Rules with their counters").answers::<Vec<FirewallRule>>())
        .get(
            "/v1/firewall/states",
            states,
            about("A page of states").query(STATES).answers::<FirewallStates>(),
        )
        .get(
            "/v1/firewall/tracks",
            tracks,
            about("A page of groups that a limit counts").query(PAGE).answers::<FirewallTracks>(),
        )
        .get("/v1/firewall/nat", nat, about("Instances of NAT").answers::<Vec<FirewallNat>>())
        .get(
            "/v1/firewall/nat/{number}",
            bindings,
            about("A page of the flows of one").query(PAGE).answers::<FirewallBindings>(),
        )
        .get("/v1/firewall/nat64", nat64, about("Instances of NAT64").answers::<Vec<FirewallNat64>>())
        .get(
            "/v1/firewall/nat64/{name}",
            crossings,
            about("A page of the flows of one").query(PAGE).answers::<FirewallBindings>(),
        )
        .get(
            "/v1/firewall/nptv6",
            prefixes,
            about("IPv6 prefix translations").answers::<Vec<FirewallPrefixes>>(),
        )
        .get("/v1/firewall/pipes", shapes, about("Pipes and queues").answers::<FirewallShapes>())
        .get(
            "/v1/firewall/pipes/flows",
            flows,
            about("A page of their flows").query(PAGE).answers::<FirewallFlows>(),
        )
        .get("/v1/firewall/tables", tables, about("Lookup tables").answers::<Vec<FirewallTable>>())
        .get(
            "/v1/firewall/tables/{name}",
            entries,
            about("A page of entries").query(PAGE).answers::<FirewallTablePage>(),
        )
        .get(
            "/v1/firewall/tables/{name}/lookup",
            lookup,
            about("The entry that a key finds").query(KEY).answers::<FirewallTableEntry>(),
        )
        .get("/v1/firewall/log", log, about("Records of rules with log").query(LOG).answers::<FirewallLog>())
}

async fn status(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().firewall_status()?))
}

async fn commands(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let commands: FirewallCommands = read(&body)?;
    Ok(json(&stack.stack().run_commands(&commands)?))
}

async fn rules(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().firewall_rules()?))
}

async fn states(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().firewall_states(after, limit, values.expired.unwrap_or(false))?))
}

async fn tracks(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().firewall_tracks(after, limit)?))
}

async fn nat(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().firewall_nat()?))
}

async fn bindings(State(stack): State<SharedStack>, Path(number): Path<String>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    let number = parse(&number, "the number of an instance")?;
    Ok(json(&stack.stack().firewall_bindings(number, after, limit)?))
}

async fn nat64(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().firewall_nat64()?))
}

async fn crossings(State(stack): State<SharedStack>, Path(name): Path<String>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().firewall_crossings(&name, after, limit)?))
}

async fn prefixes(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().firewall_prefixes()?))
}

async fn shapes(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().firewall_shapes()?))
}

async fn flows(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().firewall_flows(after, limit)?))
}

async fn tables(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().firewall_tables()?))
}

async fn entries(State(stack): State<SharedStack>, Path(name): Path<String>, params: Params) -> Answer {
    let Values { after, limit, .. } = values(params)?;
    let after = after.map_or(Ok(0), |after| parse(&after, "a number of entries"))?;
    let limit = limit.unwrap_or(ENTRIES_MAX).clamp(1, ENTRIES_MAX);
    Ok(json(&stack.stack().firewall_entries(&name, after, limit)?))
}

async fn lookup(State(stack): State<SharedStack>, Path(name): Path<String>, params: Params) -> Answer {
    let key = values(params)?.key.unwrap_or_default();
    Ok(json(&stack.stack().firewall_lookup(&name, &key)?))
}

async fn log(State(stack): State<SharedStack>, params: Params) -> Answer {
    let Values { after, .. } = values(params)?;
    Ok(json(&stack.stack().firewall_log(after.as_deref())?))
}

/// Query parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    after: Option<String>,
    key: Option<String>,
    limit: Option<usize>,
    expired: Option<bool>,
}

impl Values {
    /// Where a page begins, and how much is on it.
    fn page(&self) -> (Option<&str>, usize) {
        (self.after.as_deref(), self.limit.unwrap_or(ROWS).clamp(1, ROWS_MAX))
    }
}

type Params = Result<Query<Values>, QueryRejection>;

fn values(params: Params) -> Result<Values, Error> {
    let Query(values) = params.map_err(|why| Error::new(ErrorKind::Invalid, why.body_text()))?;
    Ok(values)
}
