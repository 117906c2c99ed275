//! Instructions per forwarded packet, counted by valgrind: the same number on a laptop and on a busy server.
//!
//! Each case runs with two lengths, and the difference is divided: what happens once falls out.

mod profile;

use core::num::NonZero;
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use crate::args::Args;
use crate::checks::skipped;
use crate::report::Row;
use crate::run::{self, cargo, root};
use crate::tally::Tally;

/// Workloads: `indirect` is IPv4 with a queue between driver and stack; `wire` has no stack between source and sink, so
/// it is what the harness itself costs.
const KINDS: &[&str] = &["ip4", "ip6", "indirect", "wire"];
/// Packets in one turn.
const AT_ONCE: &[usize] = &[1, 32, 256];
/// Routers of so many CPUs, all packets counted together: `hash` has rings that match the CPUs and devices that compute
/// our hash, `match` devices that do not, in `cross` all that a CPU receives is another's. Packets in a turn are [`MANY`].
const SEVERAL: &[&str] = &["hash1", "hash2", "hash8", "hash64", "match2", "cross2"];
const MANY: usize = 256;
/// Two hosts of so many CPUs each that talk over TCP, one answer counted at both ends: connections that end behind it, and
/// those that go on. On each CPU there are [`TALKS`] at a time.
const TALKING: &[&str] = &[
    "tcp-short1",
    "tcp-short2",
    "tcp-short4",
    "tcp-short8",
    "tcp-echo1",
    "tcp-echo2",
    "tcp-echo4",
    "tcp-echo8",
];
const TALKS: usize = 16;
/// Behind a firewall: rows of `bench::firewall::case`, and what they are compared with.
const GUARDED: &[&str] = &[
    "ip4-no-hooks",
    "ip4-10-rules",
    "ip4-10-rules-cached",
    "ip4-1k-states",
    "ip4-1k-states-cached",
    "ip4-nat",
    "ip4-nat-cached",
    "ip4-nat-states",
    "ip4-nat-states-cached",
    "ip6-no-hooks",
    "ip6-10-rules",
    "ip6-10-rules-cached",
    "ip6-1k-states",
    "ip6-1k-states-cached",
    "ip6-nptv6",
    "ip6-nptv6-cached",
];
/// Through interfaces that stand on others, and through a bridge. Packets in a turn are [`MANY`].
const LINKS: &[&str] =
    &["vlan4", "vlan6", "gif4", "gif6", "vxlan4", "vxlan6", "bridge4", "bridge6", "gifin4"];
/// Datagrams that a program reads in batches and sends back: one there and back counts as a packet.
const ECHOES: &[&str] = &["udp4", "udp6"];
/// Packets of the short runs, multiples of all of [`AT_ONCE`]; so many for each CPU at the least.
const SHORT: usize = 2048;
/// Factor between long and short runs.
const LONGER: usize = 3;
/// Pairs that must cost the same: routers with all that can be configured, unused by the counted packets, and those
/// without. Packets in a turn are [`MANY`].
const ELSEWHERE: &[(&str, &str)] = &[
    ("all4", "ip4"),
    ("all6", "ip6"),
    ("gifin1000x4", "gifin4"),
    ("ip4-empty", "ip4-no-hooks"),
    ("ip6-empty", "ip6-no-hooks"),
];
/// Allowed excess of the first over the second, in percent.
const UNUSED_MAX: f64 = 0.5;
/// More CPUs may cost so much more than one whose packets say what they hash to as well, in percent.
const CPUS_MAX: f64 = 6.0;
/// Allowed excess for hosts, in percent.
const TALKING_MAX: f64 = 10.0;
/// Allowed excess of a case over its baseline, in percent.
const WORSE_MAX: f64 = 2.0;
const BASELINE: &str = "bench/icount.toml";
/// Time limit of a build that shares the processors.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Instructions, and the packets that they were for.
type Run = (u64, usize);

/// One instruction of so many may differ when a run is counted again.
const SAME_WITHIN: u64 = 100_000;

/// Instructions per packet, by case: `ip4.32` is IPv4 with 32 packets in a turn.
type Counts = BTreeMap<String, f64>;

#[derive(Serialize, Deserialize)]
struct Baseline {
    instructions_per_packet: Counts,
}

