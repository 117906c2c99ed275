//! Which request does what.

use core::net::IpAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::SharedStack;
use super::requests::{Parameter, Requests, about, may, must};
use crate::api::types::{
    CaptureRequest, ConfigEdits, Counters, Dhcp, Error, ErrorKind, Family, HttpListener, Interface,
    InterfaceChange, Learned, LearnedLink, Monitored, Neighbour, NeighbourRequest, Netisr, OffloadedFlow,
    PingEvent, PingRequest, Pool, RefusedEdit, ReloadRequest, Reloaded, Ring, RingChange, Route, RouteAnswer,
    RouteEdit, RouteEdits, RoutePage, RouteRequest, RouteSource, RunningConfiguration, StackChange, Sysctl,
    SysctlChange, SysctlChanged, TraceRequest, TracedPacket, UndoRequest, Version, WhyAnswer, WhyRequest,
};
use crate::api::{capture, changes, metrics, ping, trace};

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
    requests()
        .router()
        .fallback(async || Failure(Error::new(ErrorKind::NotFound, "no such path in the admin API")))
        .method_not_allowed_fallback(async || {
            Failure(Error::new(ErrorKind::Invalid, "method not allowed for this path"))
        })
        // Bodies are bounded before they come here.
        .layer(DefaultBodyLimit::disable())
        .with_state(stack)
}

/// The requests that do not concern the firewall or sockets.
#[expect(clippy::too_many_lines, reason = "one line for each request")]
fn requests() -> Requests {
    Requests::default()
        .get("/v1/version", version, about("The running pantala").answers::<Version>())
        .get("/v1/interfaces", interfaces, about("All interfaces").answers::<Vec<Interface>>())
        .get("/v1/interfaces/{name}", interface, about("An interface").answers::<Interface>())
        .patch(
            "/v1/interfaces/{name}",
            change_interface,
            about("Changes an interface").takes::<InterfaceChange>(),
        )
        .put(
            "/v1/interfaces/{name}/rings/{ring}",
            move_ring,
            about("Moves a ring to another CPU").takes::<RingChange>(),
        )
        .delete(
            "/v1/interfaces/{name}/fdb",
            flush_stations,
            about("Forgets all learnt link addresses; how many").answers::<u64>(),
        )
        .delete("/v1/interfaces/{name}/fdb/{mac}", forget_station, about("Forgets a learnt link address"))
        .get("/v1/rings", rings, about("All rings").answers::<Vec<Ring>>())
        .get(
            "/v1/interfaces/{name}/monitor",
            monitored,
            about("Measurements in monitor mode").answers::<Monitored>(),
        )
        .get(
            "/v1/routes",
            routes,
            about("Routes in the order of their prefixes").query(ROUTES).answers::<Vec<Route>>(),
        )
        .post("/v1/routes", add_route, about("Adds a route").takes::<RouteRequest>())
        .put("/v1/routes", change_route, about("Changes a route").takes::<RouteRequest>())
        .delete("/v1/routes", delete_route, about("Deletes a route").query(ROUTE))
        .post(
            "/v1/routes/batch",
            edit_routes,
            about("Changes routes, one after the other").takes::<Vec<RouteEdit>>().answers::<RouteEdits>(),
        )
        .post(
            "/v1/routes/flush",
            flush_routes,
            about("Deletes all routes; how many").query(FLUSH).answers::<u64>(),
        )
        .get("/v1/routes/get", route_to, about("The route to an address").query(TO).answers::<RouteAnswer>())
        .get("/v1/routes/sources", route_sources, about("Sources of routes").answers::<Vec<RouteSource>>())
        .get(
            "/v1/neighbours",
            neighbours,
            about("ARP and neighbour discovery").query(FAMILY).answers::<Vec<Neighbour>>(),
        )
        .delete(
            "/v1/neighbours",
            flush_neighbours,
            about("Forgets learnt neighbours; how many").query(ONE_FAMILY).answers::<u64>(),
        )
        .put(
            "/v1/neighbours/{address}",
            set_neighbour,
            about("Sets a permanent neighbour").takes::<NeighbourRequest>(),
        )
        .delete("/v1/neighbours/{address}", delete_neighbour, about("Forgets a neighbour"))
        .get("/v1/links", links, about("Values of router advertisements").answers::<Vec<LearnedLink>>())
        .delete(
            "/v1/links",
            forget_learned,
            about("Forgets routers or prefixes of router advertisements; how many")
                .query(LEARNED)
                .answers::<u64>(),
        )
        .get(
            "/v1/offload",
            offloaded,
            about("Flows that drivers forward").query(LIMIT).answers::<Vec<OffloadedFlow>>(),
        )
        .get("/v1/dhcp", dhcp, about("DHCP servers and clients").answers::<Dhcp>())
        .get("/v1/netisr", netisrs, about("Netisrs").answers::<Vec<Netisr>>())
        .get("/v1/pools", pools, about("Packet buffers of each CPU").answers::<Vec<Pool>>())
        .get("/v1/counters", counters, about("Counters and drops").answers::<Counters>())
        .get("/v1/sysctl", sysctls, about("All variables").answers::<Vec<Sysctl>>())
        .put(
            "/v1/sysctl/{name}",
            change_sysctl,
            about("Sets a variable").takes::<SysctlChange>().answers::<SysctlChanged>(),
        )
        .post(
            "/v1/ping",
            start_ping,
            about("Sends echo requests").takes::<PingRequest>().streams::<PingEvent>(LINES),
        )
        .post(
            "/v1/capture",
            start_capture,
            about("Captures packets").takes::<CaptureRequest>().streams::<String>("application/vnd.pcapng"),
        )
        .post(
            "/v1/why",
            why,
            about("The way that a packet would take").takes::<WhyRequest>().answers::<WhyAnswer>(),
        )
        .post(
            "/v1/trace",
            start_trace,
            about("Traces packets").takes::<TraceRequest>().streams::<TracedPacket>(LINES),
        )
        .get(
            "/v1/changes",
            start_changes,
            about("Changes of routes, neighbours, addresses and interfaces").streams::<StackChange>(LINES),
        )
        .post(
            "/v1/reload",
            reload,
            about("Reads the configuration again").takes::<Option<ReloadRequest>>().answers::<Reloaded>(),
        )
        .get(
            "/v1/config",
            configuration,
            about("The running configuration").answers::<RunningConfiguration>(),
        )
        .post(
            "/v1/config/edits",
            edit_configuration,
            about("Changes the running configuration").takes::<ConfigEdits>().answers::<Reloaded>(),
        )
        .post("/v1/config/saved", configuration_saved, about("Notes that the configuration was saved"))
        .post(
            "/v1/config/undo",
            undo_configuration,
            about("Takes changes back").takes::<UndoRequest>().answers::<Reloaded>(),
        )
        .get("/v1/http", http_listener, about("The HTTP listener").answers::<Option<HttpListener>>())
        .get("/metrics", prometheus, about("Metrics as Prometheus text").streams::<String>("text/plain"))
        .merge(crate::api::firewall::routes::requests())
        .merge(super::sockets::requests())
        .merge(super::live::requests())
}

