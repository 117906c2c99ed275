//! Diagnostics: mistakes in a text, with their places.

pub use diagnostic::Error;
pub(crate) use diagnostic::{Fault, Place, nearest};
