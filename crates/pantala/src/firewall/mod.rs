//! The firewall on the control side: from a command or the configuration to rules that all CPUs have.
//!
//! | module | |
//! |---|---|
//! | [`section`] | `[firewall]` of the configuration file |
//! | [`requests`] | what the admin API asks: commands are carried out, rules and states listed |
//! | [`config`] | rules, tables, NAT and pipes as commands edit them, all or none |
//! | [`publish`] | compiles them and gives them to the netisrs |
//! | [`source`], [`text`], [`log`] | the configuration, commands and log records as text |
//! | [`unsolicited`] | a warning about rules that let in what nothing translated |
//!
//! Requests arrive by [`crate::api::firewall`]; the compiled rules are [`net::firewall::ruleset`].

pub(crate) mod config;
pub(crate) mod log;
pub(crate) mod publish;
pub(crate) mod requests;
pub(crate) mod section;
pub(crate) mod source;
pub(crate) mod text;
pub(crate) mod unsolicited;

pub(crate) use config::{Around, Batch, FirewallConfig, Refused};
