//! The admin API: HTTP/JSON on a Unix socket, and over TCP if the configuration has `[http]`.
//!
//! | path | what |
//! |---|---|
//! | `GET /v1/version` | [`Version`]: the running pantala |
//! | `GET /v1/interfaces`, `GET /v1/interfaces/NAME` | [`Interface`] |
//! | `PATCH /v1/interfaces/NAME` | [`InterfaceChange`] |
//! | `GET /v1/rings` | [`Ring`]: whose each is, and what happened at it |
//! | `PUT /v1/interfaces/NAME/rings/N` | [`RingChange`]: move it to another CPU |
//! | `GET /v1/interfaces/NAME/monitor` | [`Monitored`]: frames received in monitor mode |
//! | `GET /v1/routes?family=` | [`Route`] |
//! | `GET /v1/routes/get?to=ADDRESS` | [`RouteAnswer`]: which way would a packet go |
//! | `POST /v1/routes`, `DELETE /v1/routes?to=PREFIX&via=` | [`RouteRequest`] |
//! | `DELETE /v1/links?what=` | forget routers or prefixes of router advertisements |
//! | `GET /v1/neighbours?family=` | [`Neighbour`] |
//! | `PUT /v1/neighbours/ADDRESS` | [`NeighbourRequest`]: a permanent entry |
//! | `DELETE /v1/neighbours/ADDRESS`, `DELETE /v1/neighbours?family=` | forget one, or all learnt ones |
//! | `GET /v1/netisr`, `/v1/pools`, `/v1/counters` | [`Netisr`], [`Pool`], [`Counters`] |
//! | `GET /v1/tcp/connections?after=&limit=&info=` | [`TcpConnections`], a page of them |
//! | `GET /v1/tcp/listeners?after=&limit=` | [`TcpListeners`], a page of them |
//! | `POST /v1/tcp/drop` | [`TcpEnds`]: end the connection between them |
//! | `GET /v1/udp/sockets?after=&limit=` | [`UdpSockets`], a page of them |
//! | `GET /v1/raw/sockets?after=&limit=` | [`RawSockets`] of ICMP, a page of them |
//! | `GET /v1/packet/sockets` | packet sockets: a list of [`PacketSocket`] |
//! | `GET /v1/groups` | multicast groups that the host is in: a list of [`Group`] |
//! | `GET /v1/sysctl`, `PUT /v1/sysctl/NAME` | [`Sysctl`]; [`SysctlChange`], answered by [`SysctlChanged`] |
//! | `POST /v1/ping` | [`PingRequest`]; answered by a stream of [`PingEvent`], one JSON value a line |
//! | `GET /v1/firewall` | [`FirewallStatus`]: what is in force besides the rules |
//! | `POST /v1/firewall/commands` | [`FirewallCommands`] in ipfw's language, all of them or none: [`FirewallDone`] |
//! | `GET /v1/firewall/rules` | [`FirewallRule`]: what it says and counted |
//! | `GET /v1/firewall/states?after=&limit=&expired=` | [`FirewallStates`], a page of them |
//! | `GET /v1/firewall/tracks?after=&limit=` | [`FirewallTracks`], a page of the groups that a `limit` counts |
//! | `GET /v1/firewall/nat` | [`FirewallNat`]: instances, what they have and what they refused |
//! | `GET /v1/firewall/nat/NUMBER?after=&limit=` | [`FirewallBindings`], a page of the flows that one translates |
//! | `GET /v1/firewall/nat64` | [`FirewallNat64`] |
//! | `GET /v1/firewall/nat64/{name}` | [`FirewallBindings`] |
//! | `GET /v1/firewall/nptv6` | [`FirewallPrefixes`] |
//! | `GET /v1/firewall/pipes` | [`FirewallShapes`]: pipes and queues, and what went through them |
//! | `GET /v1/firewall/pipes/flows?after=&limit=` | [`FirewallFlows`], a page of them |
//! | `GET /v1/firewall/tables` | [`FirewallTable`] |
//! | `GET /v1/firewall/tables/NAME?after=&limit=` | [`FirewallTablePage`] |
//! | `GET /v1/firewall/tables/NAME/lookup?key=` | [`FirewallTableEntry`]: what a key finds |
//! | `GET /v1/firewall/log?after=` | [`FirewallLog`]: packets that rules with `log` matched |
//! | `POST /v1/capture` | [`CaptureRequest`]; answered by a stream of pcapng, until the reader closes it |
//! | `POST /v1/why` | [`WhyRequest`]: the way that a packet would take: [`WhyAnswer`] |
//! | `POST /v1/trace` | [`TraceRequest`]; answered by a stream of [`TracedPacket`], until all have come or the reader closes it |
//! | `GET /v1/changes` | a stream of [`StackChange`]: routes, neighbours, addresses and interfaces, until the reader closes it |
//! | `POST /v1/reload` | read the configuration again: [`Reloaded`] |
//! | `GET /v1/http` | [`HttpListener`]: where the API is served over TCP |
//! | `GET /v1/stream` | readings of the stack, as server-sent events |
//! | `GET /v1/openapi.json` | this table with the schemas of its types (OpenAPI 3.1) |
//! | `GET /metrics` | Prometheus text |
//!
//! Keys are `snake_case` and stay. A failure is an [`Error`] with an HTTP status that fits its kind.

#[cfg(feature = "admin")]
mod capture;
#[cfg(feature = "admin")]
mod changes;
#[cfg(feature = "admin")]
pub mod client;
pub mod firewall;
pub(crate) mod metrics;
#[cfg(feature = "admin")]
pub(crate) mod rates;
#[cfg(feature = "admin")]
mod parts;
#[cfg(feature = "admin")]
mod ping;
#[cfg(feature = "admin")]
pub mod server;
pub mod sockets;
pub mod stack;
#[cfg(feature = "admin")]
mod trace;
mod types;

pub(crate) use types::wall_ns;
pub use types::*;

/// Default path of the control socket.
pub const DEFAULT_SOCKET: &str = "/run/pantala/control.sock";
