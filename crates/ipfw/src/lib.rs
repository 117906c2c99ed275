//! The firewall's language: what people write, as values, and back.
//!
//! Pure functions of text. What a rule *does* is in `net::firewall`; here is what it *says*, with all that words can
//! tell resolved (addresses, ports, protocols, flags), and the names that only a running stack knows (interfaces,
//! tables, pipes) left as they are.
//!
//! - [`parse_file`] reads a file of commands and says all that is wrong with it, [`parse_args`] one command,
//!   [`parse_line`] one line of text.
//! - Values print themselves (`Display`) in the form that `ipfw list` shows; what is printed parses to the same value.
//! - What ipfw(8) knows and this language does not is in [`refused`], each with the reason.
//!
//! The grammar is that of FreeBSD's and DragonFly's ipfw(8); where they leave something open, or differ, the parser says
//! which it follows.
#![forbid(unsafe_code)]

pub mod command;
pub mod rule;
pub mod error;
pub mod limit;
mod file;
mod words;
mod parse;
pub mod refused;
mod foreign;
mod names;
mod print;
pub mod arbitrary;
pub mod fuzz_bodies;

pub use command::Command;
pub use error::Error;
pub use file::{READER, Statement, parse_args, parse_file, parse_line};
pub use rule::{Action, Clause, Match, Rule, Term};