/// `cargo xtask icount`
pub fn command(args: &mut Args) -> Result<bool> {
    let (bless, json, places) = (args.flag("--bless"), args.flag("--json"), args.flag("--where"));
    args.finish()?;
    ensure!(run::has("valgrind"), "valgrind is missing: apt-get install valgrind");
    let program = build("forward")?;
    if places {
        return profile::print(&program).map(|()| true);
    }
    let counts = count_twice(&program)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&counts)?);
    }
    if bless {
        return write_what_may_be(&counts);
    }
    let baseline = read()?;
    if !json {
        print_table(&counts, &baseline);
    }
    Ok(too_much(&counts, &baseline).is_empty())
}

/// The check of `cargo xtask test`: one row, one test for each case.
pub fn check() -> Result<Vec<Row>> {
    let started = Instant::now();
    if !run::has("valgrind") {
        return Ok(vec![skipped("icount", "valgrind is missing")]);
    }
    let program = build("forward")?;
    let counted = each_case(|kind, at_once| count(&program, kind, at_once))?;
    let (counts, baseline) = (per_packet(&counted), read()?);
    print_table(&counts, &baseline);
    let worse = too_much(&counts, &baseline);
    if !worse.is_empty() {
        let is_worse = |kind: &str, at_once| worse.contains(&case(kind, at_once));
        let short = |kind: &str, at_once| {
            is_worse(kind, at_once).then(|| run_short(&program, kind, at_once)).transpose()
        };
        let again = each_case(short)?.into_iter().filter_map(|(case, run)| Some((case, run?))).collect();
        compare(&counted, &again)?;
    }
    let tally = Tally { passed: counts.len() - worse.len(), failed: worse.len(), skipped: 0 };
    let note =
        if worse.is_empty() { String::new() } else { format!("more than before: {}", worse.join(" ")) };
    Ok(vec![Row { check: "icount".into(), tally, elapsed: started.elapsed(), note }])
}

/// Instructions of one of many alike things that a program of `bench` does in a function, which is not inlined; how many it
/// has done, the program says.
///
/// # Errors
///
/// There is no valgrind, or the program fails.
pub fn of_each(program: &str, args: &[&str], function: &str) -> Result<f64> {
    ensure!(run::has("valgrind"), "valgrind is missing: apt-get install valgrind");
    let (text, said) = callgrind(&build(program)?, args, &[&format!("--toggle-collect=*{function}*")])?;
    Ok(totals(&text)? as f64 / said.trim().parse::<f64>()?)
}

/// Builds the program that is counted, the same way everywhere: valgrind does not know the newest instructions.
fn build(program: &str) -> Result<PathBuf> {
    let mut command = cargo(["build", "--profile", "icount", "--package", "bench", "--no-default-features"]);
    command.args(["--bin", program]);
    let target = root().join("target/icount");
    command.env("RUSTFLAGS", "-C target-cpu=x86-64-v2").env("CARGO_TARGET_DIR", &target);
    let done = run::follow("icount-build", command, BUILD_LIMIT)?;
    ensure!(done.status.success(), "bench does not build:\n{}", run::gist(&done.log));
    Ok(target.join("icount").join(program))
}

/// Counts all cases, and then the short run of each once more: what is not the same twice is not a number.
fn count_twice(program: &Path) -> Result<Counts> {
    let counted = each_case(|kind, at_once| count(program, kind, at_once))?;
    let again = each_case(|kind, at_once| run_short(program, kind, at_once))?;
    compare(&counted, &again)?;
    Ok(per_packet(&counted))
}

/// Cases by name: the short run, and instructions per packet.
type Counted = BTreeMap<String, (Run, f64)>;

fn per_packet(counted: &Counted) -> Counts {
    counted.iter().map(|(case, (_, per_packet))| (case.clone(), *per_packet)).collect()
}

/// Short runs that were counted again must be the same.
fn compare(counted: &Counted, again: &BTreeMap<String, Run>) -> Result<()> {
    let pairs = again.iter().map(|(case, again)| (case, counted.get(case).map(|(short, _)| *short), *again));
    let differ: Vec<_> =
        pairs.filter(|(_, short, again)| short.is_none_or(|short| !is_same(short, *again))).collect();
    ensure!(
        differ.is_empty(),
        "the same program counted twice, and another number the second time: {differ:?}"
    );
    Ok(())
}

/// Whether two runs of one program counted the same: where its memory lies decides about a few instructions of libc.
fn is_same(one: Run, other: Run) -> bool {
    one.1 == other.1 && one.0.abs_diff(other.0) <= one.0 / SAME_WITHIN
}

