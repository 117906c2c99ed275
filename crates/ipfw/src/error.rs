//! What is wrong with a text, and where.

pub use fault::Error;
pub(crate) use fault::{Fault, Place, nearest};
