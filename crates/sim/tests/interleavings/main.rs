//! Orders in which a control thread and netisrs take their steps: publications of tables, routes, rules and rings while
//! packets are on their way. Before each access to memory that threads share, shuttle may let another thread go on.
//!
//! `cargo test -p sim --features model --test interleavings`, or `cargo xtask model [ITERATIONS]`.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod publication;
mod scene;
mod two_tables;
