//! A TCP/IP stack in user space, inside a Rust program: TCP and UDP sockets as in `std::net` and `tokio::net`, a router, a
//! firewall. It is also the shell of the `pantala` program.
//!
//! An echo server on a TAP interface, whose other end the kernel has:
//!
//! ```toml
//! [dependencies]
//! pantala = { path = "pantala/crates/pantala", default-features = false }
//! ```
//!
//! ```no_run
//! use pantala::{Interface, Stack, sockets::blocking::TcpListener};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let stack = Stack::builder().interface(Interface::tap("pt0").address("10.71.1.1/24")).start()?;
//!     stack.wait_ready(std::time::Duration::from_secs(10))?;
//!     let listener = TcpListener::bind(&stack.sockets()?, "10.71.1.1:7")?;
//!     for stream in listener.incoming() {
//!         let mut stream = stream?;
//!         std::thread::spawn(move || std::io::copy(&mut stream.try_clone()?, &mut stream));
//!     }
//!     Ok(())
//! }
//! ```
//!
//! `unshare -rn` is enough to run it without root; from there, `ip address add 10.71.1.2/24 dev pt0` and `nc 10.71.1.1 7` speak
//! with it.
//!
//! A [`Stack`] has one or more netisrs, each a thread on a CPU, and devices: TAP, AF_XDP, memif, capture files, or wires in
//! memory to other stacks of the same process, which need no privileges. It is configured in Rust, or by the TOML of the
//! `pantala` program. Two stacks, a wire between them, and an application on the netisr:
//!
//! ```
//! use pantala::net::app::services::{Kind, Service};
//! use pantala::net::tcp::settings::Settings;
//! use pantala::{Interface, Stack, mem};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let [here, there] = mem::wire(1)?;
//! let server = Stack::builder().threads(2).interface(Interface::mem(here).address("192.0.2.1/24")).start()?;
//! let client = Stack::builder().threads(1).interface(Interface::mem(there).address("192.0.2.2/24")).start()?;
//!
//! // An application on each netisr: connections are accepted where their packets arrive.
//! let at = "[::]:7".parse()?;
//! server.begin_on_all(|| Service::new(Kind::Echo, at, Settings::default()))?;
//!
//! // All that the admin API shows and changes is there for the program, too.
//! let way = client.admin().route_to(0, "192.0.2.1".parse()?)?;
//! assert_eq!(way.source, Some("192.0.2.2".parse()?));
//!
//! client.stop()?;
//! server.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `cli` (default) | the `pantala` program: commands, demo, packet generator, laboratory; and `admin` and `web` |
//! | `admin` | the admin API over HTTP on a Unix socket: `Builder::admin`, [`api`]'s `server` and `client` |
//! | `web` | the web server on the netisrs: `Builder::serve`, and the rest of the module `serve` |
//! | `hyper` (default) | a connector for the HTTP clients of `hyper-util`: `sockets::hyper` |
//!
//! `default-features = false` builds the stack and its sockets alone, without clap, axum and hyper.
//!
//! # Where to begin
//!
//! | to | there is |
//! |---|---|
//! | put a stack together and start it | [`Stack::builder`], [`Builder`], [`Interface`] |
//! | start what a configuration file says | [`Builder::toml`], or [`config::Config`] and [`Stack::start`] |
//! | wait until its addresses can be used | [`Stack::ready`], [`Stack::wait_ready`] |
//! | use TCP and UDP where packets are, without hand-off and copy | [`net::app::App`], [`Stack::begin`], [`Stack::begin_on_all`] |
//! | use TCP and UDP from any thread or task, as of `std::net` and `tokio::net` | [`Stack::sockets`], [`sockets::blocking`], [`sockets::aio`] |
//! | make HTTP requests with hyper's client | `sockets::hyper::Connector` |
//! | serve files, or pages of the program's own, to the web | `serve::folder`, `serve::Web::of_pages` |
//! | reach netisrs from other threads | [`Stack::remotes`], their control ports; [`Stack::call`] |
//! | add and remove addresses | [`Stack::add_address`], [`Stack::remove_address`] |
//! | look at and change all else | [`Stack::admin`]: routes, neighbours, connections, variables, rules; [`Stack::metrics`] |
//! | let the `pantala` commands in | `Builder::admin` |
//! | join stacks of one process | [`mem::wire`] and [`Interface::mem`] |
//!
//! # Threads, rights, and what is changed of the machine
//!
//! A stack has a thread for each CPU, one that controls, and one for each folder that is served and for memif; they end with
//! it. Netisrs give up all rights when they begin, the control thread those that it does not need; netisrs, and threads that
//! read files, make only the system calls that they are known to make, and no program on a netisr can open a file or a socket
//! of the kernel (`seccomp = "off"` in the configuration lets it). The program's own threads, and its user, stay as they are. A
//! TAP is made, and an
//! interface taken over, in the network namespace of the thread that starts the stack; what was changed is put back when it
//! ends. Signals, the working directory and standard streams are left alone: what a stack has to say it says through the
//! crate `log`, with the target `pantala`.
//!
//! Short programs to begin with are in the folder `examples`: `two_stacks` in one process, `echo` on the netisr,
//! `web_over_tap` for `curl`, `udp`, `hyper` whose tasks are on several threads, and `http_client`.
#![forbid(unsafe_code)]

pub mod api;
#[cfg(feature = "cli")]
mod cli;
pub mod config;
mod daemon;
mod dhcp;
mod dhcp6;
mod pppoe;
#[cfg(feature = "cli")]
mod demo;
#[cfg(feature = "cli")]
mod doctor;
#[cfg(any(feature = "admin", feature = "web"))]
mod descriptors;
mod firewall;
#[cfg(feature = "cli")]
mod interrupt;
mod ipfix;
mod sflow;
#[cfg(feature = "cli")]
mod iperf;
mod mac;
#[cfg(feature = "cli")]
mod pktgen;
mod plural;
mod routes;
pub mod serve;
#[cfg(feature = "cli")]
mod show;
#[cfg(feature = "cli")]
mod programs;
#[cfg(not(feature = "cli"))]
#[path = "no_programs.rs"]
mod programs;
pub mod sockets;
mod stack;
#[cfg(feature = "cli")]
pub mod term;
#[cfg(feature = "cli")]
mod top;

#[cfg(feature = "cli")]
pub use cli::{Exit, command_line, run};
pub use dev::mem;
pub use ipnet::IpNet;
pub use mac::Mac;
/// Properties that fuzz targets check.
#[cfg(all(feature = "cli", any(test, fuzzing)))]
pub mod fuzz_bodies {
    pub use crate::dhcp::fuzz_bodies::dhcp;
    pub use crate::pktgen::fuzz_bodies::{arguments, frames, words};
    pub use crate::pppoe::fuzz_bodies::pppoe;
    pub use crate::routes::fuzz_bodies::routes;
}
pub use stack::{Builder, Interface, NotReady, Stack, StackError};
/// The layers below: devices and namespaces of the machine; the stack itself, for applications on it.
pub use {dev, net};
