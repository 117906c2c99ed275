//! The section `[programs]`: unmodified programs that use this stack, and their limits.

use std::path::PathBuf;

use super::admin::mode;
use super::draft::socket;
use super::fields::Fields;
use super::problem::Report;

const KEYS: &[&str] = &["socket", "group", "mode", "users", "low_ports", "requests", "sockets"];
/// Owner and group.
const MODE: u32 = 0o660;
/// Where programs connect, if the file names no path.
pub const DEFAULT_PROGRAM_SOCKET: &str = "/run/pantala/app.sock";
/// Requests of a user at a time, and its sockets, if the file does not say.
const REQUESTS: u32 = 256;
const SOCKETS: u32 = 8192;
/// Each socket is two descriptors of the daemon at the most.
const SOCKETS_MAX: u32 = 1 << 20;
const REQUESTS_MAX: u32 = 65_536;

/// Unmodified programs on this stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// Where they connect.
    pub socket: PathBuf,
    /// The group of the socket, by name or number.
    pub group: Option<String>,
    /// The mode of the socket.
    pub mode: u32,
    /// Users that may, by name or number, besides root; empty: all that may connect to the socket.
    pub users: Vec<String>,
    /// Users that may bind ports below 1024, besides root.
    pub low_ports: Vec<String>,
    /// Requests of a user at a time.
    pub requests: u32,
    /// Sockets of a user at a time.
    pub sockets: u32,
}

pub(super) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> Option<Programs> {
    let Some(table) = top.section("programs") else {
        let span = top.key("programs")?;
        report.add(&span, "`programs` must be a section, [programs]", "it has keys of its own, like users");
        return None;
    };
    let fields = Fields::new(table.value, table.span, "in [programs]", KEYS, report);
    let any = |user: &str| Ok(user.to_owned());
    let mut users = |key| fields.parsed_list(key, any, report).into_iter().map(|at| at.value).collect();
    let (users, low_ports) = (users("users"), users("low_ports"));
    Some(Programs {
        socket: fields
            .parsed("socket", socket, report)
            .map_or_else(|| DEFAULT_PROGRAM_SOCKET.into(), |at| at.value),
        group: fields.text("group", report).map(|at| at.value),
        mode: fields.parsed("mode", mode, report).map_or(MODE, |at| at.value),
        users,
        low_ports,
        requests: fields.number("requests", 1..=REQUESTS_MAX, report).map_or(REQUESTS, |at| at.value),
        sockets: fields.number("sockets", 1..=SOCKETS_MAX, report).map_or(SOCKETS, |at| at.value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<Option<Programs>, String> {
        let text = format!("{text}\n[[interface]]\ndevice = \"tap:pt-x\"\n");
        let parsed = Config::parse("t", &text, &Machine { cpus: vec![0] });
        parsed.map(|config| config.programs).map_err(|why| why.to_string())
    }

    #[test]
    fn without_the_section_no_program_is_served() {
        assert_eq!(parse(""), Ok(None));
    }

    #[test]
    fn the_section_sets_users_and_limits() {
        let given =
            parse("[programs]\nusers = [\"www-data\", \"1000\"]\nlow_ports = \"www-data\"\nsockets = 9");
        let programs = given.unwrap().unwrap();
        assert_eq!(programs.users, ["www-data", "1000"]);
        assert_eq!(programs.low_ports, ["www-data"]);
        assert_eq!((programs.sockets, programs.requests, programs.mode), (9, REQUESTS, MODE));
        assert_eq!(programs.socket.to_str(), Some(DEFAULT_PROGRAM_SOCKET));
    }

    #[test]
    fn what_cannot_be_is_refused_where_it_stands() {
        for (text, says) in [
            ("programs = true", "`programs` must be a section"),
            ("[programs]\nsockets = 0", "too small"),
            ("[programs]\nmode = \"0777\"", "cannot be the mode"),
            ("[programs]\nsocket = \"\"", "cannot be the path"),
            ("[programs]\nuser = \"x\"", "unknown key"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
