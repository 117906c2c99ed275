//! Cost of the firewall per packet: `firewall [--json] [--rounds N] [--uncounted] [ROW...]`.
//!
//! Packets of 64 bytes are forwarded in memory, 256 in a turn, with rules that let all of them pass: each row as
//! [`bench::firewall::case`] describes it. The cost is what the same router without a firewall takes less: slices of both
//! alternate, and the difference is taken within each pair. Times are processor time; cycles are those of the time stamp
//! counter. Instructions are counted by valgrind, of this program with the arguments `count ROW 4|6`. Pin it to a CPU.

use core::fmt::Write as _;
use core::time::Duration;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bench::callgrind;
use bench::clock::{Quartiles, cycles_per_ns, ns_each};
use bench::firewall::case::{AT_ONCE, CASES, Case, Forward};
use bench::frames::Family;
use bench::program::{self, Misused};

const USAGE: &str = "firewall [--json] [--rounds N] [--uncounted] [ROW...] | firewall count ROW 4|6";
/// Pairs of slices of each row.
const ROUNDS: usize = 21;
/// Length of a slice.
const SLICE: Duration = Duration::from_millis(8);
/// Turns between two looks at the clock.
const TURNS: usize = 16;
/// Turns whose instructions are counted.
const COUNTED: usize = 64;

fn main() -> ExitCode {
    program::run(USAGE, |args| match args {
        ["count", row, family] => {
            let mut router = named(row)?.router(program::read(family)?)?;
            count_these_turns(&mut *router);
            Ok(String::new())
        }
        _ => table(&Wanted::read(args)?),
    })
}

/// The only part that valgrind counts.
#[inline(never)]
fn count_these_turns(router: &mut dyn Forward) {
    router.forward(COUNTED, AT_ONCE);
}

fn named(name: &str) -> Result<&'static Case> {
    CASES.iter().find(|case| case.name == name).with_context(|| {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        format!("no row is called {name}: {}", names.join(", "))
    })
}

/// The command line.
struct Wanted {
    is_json: bool,
    is_counted: bool,
    rounds: usize,
    rows: Vec<&'static Case>,
}

impl Wanted {
    fn read(args: &[&str]) -> Result<Self> {
        let mut wanted = Self { is_json: false, is_counted: true, rounds: ROUNDS, rows: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--json" => wanted.is_json = true,
                "--uncounted" => wanted.is_counted = false,
                "--rounds" => wanted.rounds = program::read(args.next().context(Misused)?)?,
                option if option.starts_with('-') => return Err(Misused.into()),
                row => wanted.rows.push(named(row)?),
            }
        }
        if wanted.rows.is_empty() {
            wanted.rows = CASES.iter().collect();
        }
        Ok(wanted)
    }
}

/// A row of one family: its router, and what was measured of it.
struct Row {
    case: &'static Case,
    family: Family,
    router: Box<dyn Forward>,
    /// Nanoseconds of a packet.
    ns: Vec<f64>,
    /// Instructions added to those without a firewall.
    added: Vec<f64>,
    instructions: Option<f64>,
}

fn table(wanted: &Wanted) -> Result<String> {
    let mut text = String::new();
    for family in [Family::Ip4, Family::Ip6] {
        let rows = measure(wanted, family)?;
        let written = if wanted.is_json { write_json(&mut text, &rows) } else { write(&mut text, &rows) };
        written?;
    }
    Ok(text)
}

/// All rows of a family; the first is that without a firewall.
fn measure(wanted: &Wanted, family: Family) -> Result<Vec<Row>> {
    let plain = CASES.first().context("no rows")?;
    let others = wanted.rows.iter().copied().filter(|case| case.name != plain.name);
    let cases = core::iter::once(plain).chain(others.filter(|case| case.families.contains(&family)));
    let mut rows = cases.map(|case| Row::new(case, family)).collect::<Result<Vec<_>>>()?;
    for _ in 0..wanted.rounds {
        let [plain, others @ ..] = &mut rows[..] else { break };
        for row in others {
            let (without, with) = (plain.slice(), row.slice());
            row.added.push(with - without);
        }
    }
    if wanted.is_counted {
        for row in &mut rows {
            row.instructions = Some(count(row.case, family)?);
        }
    }
    Ok(rows)
}

impl Row {
    fn new(case: &'static Case, family: Family) -> Result<Self> {
        let router = case.router(family)?;
        Ok(Self { case, family, router, ns: Vec::new(), added: Vec::new(), instructions: None })
    }

    fn slice(&mut self) -> f64 {
        let Self { router, ns, .. } = self;
        let took = ns_each(SLICE, TURNS * AT_ONCE, || _ = router.forward(TURNS, AT_ONCE));
        ns.push(took);
        took
    }

    /// Cycles that it costs more.
    fn added(&self) -> Quartiles {
        let cycles = cycles_per_ns();
        Quartiles::of(self.added.iter().map(|ns| ns * cycles).collect())
    }
}

/// Instructions of a packet.
fn count(case: &Case, family: Family) -> Result<f64> {
    let family = if family == Family::Ip4 { "4" } else { "6" };
    let all = callgrind::count(&["count", case.name, family], "count_these_turns")?;
    Ok(all / (COUNTED * AT_ONCE) as f64)
}

fn write(text: &mut String, rows: &[Row]) -> core::fmt::Result {
    let plain = rows.first().and_then(|row| row.instructions);
    let family = rows.first().map_or("", |row| if row.family == Family::Ip4 { "IPv4" } else { "IPv6" });
    writeln!(text, "| {family} | instructions | more | ns | cycles more: median [quartiles] | goal | VPP |")?;
    writeln!(text, "|---|---|---|---|---|---|---|")?;
    for row in rows {
        let count = |count: Option<f64>| count.map_or_else(|| "–".into(), |count| format!("{count:.0}"));
        let more = row.instructions.zip(plain).map(|(with, without)| with - without);
        let Quartiles { low, median, high } = row.added();
        let added =
            if median.is_nan() { "–".into() } else { format!("{median:.0} [{low:.0} to {high:.0}]") };
        let ns = Quartiles::of(row.ns.clone()).median;
        let goal = row.case.goal.map_or_else(String::new, |goal| format!("{goal:.0}"));
        let (what, vpp) = (row.case.what, row.case.vpp.unwrap_or_default());
        let instructions = (count(row.instructions), count(more));
        writeln!(
            text,
            "| {what} | {} | {} | {ns:.1} | {added} | {goal} | {vpp} |",
            instructions.0, instructions.1
        )?;
    }
    writeln!(text)
}

fn write_json(text: &mut String, rows: &[Row]) -> core::fmt::Result {
    for row in rows {
        let Quartiles { low, median, high } = row.added();
        let number = |number: f64| if number.is_nan() { "null".into() } else { format!("{number:.2}") };
        let added = [low, median, high].map(number).join(",");
        let ns = number(Quartiles::of(row.ns.clone()).median);
        let (name, family) = (row.case.name, if row.family == Family::Ip4 { 4 } else { 6 });
        let count = number(row.instructions.unwrap_or(f64::NAN));
        writeln!(
            text,
            r#"{{"row":"{name}","family":{family},"instructions":{count},"ns":{ns},"cycles_more":[{added}]}}"#
        )?;
    }
    Ok(())
}
