//! Whole stacks inside of a program, without rights: two of them, and a wire in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod caller;
mod changes;
mod ends;
mod rights;
mod wires;
