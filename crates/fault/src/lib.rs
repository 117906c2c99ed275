//! What is wrong with a text that somebody wrote, and where: for languages that people write.
//!
//! A parser says what is wrong with which bytes ([`Fault`]); who knows the file makes an [`Error`] of it, which shows the line with
//! a caret. [`nearest`] guesses what was meant.
#![forbid(unsafe_code)]

mod error;
mod near;

pub use error::{Error, Fault, Place};
pub use near::nearest;
