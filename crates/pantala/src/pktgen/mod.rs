//! `pantala pktgen`: a packet generator, and the receiver that says what became of its packets.
//!
//! | module | what it is |
//! |---|---|
//! | [`args`], [`grammar`], [`plan`] | the command line, its small grammars, and whether it fits together |
//! | [`flows`], [`sizes`], [`rate`] | which frame is next, and when: functions of a seed and of time |
//! | [`frame`], [`payload`] | the bytes of a frame, and what is measured with |
//! | [`measure`], [`timeline`] | what arrived: loss, duplicates, reordering, latency; when it was lost |
//! | [`station`] | asking for the gateway, and answering for our addresses |
//! | [`port`], [`worker`], [`rig`], [`mod@run`] | devices, a thread for each ring, and the course of a test |
//! | [`summary`], [`show`] | what is said about it |
//! | [`rfc2544`] | `pantala rfc2544`: many tests, one after the other |
//! | [`monitor`] | the same receiver inside of a running stack |
//!
//! A test has a process of its own. It opens devices as the daemon does and runs their rings with the same drivers.

mod args;
mod flows;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_bodies;
mod measure;
pub(crate) mod monitor;
mod payload;
mod plan;
mod port;
mod random;
mod rate;
pub(crate) mod rfc2544;
mod rig;
mod run;
mod show;
mod sizes;
mod station;
mod summary;
mod timeline;
mod grammar;
mod worker;

pub(crate) use args::{Args, HELP};
pub(crate) use measure::BANDS;
pub(crate) use run::run;
pub(crate) use show::percentiles;
