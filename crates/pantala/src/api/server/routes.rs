//! Which request does what.

use core::net::IpAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post, put};
use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::SharedStack;
use crate::api::types::{
    ConfigEdits, Error, ErrorKind, Family, InterfaceChange, NeighbourRequest, PingRequest, RefusedEdit,
    ReloadRequest, RingChange, RouteEdit, RouteEdits, RoutePage, SysctlChange, UndoRequest, Version,
    WhyRequest,
};
use crate::api::{capture, metrics, ping, trace};

/// Returns all routes of the admin API. A request that changes something has its answer when drivers forward nothing any
/// more that was decided before.
pub(super) fn whole_router(stack: SharedStack) -> Router {
    router(stack.clone()).layer(from_fn_with_state(stack, retire_offloaded))
}

async fn retire_offloaded(State(stack): State<SharedStack>, request: Request, next: Next) -> Response {
    let changes = !request.method().is_safe();
    let answer = next.run(request).await;
    if changes {
        stack.stack().retire_offloaded();
    }
    answer
}

fn router(stack: SharedStack) -> Router {
    Router::new()
        .route("/v1/version", get(version))
        .route("/v1/interfaces", get(interfaces))
        .route("/v1/interfaces/{name}", patch(change_interface).get(interface))
        .route("/v1/interfaces/{name}/rings/{ring}", put(move_ring))
        .route("/v1/interfaces/{name}/fdb", delete(flush_stations))
        .route("/v1/interfaces/{name}/fdb/{mac}", delete(forget_station))
        .route("/v1/rings", get(rings))
        .route("/v1/interfaces/{name}/monitor", get(monitored))
        .route("/v1/routes", get(routes).post(add_route).put(change_route).delete(delete_route))
        .route("/v1/routes/batch", post(edit_routes))
        .route("/v1/routes/flush", post(flush_routes))
        .route("/v1/routes/get", get(route_to))
        .route("/v1/routes/sources", get(route_sources))
        .route("/v1/neighbours", get(neighbours).delete(flush_neighbours))
        .route("/v1/neighbours/{address}", put(set_neighbour).delete(delete_neighbour))
        .route("/v1/links", get(links))
        .route("/v1/offload", get(offloaded))
        .route("/v1/dhcp", get(dhcp))
        .route("/v1/netisr", get(netisrs))
        .route("/v1/pools", get(pools))
        .route("/v1/counters", get(counters))
        .route("/v1/sysctl", get(sysctls))
        .route("/v1/sysctl/{name}", put(change_sysctl))
        .route("/v1/ping", post(start_ping))
        .route("/v1/capture", post(start_capture))
        .route("/v1/why", post(why))
        .route("/v1/trace", post(start_trace))
        .route("/v1/reload", post(reload))
        .route("/v1/config", get(configuration))
        .route("/v1/config/edits", post(edit_configuration))
        .route("/v1/config/saved", post(configuration_saved))
        .route("/v1/config/undo", post(undo_configuration))
        .route("/v1/http", get(http_listener))
        .route("/metrics", get(prometheus))
        .merge(crate::api::firewall::routes::router())
        .merge(super::sockets::router())
        .merge(super::live::router())
        .fallback(async || Failure(Error::new(ErrorKind::NotFound, "no such path in the admin API")))
        .method_not_allowed_fallback(async || {
            Failure(Error::new(ErrorKind::Invalid, "method not allowed for this path"))
        })
        // Bodies are bounded before they come here.
        .layer(DefaultBodyLimit::disable())
        .with_state(stack)
}

/// Offloaded flows of each CPU in one answer.
const OFFLOADED: usize = 1000;
const OFFLOADED_MAX: usize = 10_000;

pub(in crate::api) type Answer = Result<Response, Failure>;

async fn version() -> Response {
    json(&Version { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() })
}

async fn interfaces(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().interfaces()?))
}

async fn interface(State(stack): State<SharedStack>, Path(name): Path<String>) -> Answer {
    let all = stack.stack().interfaces()?;
    let found = all.iter().find(|interface| interface.name == name);
    let missing = || {
        let names: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
        Error::new(ErrorKind::NotFound, format!("there is no interface `{name}`"))
            .hint(diagnostic::did_you_mean(&name, &names))
    };
    Ok(json(found.ok_or_else(missing)?))
}

async fn monitored(State(stack): State<SharedStack>, Path(name): Path<String>) -> Answer {
    Ok(json(&stack.stack().monitored(&name)?))
}

