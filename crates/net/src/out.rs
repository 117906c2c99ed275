//! Output queues, and offload of checksums and segmentation.

pub mod ifq;
pub mod offload;
