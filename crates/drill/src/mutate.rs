//! Mutants: scripts that differ from one in a single field.
//!
//! An interpreter is as strict as it should be if it accepts a script and refuses each mutant that demands something
//! else ([`Role::Demand`]). A mutant that only does something else to the stack ([`Role::Stimulus`]) may well be accepted.

mod time;
mod packet;
mod option;
mod call;
mod code;
mod command;

use core::fmt;
use core::time::Duration;

use crate::packet::Direction;
use crate::script::{Action, Event, Pos, Script};

/// A script that differs from another in one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The script.
    pub script: Script,
    /// Which of its events differs, from 0.
    pub event: usize,
    /// Where the field stands in the text of the original.
    pub pos: Pos,
    /// Which field it is.
    pub field: Field,
    /// Whether the script demands it.
    pub role: Role,
    /// The change: `ack 1 → 2`.
    pub change: String,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.pos.line, self.pos.column, self.field, self.change)
    }
}

/// Whether a field is done to the stack, or demanded of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The stack must do this, and nothing else.
    Demand,
    /// This is done to the stack.
    Stimulus,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// The field in which a mutant differs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Field {
            $($(#[$doc])* $variant,)*
        }

        impl fmt::Display for Field {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $name,)*
                })
            }
        }
    };
}

fields! {
    /// When something happens.
    Time "time",
    /// A field of the IP header.
    Ip "IP header",
    /// A port.
    Port "port",
    /// A flag of TCP.
    Flags "flags",
    /// The sequence number.
    Seq "sequence number",
    /// Bytes of data.
    Len "length",
    /// The acknowledgment number.
    Ack "acknowledgment number",
    /// The window.
    Window "window",
    /// The urgent pointer.
    Urgent "urgent pointer",
    /// A TCP option.
    TcpOption "option",
    /// A field of an ICMP message.
    Icmp "ICMP message",
    /// An argument of a system call.
    Argument "argument",
    /// Return value of a system call.
    Result "return value",
    /// The error of a system call.
    Errno "errno",
    /// The state of a connection.
    State "state",
    /// A comparison in code.
    Comparison "comparison",
    /// A number in a command.
    Command "command",
}

/// All mutants of a script, one after the other, in the order of its text.
pub fn mutants(script: &Script) -> impl Iterator<Item = Mutant> + '_ {
    let rules = Rules::of(script);
    script.events.iter().enumerate().flat_map(move |(index, event)| {
        changes(event, &rules).into_iter().map(move |change| {
            let mut script = script.clone();
            if let Some(event) = script.events.get_mut(index) {
                *event = change.event;
            }
            let Change { pos, field, role, text, .. } = change;
            Mutant { script, event: index, pos, field, role, change: text }
        })
    })
}

/// The script's options on what is compared.
struct Rules {
    /// By how much a time has to differ to be another.
    shift: Duration,
    /// By how much a time stamp of the stack has to differ to be another; `None` if they are not compared.
    stamp_shift: Option<u32>,
}

impl Rules {
    fn of(script: &Script) -> Self {
        /// Tolerance of packetdrill by default.
        const TOLERANCE: Duration = Duration::from_micros(4000);
        let shift = script.tolerance().unwrap_or(TOLERANCE) * 2 + Duration::from_millis(1);
        let tick_usecs = u128::from(script.number("tcp_ts_tick_usecs").unwrap_or(0));
        let ticks = shift.as_micros().checked_div(tick_usecs).map(|ticks| ticks + 1);
        Self { shift, stamp_shift: ticks.map(|ticks| u32::try_from(ticks).unwrap_or(u32::MAX)) }
    }
}

/// An event that takes the place of another.
struct Change {
    pos: Pos,
    field: Field,
    role: Role,
    text: String,
    event: Event,
}

/// Where changes of one event are gathered.
struct Changes<'a> {
    event: &'a Event,
    role: Role,
    list: Vec<Change>,
}

impl Changes<'_> {
    /// One more: `edit` makes it of the event.
    fn add(&mut self, pos: Pos, field: Field, text: String, edit: impl FnOnce(&mut Event)) {
        let mut event = self.event.clone();
        edit(&mut event);
        self.list.push(Change { pos, field, role: self.role, text, event });
    }
}

fn changes(event: &Event, rules: &Rules) -> Vec<Change> {
    let role = match &event.action {
        Action::Packet(packet) if packet.direction == Direction::Outbound => Role::Demand,
        Action::Packet(_) | Action::Syscall(_) | Action::Command(_) => Role::Stimulus,
        Action::Code(_) => Role::Demand,
    };
    let mut changes = Changes { event, role, list: Vec::new() };
    time::time(&mut changes, rules);
    match &event.action {
        Action::Packet(packet) => packet::packet(&mut changes, packet, rules),
        Action::Syscall(syscall) => call::call(&mut changes, syscall, rules),
        Action::Command(command) => command::command(&mut changes, command),
        Action::Code(code) => code::code(&mut changes, code),
    }
    changes.list
}

/// One more and one less, round and round.
fn around<T>(value: T, next: impl Fn(T) -> T, before: impl Fn(T) -> T) -> [T; 2]
where
    T: Copy,
{
    [next(value), before(value)]
}

fn around32(value: u32) -> [u32; 2] {
    around(value, |value| value.wrapping_add(1), |value| value.wrapping_sub(1))
}

fn around16(value: u16) -> [u16; 2] {
    around(value, |value| value.wrapping_add(1), |value| value.wrapping_sub(1))
}

#[cfg(test)]
mod tests;
