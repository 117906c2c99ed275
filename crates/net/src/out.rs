//! Output queues, offload, and the interface to drivers.

pub mod ifq;
pub mod offload;
