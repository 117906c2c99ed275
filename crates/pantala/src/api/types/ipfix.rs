//! Export of flows.

use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The exporter of flows, and its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct IpfixStatus {
    /// The collector.
    pub collector: SocketAddr,
    /// Flows that are followed.
    pub flows: u64,
    /// Records that were sent.
    pub records: u64,
    /// Messages that were sent.
    pub messages: u64,
    /// Records in messages that the kernel did not take.
    pub lost: u64,
    /// Looks at states that were passed over because too many flows are followed.
    pub passed_over: u64,
}
