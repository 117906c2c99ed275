//! Time, secrets, counters, drop reasons, and collections: what every layer may use.
#![forbid(unsafe_code)]

pub mod ids;
pub mod time;
pub mod secret;
pub mod drop;
pub mod stage;
pub mod count;
pub mod four_tuple;
pub mod rss_hash;
pub mod collections;
