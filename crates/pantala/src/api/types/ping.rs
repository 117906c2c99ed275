//! Ping: a request, and the stream of what happens.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Echo requests to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PingRequest {
    /// Destination.
    pub to: IpAddr,
    /// The address to send from; chosen by the route if `None`.
    #[serde(default)]
    pub source: Option<IpAddr>,
    /// Number of requests; until the reader goes away if `None`.
    #[serde(default)]
    pub count: Option<u32>,
    /// Milliseconds from one to the next, at least 1.
    #[serde(default = "second")]
    pub interval_ms: u32,
    /// Milliseconds to wait for the last answer.
    #[serde(default = "ten_seconds")]
    pub timeout_ms: u32,
    /// Bytes of data in each.
    #[serde(default = "bytes")]
    pub bytes: u16,
    /// The time to live or hop limit; the stack's usual one if `None`.
    #[serde(default)]
    pub ttl: Option<u8>,
    /// Whether routers must not fragment it (IPv4; over IPv6 they never do).
    #[serde(default)]
    pub dont_fragment: bool,
    /// The routing table.
    #[serde(default)]
    pub fib: u8,
}

const fn second() -> u32 {
    1000
}

const fn ten_seconds() -> u32 {
    10_000
}

const fn bytes() -> u16 {
    56
}

/// Something that happened to a ping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum PingEvent {
    /// A request was sent.
    Sent {
        /// Its number, from 0.
        seq: u32,
    },
    /// It was answered.
    Reply {
        /// Its number.
        seq: u32,
        /// Sender of the reply.
        from: IpAddr,
        /// Bytes of the ICMP message.
        bytes: u32,
        /// The time to live or hop limit that was left.
        ttl: u8,
        /// Nanoseconds there and back.
        rtt_ns: u64,
        /// Whether it had been answered before.
        duplicate: bool,
    },
    /// A router or the host could not deliver it.
    Unreachable {
        /// Its number.
        seq: u32,
        /// Sender of the error.
        from: IpAddr,
        /// Text of the error: `Destination Host Unreachable`.
        what: String,
    },
    /// It could not be sent.
    Failed {
        /// Its number.
        seq: u32,
        /// Why.
        error: String,
    },
    /// The last request was answered, or its time is over.
    Done,
}
