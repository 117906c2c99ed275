//! Cost of the firewall per forwarded packet.

pub mod case;
pub mod connections;
pub mod flows;
pub mod host;
pub mod locked;
pub mod rules;
pub mod segments;
