//! The firewall's language: what people write, as values, and back.
//!
//! Pure functions of text. What a rule *does* is in `net::firewall`; here is what it *says*, with all that words can
//! tell resolved (addresses, ports, protocols, flags), and the names that only a running stack knows (interfaces,
//! tables, pipes) left as they are.
//!
//! The grammar is that of FreeBSD's and DragonFly's ipfw(8).
#![forbid(unsafe_code)]

pub mod command;
pub mod rule;

pub use command::Command;
pub use rule::{Action, Clause, Match, Rule, Term};
