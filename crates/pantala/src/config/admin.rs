//! The section `[admin]`: users of the control socket; and the user of the stack.

use std::path::PathBuf;

use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use diagnostic::did_you_mean;

const KEYS: &[&str] = &["group", "mode", "read_socket", "read_group", "read_mode"];
/// Owner and group.
const MODE: u32 = 0o660;

/// Users of the control sockets. Their paths are `socket`, and `read_socket` here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// The group of the socket, by its name or number; the one that the stack runs under if `None`.
    pub group: Option<String>,
    /// The mode of the socket.
    pub mode: u32,
    /// A second socket, at which everything is shown and nothing is changed.
    pub read_socket: Option<PathBuf>,
    /// Its group.
    pub read_group: Option<String>,
    /// Its mode.
    pub read_mode: u32,
}

impl Default for Admin {
    fn default() -> Self {
        Self { group: None, mode: MODE, read_socket: None, read_group: None, read_mode: MODE }
    }
}

/// The seccomp filter's action on other system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seccomp {
    /// The call fails with `EPERM`, and the kernel's log names it.
    #[default]
    Refuse,
    /// The process ends.
    Kill,
    /// The call is made, and the kernel's log names it.
    Log,
    /// Nothing is looked at.
    Off,
}

pub(super) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> Admin {
    let Some(table) = top.section("admin") else {
        if let Some(span) = top.key("admin") {
            report.add(
                &span,
                "`admin` must be a section, [admin]",
                "it has keys of its own, like read_socket",
            );
        }
        return Admin::default();
    };
    let fields = Fields::new(table.value, table.span, "in [admin]", KEYS, report);
    Admin {
        group: value(fields.text("group", report)),
        mode: value(fields.parsed("mode", mode, report)).unwrap_or(MODE),
        read_socket: value(fields.parsed("read_socket", super::draft::socket, report)),
        read_group: value(fields.text("read_group", report)),
        read_mode: value(fields.parsed("read_mode", mode, report)).unwrap_or(MODE),
    }
}

fn value<T>(at: Option<At<T>>) -> Option<T> {
    at.map(|at| at.value)
}

pub(super) fn mode(text: &str) -> Result<u32, Wrong> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600);
    mode.ok_or_else(|| {
        let help = "use \"0600\" for the owner, \"0660\" for the group, too, or \"0666\" for everybody";
        Wrong::new(format!("`{text}` cannot be the mode of a socket"), help)
    })
}

pub(super) fn seccomp(word: &str) -> Result<Seccomp, Wrong> {
    match word {
        "refuse" => Ok(Seccomp::Refuse),
        "kill" => Ok(Seccomp::Kill),
        "log" => Ok(Seccomp::Log),
        "off" => Ok(Seccomp::Off),
        other => {
            let known = ["refuse", "kill", "log", "off"];
            Err(Wrong::new(format!("unknown seccomp `{other}`"), did_you_mean(other, &known)))
        }
    }
}
