//! Diagnostics for languages that people write: the mistake, its place, the remedy.
//!
//! A parser reports a [`Fault`] in a range of bytes; the caller that knows the file turns it into an [`Error`], which shows the line with
//! a caret. [`nearest`] guesses which word was meant.
#![forbid(unsafe_code)]

mod error;
mod near;

pub use error::{Error, Fault, Place};
pub use near::{did_you_mean, nearest};
