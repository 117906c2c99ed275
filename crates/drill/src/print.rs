//! Values to text, which is read as the same values.

mod packet;
mod syscall;
mod code;

use core::fmt::{self, Display, Formatter};
use core::time::Duration;

use crate::script::{Action, Command, Definition, Event, Script, Setting, SettingValue, Time};

impl Display for Script {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.options.iter().try_for_each(|option| writeln!(f, "{option}"))?;
        self.init.iter().try_for_each(|command| writeln!(f, "{}", command.value))?;
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))?;
        self.cleanup.iter().try_for_each(|command| writeln!(f, "{}", command.value))
    }
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.name)?;
        match &self.value {
            None => Ok(()),
            Some(SettingValue::Word(word)) => write!(f, "={word}"),
            Some(SettingValue::Text(text)) => write!(f, "=\"{text}\""),
            Some(SettingValue::Define { name, value }) => write!(f, "={name}={value}"),
        }
    }
}

impl Display for Definition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Command(command) => write!(f, "`{command}`"),
        }
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.time.value.fmt(f)?;
        match &self.action {
            Action::Packet(packet) => write!(f, " {packet}"),
            Action::Syscall(call) => {
                if let Some(end) = call.end {
                    write!(f, "...{}", Seconds(end.value))?;
                }
                write!(f, " {call}")
            }
            Action::Command(command) => write!(f, " {}", command.value),
            Action::Code(code) => write!(f, " {code}"),
        }
    }
}

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Absolute(at) => Seconds(at).fmt(f),
            Self::Relative(at) => write!(f, "+{}", Seconds(at)),
            Self::Any => f.write_str("*"),
            Self::AbsoluteRange(from, to) => write!(f, "{}~{}", Seconds(from), Seconds(to)),
            Self::RelativeRange(from, to) => write!(f, "+{}~+{}", Seconds(from), Seconds(to)),
        }
    }
}

/// `0.25`
struct Seconds(Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.as_secs(), self.0.subsec_micros());
        match micros {
            0 => write!(f, "{seconds}"),
            _ => f.write_str(format!("{seconds}.{micros:06}").trim_end_matches('0')),
        }
    }
}

/// Items with something between them.
struct List<'a, T>(&'a [T], &'a str);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(index, item)| {
            f.write_str(if index > 0 { self.1 } else { "" })?;
            item.fmt(f)
        })
    }
}
