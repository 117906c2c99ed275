//! Forwarding between two veth pairs, by several forwarders: generator → router → sink, each in a network namespace of its own.
//!
//! ```text
//!   source            router            sink
//!   g0 ─────── r0     forwards    r1 ─────── k1
//! ```
//!
//! The generator and the sink are XDP programs ([`testbed::flood`], [`testbed::sink`]), so that the forwarder between them
//! is the slowest. The namespaces have no names: they are gone with the process, however it ends.

pub mod count;
pub mod doorbells;
pub mod frames;
pub mod generator;
pub mod lab;
pub mod layout;
pub mod measure;
pub mod overload;
pub mod pings;
pub mod routers;
pub mod thread;
