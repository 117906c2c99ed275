//! The judgement on a run: what grew, what went wrong.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use serde::Serialize;

use super::chores::Done;
use super::loads::{Account, Cause};
use super::sample::{Process, Sample, Series};

/// Memory may be so much more at the end of the second half than at its beginning: allocators keep some.
const GROWTH_KIB: f64 = 4096.0;

/// Everything that was found.
#[derive(Serialize)]
pub struct Report {
    name: &'static str,
    seconds: u64,
    /// The load was not ended early.
    is_whole: bool,
    packets: u64,
    checks: Vec<Check>,
    exchanges: Vec<Account>,
    chores: Vec<Done>,
}

/// One thing that must be flat, back, or nought.
#[derive(Serialize)]
struct Check {
    what: String,
    before: Option<f64>,
    most: Option<f64>,
    after: f64,
    needs: String,
    is_well: bool,
}

impl Report {
    pub fn passed(&self) -> bool {
        self.is_whole && self.checks.iter().all(|check| check.is_well)
    }
}

pub fn judge(
    name: &'static str,
    series: &Series,
    exchanges: &[Account],
    chores: &[Done],
    lasts: Duration,
    is_whole: bool,
) -> Report {
    let end = series.settled.as_ref().unwrap_or_else(|| series.last());
    let mut checks = Vec::new();
    for (who, of) in [("router", router as fn(&Sample) -> &Process), ("program with a stack", library)] {
        checks.extend(process(series, end, who, of));
    }
    let back = |what: &str, of: fn(&Sample) -> f64| Check {
        what: what.to_owned(),
        before: Some(of(series.before())),
        most: series.all().iter().map(of).reduce(f64::max),
        after: of(end),
        needs: "0".to_owned(),
        is_well: of(end) == 0.0,
    };
    checks.push(back("packet buffers in use", |sample| number(sample.buffers_used.unsigned_abs())));
    checks.push(back("connections", |sample| number(sample.connections)));
    checks.push(back("states", |sample| number(sample.states)));
    checks.push(back("bindings of NAT", |sample| number(sample.bindings)));
    checks
        .push(back("packets that have begun and not ended", |sample| number(sample.missing.unsigned_abs())));
    checks.push(as_before(series, end, "interfaces", |sample| sample.interfaces));
    checks.push(as_before(series, end, "routes", |sample| sample.routes));
    checks.extend(went_wrong(exchanges, chores));
    Report {
        name,
        seconds: series.last().at.as_secs().min(lasts.as_secs()),
        is_whole,
        packets: end.packets - series.before().packets,
        checks,
        exchanges: exchanges.to_vec(),
        chores: chores.to_vec(),
    }
}

/// As many as before the load.
fn as_before(series: &Series, end: &Sample, what: &str, of: fn(&Sample) -> u64) -> Check {
    let before = of(series.before());
    Check {
        what: what.to_owned(),
        before: Some(number(before)),
        most: series.all().iter().map(|sample| number(of(sample))).reduce(f64::max),
        after: number(of(end)),
        needs: before.to_string(),
        is_well: of(end) == before,
    }
}

fn router(sample: &Sample) -> &Process {
    &sample.router
}

fn library(sample: &Sample) -> &Process {
    &sample.library
}

/// Memory is flat, descriptors and threads are back.
fn process(series: &Series, end: &Sample, who: &str, of: fn(&Sample) -> &Process) -> Vec<Check> {
    let check = |what: &str, value: fn(&Process) -> u64, needs: String, is_well: bool| Check {
        what: format!("{who}: {what}"),
        before: Some(number(value(of(series.before())))),
        most: series.all().iter().map(|sample| number(value(of(sample)))).reduce(f64::max),
        after: number(value(of(end))),
        needs,
        is_well,
    };
    let half = &series.all()[series.len() / 2..];
    let points: Vec<(f64, f64)> =
        half.iter().map(|sample| (sample.at.as_secs_f64(), number(of(sample).rss_kib))).collect();
    let (slope, last) = (slope(&points), points.last().map_or(0.0, |point| point.1));
    let lasted = half.last().zip(half.first()).map_or(0.0, |(b, a)| (b.at - a.at).as_secs_f64());
    let settled = number(of(end).rss_kib);
    let descriptors = of(series.before()).descriptors;
    let threads = of(series.before()).threads;
    vec![
        check(
            "RSS, KiB",
            |p| p.rss_kib,
            "not above the load's last".to_owned(),
            settled <= last + GROWTH_KIB,
        ),
        Check {
            what: format!("{who}: slope of RSS in the second half, KiB a minute"),
            before: None,
            most: None,
            after: (slope * 600.0).round() / 10.0,
            needs: format!("{GROWTH_KIB} KiB in all at the most"),
            is_well: slope * lasted <= GROWTH_KIB,
        },
        check("descriptors", |p| p.descriptors, format!("{descriptors}"), of(end).descriptors <= descriptors),
        check("threads", |p| p.threads, format!("{threads}"), of(end).threads <= threads),
    ]
}

