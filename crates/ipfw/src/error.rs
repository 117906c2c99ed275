//! Diagnostics: mistakes in a text, with their places.

pub use fault::Error;
pub(crate) use fault::{Fault, Place, nearest};
