//! A script: options, commands, events.

use core::ops::{Deref, DerefMut};
use core::time::Duration;

use crate::code::Code;
use crate::packet::Packet;
use crate::syscall::Syscall;

/// A place in a script's text.
///
/// Places do not distinguish values: two scripts that differ in nothing but where things stand are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pos {
    /// The line, from 1; 0 for what was not read from a text.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl PartialEq for Pos {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Pos {}

/// A value, and where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At<T> {
    /// Where it begins.
    pub pos: Pos,
    /// The value.
    pub value: T,
}

impl<T> At<T> {
    /// `value` at this place.
    pub const fn new(pos: Pos, value: T) -> Self {
        Self { pos, value }
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for At<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// A script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// `--name=value`, in the order of the text; of several with a name, the last counts.
    pub options: Vec<Setting>,
    /// A command before the first event.
    pub init: Option<At<Command>>,
    /// The events, in the order of the text; at least one.
    pub events: Vec<Event>,
    /// A command behind the last event.
    pub cleanup: Option<At<Command>>,
}

impl Script {
    /// The value of an option; `None` if it is not given, or has no value.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&SettingValue> {
        self.options.iter().rev().find(|setting| setting.name == name)?.value.as_ref()
    }

    /// The value of an option that is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        match self.option(name)? {
            SettingValue::Word(word) => word.parse().ok(),
            SettingValue::Text(_) | SettingValue::Define { .. } => None,
        }
    }

    /// `--ip_version`.
    #[must_use]
    pub fn ip_version(&self) -> Option<IpVersion> {
        match self.option("ip_version")? {
            SettingValue::Word(word) => IpVersion::find(word),
            SettingValue::Text(_) | SettingValue::Define { .. } => None,
        }
    }

    /// `--tolerance_usecs`: how far from its time something may happen.
    #[must_use]
    pub fn tolerance(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.number("tolerance_usecs")?.into()))
    }

    /// Returns the value of `--define=NAME=value`.
    #[must_use]
    pub fn definition(&self, of: &str) -> Option<&Definition> {
        self.options.iter().rev().find_map(|setting| match &setting.value {
            Some(SettingValue::Define { name, value }) if name == of => Some(value),
            _ => None,
        })
    }
}

/// An option of a script: `--tolerance_usecs=10000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Where it stands.
    pub pos: Pos,
    /// Its name, without dashes.
    pub name: &'static str,
    /// Its value.
    pub value: Option<SettingValue>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// A word, a number, an address.
    Word(String),
    /// A quoted text.
    Text(String),
    /// `NAME=value`, of `--define`.
    Define {
        /// The name.
        name: String,
        /// Its value.
        value: Definition,
    },
}

/// The value of a `--define` name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A word.
    Word(String),
    /// A string.
    Text(String),
    /// A command.
    Command(String),
}

/// The addresses that a script's sockets have, and its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    Ipv4,
    /// IPv4 packets, and IPv6 sockets with mapped addresses (RFC 4291 §2.5.5.2).
    Ipv4MappedIpv6,
    /// IPv6.
    Ipv6,
}

impl IpVersion {
    /// All, with their names.
    pub const NAMES: [(&'static str, Self); 3] =
        [("ipv4", Self::Ipv4), ("ipv4-mapped-ipv6", Self::Ipv4MappedIpv6), ("ipv6", Self::Ipv6)];

    fn find(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, version)| *version)
    }
}

/// A command for a shell, as it stands between back-quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command(pub String);

/// Something that is done, or must happen, at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: At<Time>,
    /// The action.
    pub action: Action,
}

/// When an event is. Times have microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// `0.1`: counted from the beginning of the script.
    Absolute(Duration),
    /// `+0.1`: counted from the event before.
    Relative(Duration),
    /// `*`: whenever; for packets that the stack sends.
    Any,
    /// `0.1~0.2`: between two times of the script; for packets that the stack sends.
    AbsoluteRange(Duration, Duration),
    /// `+0.1~+0.2`: between two times counted from the event before; for packets that the stack sends.
    RelativeRange(Duration, Duration),
}

/// The subject of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A packet that is given to the stack, or must be sent by it.
    Packet(Packet),
    /// A call that a program makes, and what it must return.
    Syscall(Syscall),
    /// A command that must succeed.
    Command(At<Command>),
    /// Assertions about a connection.
    Code(Code),
}
