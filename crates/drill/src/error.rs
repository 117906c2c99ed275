//! Diagnostics of scripts.

pub use fault::Error;
pub(crate) use fault::{Fault, Place, nearest};
