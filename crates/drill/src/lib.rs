//! The packetdrill language: what a script demands of a stack, as values, and back.
//!
//! Pure functions of text. [`parse()`] reads a script, or says all that is wrong with it and where; a [`Script`] prints
//! itself (`Display`) as text that is read as the same script; [`mutants`] yields all scripts that differ from it in one
//! field. What a script *does* is not here: constants of the operating system stay names, because their numbers differ
//! from system to system.
//!
//! The grammar is google/packetdrill's with the extensions of the nplab fork that scripts for TCP use; where the two
//! differ, both are read. What they know and this language does not is in [`refused`], each with the reason.
//!
//! ```
//! let script = drill::parse("three.pkt", "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n", &[]).unwrap();
//! assert_eq!(script.to_string(), "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n");
//! ```
#![forbid(unsafe_code)]

pub mod script;
pub mod packet;
pub mod syscall;
pub mod code;
pub mod symbol;
pub mod error;
pub mod limit;
mod place;
mod strip;
mod cursor;
mod parse;
pub mod refused;
mod print;
pub mod mutate;
pub mod fuzz_bodies;

pub use error::Error;
pub use mutate::{Mutant, mutants};
pub use parse::parse;
pub use script::{Action, At, Event, Pos, Script, Time};

/// Default definition for `#ifdef`: the branch for stacks that follow the standards.
pub const STANDARD: &str = "STANDARD";