/// Media type of JSON values, one a line.
const LINES: &str = "application/x-ndjson";
const FAMILY: &[Parameter] = &[may("family", "string", "inet or inet6")];
const ONE_FAMILY: &[Parameter] = &[must("family", "string", "inet or inet6")];
const LIMIT: &[Parameter] = &[may("limit", "integer", "rows of each CPU, 10,000 at most")];
const LEARNED: &[Parameter] = &[must("what", "string", "routers or prefixes")];
const FIB: Parameter = may("fib", "integer", "routing table, 0 by default");
const FLUSH: &[Parameter] = &[may("family", "string", "inet or inet6"), FIB];
const TO: &[Parameter] = &[must("to", "string", "an address"), FIB];
const ROUTE: &[Parameter] =
    &[must("to", "string", "a prefix"), may("via", "string", "one of its gateways"), FIB];
const ROUTES: &[Parameter] = &[
    FIB,
    may("family", "string", "inet or inet6"),
    may("after", "string", "the last prefix of the page before"),
    may("limit", "integer", "rows"),
];

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
    let Values { fib, family, after, limit, .. } = values(params)?;
    Ok(json(&stack.stack().routes(&RoutePage { fib, family, after, limit })?))
}

async fn route_to(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    let to: IpAddr = values.to("an address")?;
    Ok(json(&stack.stack().route_to(values.fib, to)?))
}

async fn add_route(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    edit_route(&stack, RouteEdit::Add(read(&body)?))
}

async fn change_route(State(stack): State<SharedStack>, body: Bytes) -> Answer {
    edit_route(&stack, RouteEdit::Change(read(&body)?))
}

async fn delete_route(State(stack): State<SharedStack>, params: Params) -> Answer {
    let values = values(params)?;
    edit_route(&stack, RouteEdit::Delete { fib: values.fib, to: values.to("a prefix")?, via: values.via })
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
    let Values { fib, family, .. } = values(params)?;
    Ok(json(&stack.stack().flush_routes(fib, family)?))
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

async fn forget_learned(State(stack): State<SharedStack>, params: Params) -> Answer {
    let what = values(params)?.what;
    let what = what.ok_or_else(|| Error::new(ErrorKind::Invalid, "say what: routers or prefixes"))?;
    Ok(json(&stack.stack().forget_learned(what)?))
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
    Ok(typed(LINES, Body::new(lines)))
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
    Ok(typed(LINES, Body::new(lines)))
}

async fn start_changes(State(stack): State<SharedStack>) -> Answer {
    Ok(typed(LINES, Body::new(changes::start(stack)?)))
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
    #[serde(default)]
    fib: u8,
    family: Option<Family>,
    what: Option<Learned>,
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
