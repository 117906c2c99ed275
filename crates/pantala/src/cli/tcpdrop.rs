//! `tcpdrop`: ends connections.

use core::net::IpAddr;

use super::flags::{Flags, extra_word};
use super::{Failure, Session, sockets};
use crate::api::{TcpEnds, TcpState};
use diagnostic::did_you_mean;

pub(crate) const USAGE: &str = "\
pantala tcpdrop LADDR LPORT FADDR FPORT
       pantala tcpdrop [-l] -a
       pantala tcpdrop [-l] -s STATE
       pantala tcpdrop [-l] -p PROGRAM";

pub(crate) const HELP: &str = "  -a          all connections; listeners stay
  -s STATE    all connections in a state, as netstat -an prints it
  -p PROGRAM  those of an unmodified program, by its PID or its command
  -l          drop nothing: print the commands that would

The peer gets a reset; the application gets ECONNABORTED. A link-local address
has its interface behind it: fe80::1%lan

Examples:
  pantala tcpdrop 192.0.2.1 80 198.51.100.7 40000
  pantala tcpdrop -l -s FIN_WAIT_2
  pantala tcpdrop -p nginx";

const STATES: &[TcpState] = &[
    TcpState::Closed,
    TcpState::SynSent,
    TcpState::SynReceived,
    TcpState::Established,
    TcpState::CloseWait,
    TcpState::FinWait1,
    TcpState::FinWait2,
    TcpState::Closing,
    TcpState::LastAck,
    TcpState::TimeWait,
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tcpdrop {
    One(TcpEnds),
    Many { only_say: bool, state: Option<TcpState>, program: Option<String> },
}

impl Tcpdrop {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("tcpdrop", words, "al", "sp")?;
        let state = flags.value('s').map(state).transpose()?;
        let program = flags.value('p').map(str::to_owned);
        if flags.has('a') || state.is_some() || program.is_some() {
            flags.no_operands("tcpdrop")?;
            return Ok(Self::Many { only_say: flags.has('l'), state, program });
        }
        if flags.has('l') {
            return Err(Failure::usage("tcpdrop: -l needs -a, -s STATE or -p PROGRAM"));
        }
        match flags.operands.as_slice() {
            [local, local_port, foreign, foreign_port] => {
                let ((local, of_local), (foreign, of_foreign)) = (address(local)?, address(foreign)?);
                let (local_port, foreign_port) = (port(local_port)?, port(foreign_port)?);
                let interface = of_foreign.or(of_local);
                Ok(Self::One(TcpEnds { local, local_port, foreign, foreign_port, interface }))
            }
            [_, _, _, _, extra, ..] => Err(extra_word("tcpdrop", extra)),
            _ => Err(Failure::usage(
                "tcpdrop: name both ends: LADDR LPORT FADDR FPORT (see pantala tcpdrop --help)",
            )),
        }
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::One(ends) => {
                let () = session.client.post("/v1/tcp/drop", &ends)?;
                session.done(&format!("{}: dropped\n", words(&ends)))
            }
            Self::Many { only_say, state, program } => many(only_say, state, program.as_deref(), session),
        }
    }
}

/// Connections that ended by themselves meanwhile count as dropped.
fn many(
    only_say: bool,
    state: Option<TcpState>,
    program: Option<&str>,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let owners = sockets::owners(session);
    let is_meant = |ends: &TcpEnds| {
        program.is_none_or(|named| {
            owners.of(ends).is_some_and(|owner| owner.command == named || owner.pid.to_string() == named)
        })
    };
    let mut all = Vec::new();
    sockets::connections(false, session, |rows, _| {
        let meant = rows.into_iter().filter(|row| state.is_none_or(|state| row.state == state));
        let meant = meant.filter(|row| is_meant(&row.ends));
        // What has ended, and is held by its program, cannot be ended once more.
        all.extend(meant.filter(|row| row.state != TcpState::Closed).map(|row| row.ends));
        Ok(())
    })?;
    if only_say {
        return session
            .show(&all, |all| all.iter().map(|ends| format!("pantala tcpdrop {}\n", words(ends))).collect());
    }
    let mut dropped = Vec::new();
    for ends in all {
        if session.client.post::<()>("/v1/tcp/drop", &ends).is_ok() {
            dropped.push(ends);
        }
    }
    session
        .show(&dropped, |dropped| dropped.iter().map(|ends| format!("{}: dropped\n", words(ends))).collect())
}

/// As they are given on the command line.
fn words(ends: &TcpEnds) -> String {
    let of = |address: IpAddr| match (&ends.interface, address) {
        (Some(interface), IpAddr::V6(v6)) if v6.is_unicast_link_local() => format!("{address}%{interface}"),
        (Some(interface), IpAddr::V4(v4)) if v4.is_link_local() => format!("{address}%{interface}"),
        _ => address.to_string(),
    };
    format!("{} {} {} {}", of(ends.local), ends.local_port, of(ends.foreign), ends.foreign_port)
}

fn address(text: &str) -> Result<(IpAddr, Option<String>), Failure> {
    let (address, interface) = match text.split_once('%') {
        Some((address, interface)) => (address, Some(interface.to_owned())),
        None => (text, None),
    };
    let wrong = |_| Failure::usage(format!("tcpdrop: `{text}` is not an address"));
    Ok((address.parse().map_err(wrong)?, interface))
}

fn port(text: &str) -> Result<u16, Failure> {
    text.parse().map_err(|_| Failure::usage(format!("tcpdrop: `{text}` is not a port")))
}

fn state(text: &str) -> Result<TcpState, Failure> {
    let found = STATES.iter().find(|state| state.word().eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        let known: Vec<String> = STATES.iter().map(|state| state.word().to_lowercase()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        Failure::usage(format!("tcpdrop: `{text}` is no state; {}", did_you_mean(text, &known)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Tcpdrop, Failure> {
        Tcpdrop::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn both_ends_are_understood_in_both_families() {
        for (line, interface) in [
            ("192.0.2.1 80 192.0.2.9 4000", None),
            ("2001:db8::1 80 2001:db8::9 4000", None),
            ("fe80::1 80 fe80::9%lan 4000", Some("lan")),
        ] {
            let Tcpdrop::One(ends) = read(line).unwrap() else { panic!("{line}") };
            assert_eq!((ends.local_port, ends.foreign_port), (80, 4000), "{line}");
            assert_eq!(ends.interface.as_deref(), interface);
        }
        assert_eq!(read("-la").unwrap(), Tcpdrop::Many { only_say: true, state: None, program: None });
        let state = Some(TcpState::FinWait2);
        let waits = Tcpdrop::Many { only_say: false, state, program: None };
        assert_eq!(read("-s fin_wait_2").unwrap(), waits);
        let program = Some("nginx".to_owned());
        assert_eq!(read("-p nginx").unwrap(), Tcpdrop::Many { only_say: false, state: None, program });
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("", "name both ends"),
            ("192.0.2.1 80", "name both ends"),
            ("192.0.2.1 80 192.0.2.9 http", "`http` is not a port"),
            ("here 80 192.0.2.9 1", "`here` is not an address"),
            ("192.0.2.1 80 192.0.2.9 1 2", "one word too many"),
            ("-l", "-l needs -a"),
            ("-s ESTAB", "no state; known are"),
            ("-s FIN_WAIT2", "did you mean `fin_wait_2`?"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
