//! Diagnostics of scripts.

pub use diagnostic::Error;
pub(crate) use diagnostic::{Fault, Place, nearest};
