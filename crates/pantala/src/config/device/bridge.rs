//! `bridge:[PORT[,PORT…]]`.

use core::fmt;

use net::bridge::PORTS_MAX;

use crate::config::problem::Wrong;

const GRAMMAR: &str = "write bridge:[INTERFACE[,INTERFACE…]], as in bridge:lan1,lan2";

/// Frames of other interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bridge {
    /// The names of its ports.
    pub ports: Vec<String>,
}

impl Bridge {
    /// The names behind the colon. A bridge may wait for its ports.
    pub(crate) fn names(list: &str) -> Vec<String> {
        if list.is_empty() { Vec::new() } else { list.split(',').map(str::to_owned).collect() }
    }

    pub(super) fn parse(rest: &str) -> Result<Self, Wrong> {
        let ports = Self::names(rest);
        if ports.iter().any(String::is_empty) {
            return Err(Wrong::new(format!("`bridge:{rest}` has a port without a name"), GRAMMAR));
        }
        if let Some(twice) = ports.iter().enumerate().find(|(at, port)| ports[..*at].contains(port)) {
            return Err(Wrong::new(format!("`{}` is a port twice", twice.1), GRAMMAR));
        }
        if ports.len() > PORTS_MAX {
            return Err(Wrong::new(
                format!("{} ports are too many", ports.len()),
                format!("use {PORTS_MAX} or less"),
            ));
        }
        Ok(Self { ports })
    }
}

impl fmt::Display for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bridge:{}", self.ports.join(","))
    }
}
