//! Requests that concern connections and sockets.

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::{get, post};
use serde::Deserialize;

use super::SharedStack;
use super::routes::{Answer, done, json, read};
use crate::api::firewall::routes::{ROWS, ROWS_MAX};
use crate::api::types::{Error, ErrorKind, TcpEnds};

pub(super) fn router() -> Router<SharedStack> {
    Router::new()
        .route("/v1/tcp/connections", get(connections))
        .route("/v1/tcp/listeners", get(listeners))
        .route("/v1/tcp/drop", post(drop_connection))
        .route("/v1/udp/sockets", get(sockets))
        .route("/v1/raw/sockets", get(raw_sockets))
        .route("/v1/groups", get(groups))
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

async fn groups(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().groups()?))
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