async fn change_interface(State(stack): State<SharedStack>, Path(name): Path<String>, body: Bytes) -> Answer {
    let change: InterfaceChange = read(&body)?;
    stack.stack().change_interface(&name, &change)?;
    Ok(done())
}

async fn flush_stations(State(stack): State<SharedStack>, Path(name): Path<String>) -> Answer {
    Ok(json(&stack.stack().forget_stations(&name, None)?))
}

async fn forget_station(
    State(stack): State<SharedStack>,
    Path((name, mac)): Path<(String, String)>,
) -> Answer {
    let mac = crate::Mac(parse(&mac, "a link address")?);
    stack.stack().forget_stations(&name, Some(mac))?;
    Ok(done())
}

async fn rings(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().rings()?))
}

async fn move_ring(
    State(stack): State<SharedStack>,
    Path((name, ring)): Path<(String, String)>,
    body: Bytes,
) -> Answer {
    let change: RingChange = read(&body)?;
    stack.stack().move_ring(&name, parse(&ring, "the number of a ring")?, change)?;
    Ok(done())
}

async fn routes(State(stack): State<SharedStack>, params: Params) -> Answer {
    let Values { family, after, limit, .. } = values(params)?;
    Ok(json(&stack.stack().routes(&RoutePage { family, after, limit })?))
}

async fn route_to(State(stack): State<SharedStack>, params: Params) -> Answer {
    let to: IpAddr = values(params)?.to("an address")?;
    Ok(json(&stack.stack().route_to(to)?))
}

async fn add_route(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    edit_route(&stack, RouteEdit::Add(read(&body)?))
}

async fn change_route(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    edit_route(&stack, RouteEdit::Change(read(&body)?))
}

async fn delete_route(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    edit_route(&stack, RouteEdit::Delete { to: values.to("a prefix")?, via: values.via })
}

fn edit_route(stack: &SharedStack, edit: RouteEdit) -> Answer {
    let what_became = edit_all(stack, &[edit])?.into_iter().next();
    what_became.unwrap_or(Ok(()))?;
    Ok(done())
}

async fn edit_routes(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let edits: Vec<RouteEdit> = read(&body)?;
    let mut answer = RouteEdits::default();
    for (at, what_became) in edit_all(&stack, &edits)?.into_iter().enumerate() {
        match what_became {
            Ok(()) => answer.done += 1,
            Err(error) => answer.refused.push(RefusedEdit { at, error }),
        }
    }
    Ok(json(&answer))
}

/// Edits with a wrong number of targets are refused here, so that the stack need not look.
fn edit_all(stack: &SharedStack, edits: &[RouteEdit]) -> Result<Vec<Result<(), Error>>, Error> {
    let checks: Vec<Result<(), Error>> = edits.iter().map(one_target).collect();
    let good = edits.iter().zip(&checks).filter(|(_, check)| check.is_ok()).map(|(edit, _)| edit.clone());
    let mut done = stack.stack().edit_routes(&good.collect::<Vec<_>>())?.into_iter();
    Ok(checks.into_iter().map(|check| check.and_then(|()| done.next().unwrap_or(Ok(())))).collect())
}

fn one_target(edit: &RouteEdit) -> Result<(), Error> {
    let (route, least) = match edit {
        RouteEdit::Add(route) => (route, 1),
        RouteEdit::Change(route) => (route, 0),
        RouteEdit::Delete { .. } => return Ok(()),
    };
    let links = !route.via.is_empty() || route.dev.is_some();
    let targets = usize::from(links) + usize::from(route.reject) + usize::from(route.blackhole);
    if (least..=1).contains(&targets) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::Invalid, "a route needs one target");
    Err(error.hint("give gateways, an interface, reject or blackhole"))
}

async fn flush_routes(State(stack): State<SharedStack>, params: Params) -> Answer {
    let family = values(params)?.family;
    Ok(json(&stack.stack().flush_routes(family)?))
}

async fn route_sources(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().route_sources()?))
}

async fn dhcp(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().dhcp()?))
}

async fn links(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().links()?))
}

async fn offloaded(State(stack): State<SharedStack>, params: Params) -> Answer {
    let limit = values(params)?.limit.unwrap_or(OFFLOADED).clamp(1, OFFLOADED_MAX);
    Ok(json(&stack.stack().offloaded(limit)?))
}

async fn neighbours(State(stack): State<SharedStack>, params: Params) -> Answer {
    let family = values(params)?.family;
    let mut neighbours = stack.stack().neighbours()?;
    neighbours.retain(|neighbour| family.is_none_or(|family| family == Family::of(neighbour.address)));
    Ok(json(&neighbours))
}

