//! Requests that concern connections and sockets.

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::SharedStack;
use super::requests::{PAGE, Parameter, Requests, about, may};
use super::routes::{Answer, done, json, read};
use crate::api::firewall::routes::{ROWS, ROWS_MAX};
use crate::api::types::{
    Error, ErrorKind, Group, PacketSocket, ProgramSockets, Programs, RawSockets, TcpConnections, TcpEnds,
    TcpListeners, UdpSockets,
};

const CONNECTIONS: &[Parameter] = &[
    may("after", "string", "`next` of the page before"),
    may("limit", "integer", "rows, 10,000 at most"),
    may("info", "boolean", "whether rows have TCP_INFO"),
];

pub(super) fn requests() -> Requests {
    Requests::default()
        .get(
            "/v1/tcp/connections",
            connections,
            about("A page of connections").query(CONNECTIONS).answers::<TcpConnections>(),
        )
        .get(
            "/v1/tcp/listeners",
            listeners,
            about("A page of listeners").query(PAGE).answers::<TcpListeners>(),
        )
        .post("/v1/tcp/drop", drop_connection, about("Ends a connection").takes::<TcpEnds>())
        .get("/v1/udp/sockets", sockets, about("A page of UDP sockets").query(PAGE).answers::<UdpSockets>())
        .get(
            "/v1/raw/sockets",
            raw_sockets,
            about("A page of raw sockets").query(PAGE).answers::<RawSockets>(),
        )
        .get("/v1/packet/sockets", packet_sockets, about("Packet sockets").answers::<Vec<PacketSocket>>())
        .get("/v1/programs", programs, about("Unmodified programs").answers::<Option<Programs>>())
        .get(
            "/v1/programs/sockets",
            program_sockets,
            about("A page of the sockets of unmodified programs").query(PAGE).answers::<ProgramSockets>(),
        )
        .get("/v1/groups", groups, about("Joined multicast groups").answers::<Vec<Group>>())
}

async fn connections(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().tcp_connections(after, limit, values.info.unwrap_or(false))?))
}

async fn listeners(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().tcp_listeners(after, limit)?))
}

async fn sockets(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().udp_sockets(after, limit)?))
}

async fn raw_sockets(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().raw_sockets(after, limit)?))
}

async fn packet_sockets(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().packet_sockets()?))
}

async fn groups(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().groups()?))
}

async fn programs(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().programs()?))
}

async fn program_sockets(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let (after, limit) = values.page();
    Ok(json(&stack.stack().program_sockets(after, limit)?))
}

async fn drop_connection(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let ends: TcpEnds = read(&body)?;
    stack.stack().drop_connection(&ends)?;
    Ok(done())
}

/// Query parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    after: Option<String>,
    limit: Option<usize>,
    info: Option<bool>,
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