/// Does something for each case, for as many at a time as there are processors.
fn each_case<T: Send>(what: impl Fn(&str, usize) -> Result<T> + Sync) -> Result<BTreeMap<String, T>> {
    let cases = Mutex::new(cases().into_iter());
    let next = || cases.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || -> Result<Vec<_>> {
        core::iter::from_fn(next)
            .map(|(kind, at_once)| Ok((case(kind, at_once), what(kind, at_once)?)))
            .collect()
    };
    thread::scope(|scope| {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        let all: Vec<_> = (0..cpus).map(|_| scope.spawn(some)).collect();
        let each = all.into_iter().map(|part| part.join().map_err(|_| anyhow!("counting panicked"))?);
        Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

/// All cases: what is done, and with how many at once.
fn cases() -> Vec<(&'static str, usize)> {
    let plain = KINDS.iter().flat_map(|kind| AT_ONCE.iter().map(move |at_once| (*kind, *at_once)));
    let many = [SEVERAL, GUARDED, LINKS, ECHOES].concat();
    let elsewhere = ELSEWHERE.iter().map(|(kind, _)| *kind);
    plain
        .chain(many.into_iter().chain(elsewhere).map(|kind| (kind, MANY)))
        .chain(TALKING.iter().map(|kind| (*kind, TALKS)))
        .collect()
}

fn case(kind: &str, at_once: usize) -> String {
    format!("{kind}.{at_once:03}")
}

/// The short run, and what of it and the long one is each packet's.
fn count(program: &Path, kind: &str, at_once: usize) -> Result<(Run, f64)> {
    let short = run_short(program, kind, at_once)?;
    let long = instructions(program, kind, at_once, shortest(kind) * LONGER)?;
    let difference = long.0.checked_sub(short.0).context("the longer run took fewer instructions")?;
    let per_packet = difference as f64 / (long.1 - short.1) as f64;
    Ok((short, (per_packet * 10.0).round() / 10.0))
}

fn run_short(program: &Path, kind: &str, at_once: usize) -> Result<Run> {
    instructions(program, kind, at_once, shortest(kind))
}

/// Packets of the short run: at least a turn for each CPU, and more answers than hosts give before they are counted.
fn shortest(kind: &str) -> usize {
    let cpus = kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(1);
    match kind {
        _ if SEVERAL.contains(&kind) => SHORT.max(cpus * MANY),
        _ if kind.starts_with("tcp-echo") => SHORT * cpus,
        _ => SHORT,
    }
}

/// Counts packets as requested, unless the program reports another number.
fn instructions(program: &Path, kind: &str, at_once: usize, packets: usize) -> Result<Run> {
    let (text, said) = callgrind(program, &[kind, &at_once.to_string(), &packets.to_string()], &[])?;
    Ok((totals(&text)?, said.trim().parse().unwrap_or(packets)))
}

/// All instructions, of callgrind's output file.
fn totals(text: &str) -> Result<u64> {
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.context("callgrind wrote no totals")?.trim().parse()?)
}

/// Runs the program in valgrind and answers callgrind's output file, and what the program has said.
fn callgrind(program: &Path, args: &[&str], options: &[&str]) -> Result<(String, String)> {
    let out = root().join(format!("target/xtask/callgrind-{:?}.out", thread::current().id()));
    std::fs::create_dir_all(out.parent().unwrap_or(&out))?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet"]).arg(format!("--callgrind-out-file={}", out.display()));
    command.args(options).arg(program).args(args);
    // The environment lies on the stack, and its length would shift what is measured.
    command.env_clear();
    let said = run::capture(command)?;
    let text = std::fs::read_to_string(&out)?;
    std::fs::remove_file(&out)?;
    Ok((text, said))
}

fn read() -> Result<Counts> {
    let text = std::fs::read_to_string(root().join(BASELINE)).with_context(|| BASELINE.to_owned())?;
    Ok(toml::from_str::<Baseline>(&text).context(BASELINE)?.instructions_per_packet)
}

/// Writes new baselines, and says what they do not excuse: cases that cost too much beside another case.
fn write_what_may_be(counts: &Counts) -> Result<bool> {
    write(counts.clone())?;
    let worse = too_much(counts, counts);
    for case in &worse {
        println!("{case} costs too much beside the case that it is measured by");
    }
    Ok(worse.is_empty())
}

fn write(counts: Counts) -> Result<()> {
    let text = toml::to_string(&Baseline { instructions_per_packet: counts })?;
    let head = "# Written by `cargo xtask icount --bless`. FAMILY.PACKETS_IN_ONE_TURN; `wire` is the harness alone.\n\n";
    std::fs::write(root().join(BASELINE), format!("{head}{text}"))?;
    println!("{BASELINE} written:\n{text}");
    Ok(())
}

/// The cases that cost more than they may, or that have nothing to be compared with.
fn too_much(counts: &Counts, baseline: &Counts) -> Vec<String> {
    let worse = |(case, count): &(&String, &f64)| {
        is_more(Some(**count), baseline.get(*case), WORSE_MAX) || !is_within_its_bound(counts, case)
    };
    counts.iter().filter(worse).map(|(case, _)| case.clone()).collect()
}

/// Whether what must not cost more than another case does not.
fn is_within_its_bound(counts: &Counts, name: &str) -> bool {
    let unused = ELSEWHERE.iter().map(|(kind, plain)| (*kind, *plain, UNUSED_MAX));
    let cpus = SEVERAL.iter().filter(|kind| kind.starts_with("hash")).map(|kind| (*kind, "hash1", CPUS_MAX));
    let routed = unused.chain(cpus).map(|(kind, plain, most)| (kind, plain, most, MANY));
    let talking = TALKING.iter().map(|kind| (*kind, alone(kind), TALKING_MAX, TALKS));
    let mut bounds = routed.chain(talking).filter(|(kind, _, _, at_once)| case(kind, *at_once) == name);
    bounds.all(|(_, plain, most, at_once)| {
        !is_more(counts.get(name).copied(), counts.get(&case(plain, at_once)), most)
    })
}

/// Hosts of one CPU each that do the same.
fn alone(talking: &str) -> &'static str {
    if talking.starts_with("tcp-short") { "tcp-short1" } else { "tcp-echo1" }
}

/// Whether a count is more than so many percent above another one, or there is none to compare it with.
fn is_more(count: Option<f64>, than: Option<&f64>, percent: f64) -> bool {
    match (count, than) {
        (Some(count), Some(than)) => count > than * (1.0 + percent / 100.0),
        _ => true,
    }
}

fn print_table(counts: &Counts, baseline: &Counts) {
    println!("  {:24} {:>18} {:>10} {:>8}", "case", "instructions/pkt", "baseline", "change");
    for (case, count) in counts {
        let (before, change) = baseline.get(case).map_or_else(Default::default, |before| {
            (format!("{before:.1}"), format!("{:+.1} %", (count / before - 1.0) * 100.0))
        });
        println!("  {case:24} {count:>18.1} {before:>10} {change:>8}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, f64)]) -> Counts {
        all.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect()
    }

    #[test]
    fn what_is_not_used_may_not_cost_anything_and_more_cpus_only_little() {
        let counted = |all4, hash8, short8| {
            let routed = [("ip4.256", 320.0), ("all4.256", all4), ("hash1.256", 300.0), ("hash8.256", hash8)];
            counts(&[&routed[..], &[("tcp-short1.016", 20_000.0), ("tcp-short8.016", short8)]].concat())
        };
        let before = counted(330.0, 330.0, 22_100.0);
        assert_eq!(too_much(&before, &before), ["all4.256", "hash8.256", "tcp-short8.016"]);
        let now = counted(321.0, 314.0, 21_900.0);
        assert_eq!(too_much(&now, &before), Vec::<String>::new());
    }

    #[test]
    fn a_run_counted_again_may_differ_by_a_few_instructions_of_a_million() {
        assert!(is_same((2_032_375, 2048), (2_032_379, 2048)));
        assert!(
            !is_same((2_032_375, 2048), (2_032_475, 2048)) && !is_same((2_032_375, 2048), (2_032_375, 2049))
        );
    }

    #[test]
    fn a_case_is_compared_with_what_it_cost_before() {
        let before = counts(&[("wire.001", 100.0)]);
        assert_eq!(too_much(&counts(&[("wire.001", 101.0)]), &before), Vec::<String>::new());
        assert_eq!(
            too_much(&counts(&[("wire.001", 103.0), ("new.001", 1.0)]), &before),
            ["new.001", "wire.001"]
        );
    }
}
