//! Export of samples.

use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The exporter of samples, and its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct SflowStatus {
    /// The collector.
    pub collector: SocketAddr,
    /// Samples of frames that were sent.
    pub flow_samples: u64,
    /// Samples of counters that were sent.
    pub counter_samples: u64,
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Samples in datagrams that the kernel did not take.
    pub lost: u64,
    /// Chosen frames for which there was no room until the exporter took them.
    pub dropped: u64,
}
