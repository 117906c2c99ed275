//! `[[serve]]` and `pantala serve`: a web server for the files of a folder, on the netisrs.
//!
//! ```text
//!   netisr: Web ── asks ──▶ library thread ─▶ openat2, read
//!      ▲  connections, heads, what is    │
//!      └─ sent ◀──── answers, a message ─┘
//! ```
//!
//! A netisr never waits for a disk: what is not remembered is asked for, and the connection waits
//! ([ADR 17](../../../../docs/design/adr/0017-files-are-read-by-a-thread.md)).
//!
//! | module | what it is |
//! |---|---|
//! | [`request`], [`range`], [`conditional`] | bytes become a request |
//! | [`response`], [`mime`] | an answer becomes bytes |
//! | [`file_reader`] | the thread that reads files, and nothing outside of their folder |
//! | [`web`], [`connection`] | the program on each netisr, and what it knows of a connection |
//! | [`limits`], [`budget`] | bounds of the memory that is held for readers, and what is held |
//! | [`counters`] | its counters |

mod counters;
mod limits;

#[cfg(feature = "web")]
mod budget;
#[cfg(feature = "web")]
mod conditional;
#[cfg(feature = "web")]
mod folder;
#[cfg(feature = "web")]
mod file_reader;
#[cfg(feature = "web")]
mod mime;
#[cfg(not(feature = "web"))]
mod no_web;
#[cfg(feature = "web")]
mod range;
#[cfg(feature = "web")]
mod request;
#[cfg(feature = "web")]
mod response;
#[cfg(feature = "web")]
mod connection;
#[cfg(feature = "web")]
mod web;

pub(crate) use counters::Hit;
#[cfg(feature = "web")]
pub(crate) use folder::confined_folder;
#[cfg(feature = "web")]
pub use folder::folder;
#[cfg(feature = "cli")]
pub(crate) use folder::look;
pub use limits::Limits;
#[cfg(not(feature = "web"))]
pub(crate) use no_web::{Web, confined_folder};
#[cfg(feature = "web")]
pub use web::Web;
