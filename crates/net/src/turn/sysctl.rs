//! Variables of the stack, under the names that BSD has for them.
//!
//! Each CPU has all values, and is told of a change by a message. Whatever begins afterwards behaves so, and what listeners
//! accept too, unless their program has said otherwise; connections and sockets that are there stay as they are.

mod slot;
mod table;

use core::fmt;
use core::ops::RangeInclusive;

pub use self::slot::Unit;
pub use self::table::VARIABLES;

use self::slot::Slot;
use crate::host::pcb::{PortAlgorithm, PortRange};
use crate::host::tcp::settings::Settings;
use crate::host::udp;
use crate::out::ifq::DoorbellAt;
use crate::turn::cpu::Cpu;

/// The values of all variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sysctls {
    /// Settings of connections.
    pub tcp: Settings,
    /// Settings of sockets.
    pub udp: udp::Settings,
    /// Ports of programs that name none.
    pub ports: PortRange,
    /// Algorithm that chooses among them.
    pub port_algorithm: PortAlgorithm,
    /// Thresholds of a device's doorbell before the end of the turn.
    pub doorbell_at: DoorbellAt,
    /// Frames of bridges that rules are asked about.
    pub bridge_ipfw: BridgeIpfw,
    /// A router forwards broadcasts that are directed to a link of its own (RFC 2644).
    pub directed_broadcast: bool,
}

/// Frames of bridges that rules are asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeIpfw {
    /// Frames that are forwarded, ARP excepted.
    pub is_asked: bool,
    /// ARP, too.
    pub is_asked_of_arp: bool,
}

/// One variable.
pub struct Variable {
    /// As in `net.inet.tcp.delacktime`.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    range: RangeInclusive<i64>,
    slot: fn(&mut Sysctls) -> Slot<'_>,
}

/// Why a variable cannot have a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is always this.
    Fixed(String),
    /// It is a number in this range.
    Number(RangeInclusive<i64>),
    /// It is one of these words.
    Word(&'static [&'static str]),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(value) => write!(f, "is always {value} here"),
            Self::Number(range) => write!(f, "is a number from {} to {}", range.start(), range.end()),
            Self::Word(words) => write!(f, "is one of {}", words.join(", ")),
        }
    }
}

impl Variable {
    /// The variable of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        VARIABLES.iter().find(|variable| variable.name == name)
    }

    /// Its value, as a number.
    #[must_use]
    pub fn read(&self, sysctls: &Sysctls) -> i64 {
        (self.slot)(&mut sysctls.clone()).read()
    }

    /// A value as people write it.
    #[must_use]
    pub fn text(&self, value: i64) -> String {
        let word = usize::try_from(value).ok().and_then(|at| self.words().get(at));
        word.map_or_else(|| value.to_string(), |word| (*word).to_owned())
    }

    /// Parses a value as users write it.
    ///
    /// # Errors
    ///
    /// It cannot have this value.
    pub fn parse(&self, text: &str) -> Result<i64, Wrong> {
        let text = text.trim();
        let value = match self.words() {
            [] => text.parse().ok().filter(|value| self.range.contains(value)),
            words => words.iter().position(|word| *word == text).and_then(|at| i64::try_from(at).ok()),
        };
        match value {
            Some(value) if !self.is_fixed() || value == self.default() => Ok(value),
            _ if self.is_fixed() => Err(Wrong::Fixed(self.text(self.default()))),
            _ if self.words().is_empty() => Err(Wrong::Number(self.range.clone())),
            _ => Err(Wrong::Word(self.words())),
        }
    }

    /// Returns the default value.
    #[must_use]
    pub fn default(&self) -> i64 {
        self.read(&Sysctls::default())
    }

    /// The least and the greatest value.
    #[must_use]
    pub fn range(&self) -> &RangeInclusive<i64> {
        &self.range
    }

    /// Returns the unit of its value.
    #[must_use]
    pub fn unit(&self) -> Unit {
        (self.slot)(&mut Sysctls::default()).unit()
    }

    /// The words that are its values, if they are words.
    #[must_use]
    pub fn words(&self) -> &'static [&'static str] {
        (self.slot)(&mut Sysctls::default()).words()
    }

    /// Whether it cannot be changed.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        matches!((self.slot)(&mut Sysctls::default()), Slot::Fixed(_))
    }

    /// Gives it a value, which [`Self::parse`] has answered.
    pub fn write(&self, sysctls: &mut Sysctls, value: i64) {
        (self.slot)(sysctls).write(value);
    }

    /// Lets what behaves as `before` says, in this respect, behave as `now` says.
    pub(crate) fn follow(&self, settings: &mut Settings, before: &Sysctls, now: &Sysctls) {
        let mut own = Sysctls { tcp: *settings, ..*before };
        if self.read(&own) == self.read(before) {
            self.write(&mut own, self.read(now));
            *settings = own.tcp;
        }
    }
}

/// Gives a variable a value on this CPU, which [`Variable::parse`] has answered.
pub fn set(cpu: &mut Cpu, variable: &Variable, value: i64) {
    let before = *cpu.sysctls;
    variable.write(&mut cpu.sysctls, value);
    cpu.ifqs.ring_at(cpu.sysctls.doorbell_at);
    if let Some(pcbs) = &mut cpu.tcp {
        let now = &*cpu.sysctls;
        pcbs.listeners.each(|settings| variable.follow(settings, &before, now));
    }
}

#[cfg(test)]
mod tests;