/// Exchanges bring what was sent, each kind had some that went well, and chores that may not fail did not.
fn went_wrong(exchanges: &[Account], chores: &[Done]) -> Vec<Check> {
    let nought = |what: &str, count: usize| Check {
        what: what.to_owned(),
        before: None,
        most: None,
        after: number(count as u64),
        needs: "0".to_owned(),
        is_well: count == 0,
    };
    let wrong: u64 = exchanges.iter().map(|account| account.wrong).sum();
    let failed: u64 = chores.iter().filter(|done| !done.may_fail).map(|done| done.failed).sum();
    let starved = exchanges.iter().filter(|account| account.well == 0).count();
    let idle = chores.iter().filter(|done| done.times == done.failed).count();
    vec![
        nought(
            "exchanges with wrong bytes, or that rules deny",
            usize::try_from(wrong).unwrap_or(usize::MAX),
        ),
        nought("kinds of exchanges of which none went well", starved),
        nought("changes that failed", usize::try_from(failed).unwrap_or(usize::MAX)),
        nought("kinds of changes of which none was done", idle),
    ]
}

/// All that broke, by cause: none of them is a defect by itself, for connections are dropped, links flap and the machine is busy.
fn causes(exchanges: &[Account]) -> BTreeMap<Cause, u64> {
    let mut sums = BTreeMap::new();
    for (cause, count) in exchanges.iter().flat_map(|account| &account.causes) {
        *sums.entry(*cause).or_default() += count;
    }
    sums
}

/// Returns the slope of a line through points, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = number(points.len() as u64).max(1.0);
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let square: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if square == 0.0 { 0.0 } else { both / square }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn number(value: u64) -> f64 {
    value as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, packets) = (number(self.seconds) / 60.0, self.packets);
        let early = if self.is_whole { "" } else { ", ended early" };
        writeln!(f, "\n{}: {minutes:.1} minutes{early}, {packets} packets\n", self.name)?;
        writeln!(f, "{:60}  {:>9}  {:>9}  {:>9}  needs", "what", "before", "most", "after")?;
        for check in &self.checks {
            let Check { what, before, most, after, needs, is_well } = check;
            let cell = |value: &Option<f64>| value.map_or_else(String::new, |value| value.to_string());
            let failed = if *is_well { "" } else { "  FAILED" };
            writeln!(f, "{what:60}  {:>9}  {:>9}  {after:>9}  {needs}{failed}", cell(before), cell(most))?;
        }
        writeln!(f, "\n{:60}  {:>9}  {:>9}  {:>9}", "exchanges", "well", "broken", "wrong")?;
        for Account { name, well, broken, wrong, why, .. } in &self.exchanges {
            writeln!(f, "{name:60}  {well:>9}  {broken:>9}  {wrong:>9}")?;
            for (how, count) in why {
                writeln!(f, "    {count} × {how}")?;
            }
        }
        writeln!(f, "\n{:60}  {:>9}", "broken exchanges by cause", "times")?;
        for (cause, count) in causes(&self.exchanges) {
            writeln!(f, "{:60}  {count:>9}", cause.words())?;
        }
        writeln!(f, "\n{:60}  {:>9}  {:>9}", "changes", "done", "failed")?;
        for Done { name, times, failed, errors, may_fail } in &self.chores {
            writeln!(f, "{name:60}  {times:>9}  {failed:>9}")?;
            for error in errors.iter().filter(|_| !may_fail).take(3) {
                writeln!(f, "    {}", error.trim().replace('\n', "\n    "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rss: impl Fn(u64) -> u64) -> Series {
        let at = |seconds: u64| {
            let process = Process { rss_kib: rss(seconds), descriptors: 20, threads: 5 };
            Sample {
                at: Duration::from_secs(seconds),
                router: process.clone(),
                library: process,
                packets: seconds * 1000,
                ..Sample::default()
            }
        };
        let mut series = Series::new(at(0));
        (1..=720).for_each(|step| series.push(at(step * 5)));
        series.settled = Some(at(3600));
        series
    }

    fn passed(series: &Series) -> bool {
        judge("soak", series, &[], &[], Duration::from_secs(3600), true).passed()
    }

    #[test]
    fn memory_that_wanders_is_flat_and_memory_that_grows_is_not() {
        assert!(passed(&series(|at| 100_000 + at % 35 * 50)), "it goes up and down");
        assert!(passed(&series(|at| 100_000 + at.min(600) * 100)), "it grows at first");
        assert!(!passed(&series(|at| 100_000 + at * 3)), "3 KiB a second");
    }

    #[test]
    fn what_is_left_fails_by_its_name() {
        for (name, leave) in [
            ("connections", (|sample| sample.connections = 1) as fn(&mut Sample)),
            ("router: descriptors", |sample| sample.router.descriptors = 21),
            ("router: threads", |sample| sample.router.threads = 6),
            ("packet buffers in use", |sample| sample.buffers_used = -1),
            ("states", |sample| sample.states = 1),
            ("bindings of NAT", |sample| sample.bindings = 1),
            ("packets that have begun and not ended", |sample| sample.missing = -1),
            ("interfaces", |sample| sample.interfaces = 1),
            ("routes", |sample| sample.routes = 1),
        ] {
            let mut series = series(|_| 100_000);
            leave(series.settled.as_mut().unwrap());
            let report = judge("soak", &series, &[], &[], Duration::from_secs(3600), true);
            let failed: Vec<_> =
                report.checks.iter().filter(|check| !check.is_well).map(|check| &*check.what).collect();
            assert_eq!(failed, [name]);
        }
    }

    #[test]
    fn wrong_bytes_and_a_kind_that_starved_fail() {
        let series = series(|_| 100_000);
        let account =
            |well, wrong| Account { name: "echo".to_owned(), well, broken: 3, wrong, ..Account::default() };
        let judged =
            |account| judge("soak", &series, &[account], &[], Duration::from_secs(3600), true).passed();
        assert!(judged(account(5, 0)));
        assert!(!judged(account(5, 1)) && !judged(account(0, 0)));
    }
}
