//! `ps`: unmodified programs.

use core::fmt::Write;
use core::time::Duration;
use std::collections::BTreeMap;

use super::table::Table;
use crate::api::{Program, ProgramCounters, Programs};
use crate::plural::counted;

/// Prints a line for each program, and what its user may have.
pub(crate) fn programs(all: &Programs) -> String {
    let head = ["PID", "UID", "SOCKETS", "QUEUED", "REQUESTS", "TRANSFERS", "SENT", "RECEIVED", "COMMAND"];
    let mut table = Table::new(&head, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for Program { pid, command, uid, sockets, queued_bytes, counters } in &all.programs {
        let ProgramCounters { requests, transfers, sent_bytes, received_bytes, .. } = counters;
        let numbers = [*sockets, *queued_bytes, *requests, *transfers, *sent_bytes, *received_bytes];
        let cells = [pid.to_string(), uid.to_string()].into_iter().chain(numbers.map(|n| n.to_string()));
        table.row(cells.chain([command.clone()]));
    }
    table.text() + &users(all)
}

/// Prints what each program has done since a reading, per second.
pub(crate) fn program_rates(before: &Programs, now: &Programs, passed: Duration) -> String {
    let known: BTreeMap<i32, &Program> =
        before.programs.iter().map(|program| (program.pid, program)).collect();
    let head = ["PID", "UID", "SOCKETS", "QUEUED", "CALLS/S", "SENT/S", "RECEIVED/S", "COMMAND"];
    let mut table = Table::new(&head, &[0, 1, 2, 3, 4, 5, 6]);
    for program in &now.programs {
        let since = known.get(&program.pid).map(|known| known.counters).unwrap_or_default();
        let rate = |read: fn(&ProgramCounters) -> u64| {
            let more = read(&program.counters).saturating_sub(read(&since));
            u128::from(more) * 1000 / passed.as_millis().max(1)
        };
        let rates = [rate(|c| c.requests + c.transfers), rate(|c| c.sent_bytes), rate(|c| c.received_bytes)];
        let Program { pid, command, uid, sockets, queued_bytes, .. } = program;
        let cells = [pid.to_string(), uid.to_string(), sockets.to_string(), queued_bytes.to_string()];
        table.row(cells.into_iter().chain(rates.map(|n| n.to_string())).chain([command.clone()]));
    }
    table.text() + &users(now)
}

/// Prints how many sockets each user has, and may have.
fn users(all: &Programs) -> String {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for program in &all.programs {
        *sums.entry(program.uid).or_default() += program.sockets;
    }
    let mut text = String::new();
    for (uid, sockets) in sums {
        let has = counted(sockets, "socket");
        let _ = writeln!(text, "user {uid}: {has} of {}", all.sockets_max);
    }
    if all.counters.refused > 0 {
        let _ = writeln!(text, "{} refused", counted(all.counters.refused, "request"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(pid: i32, requests: u64, sent_bytes: u64) -> Program {
        let counters = ProgramCounters { requests, sent_bytes, ..ProgramCounters::default() };
        Program { pid, command: "nginx".to_owned(), uid: 33, sockets: 2, queued_bytes: 0, counters }
    }

    #[test]
    fn rates_are_of_what_was_done_meanwhile() {
        let all = |programs| Programs { programs, sockets_max: 9, ..Programs::default() };
        let before = all(vec![program(7, 10, 1000)]);
        let now = all(vec![program(7, 30, 5000), program(8, 4, 0)]);
        let text = program_rates(&before, &now, Duration::from_secs(2));
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1][4..], ["10", "2000", "0", "nginx"]);
        assert_eq!(rows[2][4..], ["2", "0", "0", "nginx"]);
        assert_eq!(text.lines().last(), Some("user 33: 4 sockets of 9"));
    }
}