async fn set_neighbour(State(stack): State<SharedStack>, Path(address): Path<String>, body: Bytes) -> Answer {
    let request: NeighbourRequest = read(&body)?;
    stack.stack().set_neighbour(parse(&address, "an address")?, &request)?;
    Ok(done())
}

async fn delete_neighbour(State(stack): State<SharedStack>, Path(address): Path<String>) -> Answer {
    stack.stack().delete_neighbour(parse(&address, "an address")?)?;
    Ok(done())
}

async fn flush_neighbours(State(stack): State<SharedStack>, params: Params) -> Answer {
    let family = values(params)?.family;
    let family = family.ok_or_else(|| Error::new(ErrorKind::Invalid, "say which family: inet or inet6"))?;
    Ok(json(&stack.stack().flush_neighbours(family)?))
}

async fn netisrs(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().netisrs()?))
}

async fn pools(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().pools()?))
}

async fn counters(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().counters()?))
}

async fn sysctls(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().sysctls()?))
}

async fn change_sysctl(State(stack): State<SharedStack>, Path(name): Path<String>, body: Bytes) -> Answer {
    let change: SysctlChange = read(&body)?;
    Ok(json(&stack.stack().change_sysctl(&name, &change)?))
}

async fn start_ping(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let request: PingRequest = read(&body)?;
    let lines = ping::start(stack, request)?;
    Ok(typed("application/x-ndjson", Body::new(lines)))
}

async fn start_capture(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let parts = capture::start(stack, &read(&body)?)?;
    Ok(typed("application/vnd.pcapng", Body::new(parts)))
}

async fn why(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let request: WhyRequest = read(&body)?;
    Ok(json(&stack.stack().why(&request)?))
}

async fn start_trace(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let lines = trace::start(stack, &read(&body)?)?;
    Ok(typed("application/x-ndjson", Body::new(lines)))
}

async fn reload(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    // Clients of older versions send nothing, or `null`.
    let is_empty = body.is_empty() || &*body == b"null";
    let request = if is_empty { ReloadRequest::default() } else { read(&body)? };
    Ok(json(&stack.stack().reload_with(&request)?))
}

async fn configuration(State(stack): State<SharedStack>) -> Answer {
    Ok(json(&stack.stack().configuration()?))
}

async fn edit_configuration(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let edits: ConfigEdits = read(&body)?;
    Ok(json(&stack.stack().edit_configuration(&edits)?))
}

async fn configuration_saved(State(stack): State<SharedStack>) -> Answer {
    stack.stack().configuration_saved()?;
    Ok(done())
}

async fn undo_configuration(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    let UndoRequest { count } = read(&body)?;
    Ok(json(&stack.stack().undo_configuration(count)?))
}

async fn http_listener(State(stack): State<SharedStack>) -> Response {
    json(&stack.stack().http())
}

async fn prometheus(State(stack): State<SharedStack>) -> Answer {
    let text = metrics::text(&mut *stack.stack())?;
    Ok(typed("text/plain; version=0.0.4; charset=utf-8", Body::from(text)))
}

/// Query parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    family: Option<Family>,
    to: Option<String>,
    via: Option<IpAddr>,
    after: Option<IpNet>,
    limit: Option<usize>,
}

type Params = Result<Query<Values>, QueryRejection>;

fn values(params: Params) -> Result<Values, Error> {
    let Query(values) = params.map_err(|why| Error::new(ErrorKind::Invalid, why.body_text()))?;
    Ok(values)
}

impl Values {
    fn to<T: core::str::FromStr>(&self, what: &str) -> Result<T, Error> {
        parse(self.to.as_deref().unwrap_or_default(), what)
    }
}

pub(in crate::api) fn parse<T: core::str::FromStr>(text: &str, what: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::new(ErrorKind::Invalid, format!("`{text}` is not {what}")))
}

pub(in crate::api) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|why| Error::new(ErrorKind::Invalid, format!("bad request: {why}")))
}

pub(in crate::api) fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => typed("application/json", Body::from(bytes)),
        Err(why) => Failure(Error::new(ErrorKind::Failed, why.to_string())).into_response(),
    }
}

pub(super) fn typed(kind: &'static str, body: Body) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
}

/// Done, and there is nothing to say.
pub(in crate::api) fn done() -> Response {
    json(&())
}

/// A failure on its way out.
pub(in crate::api) struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.kind {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Denied => StatusCode::FORBIDDEN,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Exists => StatusCode::CONFLICT,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = json(&self.0);
        *response.status_mut() = status;
        response
    }
}
