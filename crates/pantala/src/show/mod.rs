//! Output formats: API values in, the text that BSD users know out. Pure, so that tests compare whole pages.

mod dhcp;
mod groups;
mod ifconfig;
pub(crate) mod ipfw;
mod links;
mod monitor;
mod neighbours;
mod netstat;
mod ping;
mod programs;
mod rings;
mod routes;
pub(crate) mod sockets;
pub(crate) mod sysctl;
pub(crate) mod table;
mod trace;

pub(crate) use dhcp::dhcp;
pub(crate) use groups::groups;
pub(crate) use ifconfig::{ifconfig, stations};
pub(crate) use ipfw::time::utc;
pub(crate) use links::{prefixes, routers};
pub(crate) use monitor::monitored;
pub(crate) use neighbours::{arp, ndp};
pub(crate) use netstat::{
    Rates, counters, interfaces, keep, netisrs, offloaded, pools, queues, rates_head, rates_line,
};
pub(crate) use ping::{Summary, ping_event, ping_head};
pub(crate) use programs::{program_rates, programs};
pub(crate) use rings::rings;
pub(crate) use routes::{destination, route_answer, route_sources, routes};
pub(crate) use trace::{traced, why};
