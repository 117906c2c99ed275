//! What the firewall costs a packet that is forwarded.

pub mod case;
pub mod flows;
pub mod rules;
