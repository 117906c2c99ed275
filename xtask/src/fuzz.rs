//! `cargo xtask fuzz`: builds the fuzz targets once, then runs one after the other.

use core::time::Duration;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::args::Args;
use crate::report::Row;
use crate::run;
use crate::{checks, setup};

/// Time limit of compiling all targets.
const BUILD: Duration = Duration::from_secs(30 * 60);
/// Time over the requested one that a target may take: it reads its corpus first.
const GRACE: Duration = Duration::from_secs(120);

pub fn command(args: &mut Args) -> Result<bool> {
    let seconds = args.number("--seconds")?.unwrap_or(60);
    let targets = targets();
    let wanted = args.words(|word| targets.as_ref().is_ok_and(|all| all.iter().any(|target| target == word)));
    args.finish()?;
    checks::one("fuzz", || match &targets {
        Err(why) => Ok(vec![checks::skipped("fuzz", why)]),
        Ok(all) if wanted.is_empty() => all_of(all, seconds),
        Ok(_) => all_of(&wanted, seconds),
    })
}

/// The names of all targets, or why there are none.
fn targets() -> Result<Vec<String>, &'static str> {
    if !setup::has_nightly() {
        return Err("needs a nightly toolchain (rustup toolchain install nightly)");
    }
    let names =
        run::capture(nightly(&["list"])).map_err(|_| "needs cargo-fuzz (cargo install cargo-fuzz)")?;
    Ok(names.lines().map(str::to_owned).collect())
}

fn all_of(targets: &[String], seconds: u64) -> Result<Vec<Row>> {
    // One by one, so that what is not wanted is not compiled; they share nearly all of it.
    let mut rows = Vec::new();
    for target in targets {
        let built = checks::yes_or_no(
            &format!("fuzz-build-{target}"),
            nightly(&with_features("build", target)),
            BUILD,
        )?;
        let is_built = built.iter().all(|row| row.tally.failed == 0);
        rows.extend(if is_built { run_one(target, seconds)? } else { built });
    }
    Ok(rows)
}

/// New inputs go into a corpus beside the compiled targets; the one that is kept with the sources is only read.
fn run_one(target: &str, seconds: u64) -> Result<Vec<Row>> {
    let (found, kept) = (format!("fuzz/target/corpus/{target}"), format!("fuzz/corpus/{target}"));
    std::fs::create_dir_all(run::root().join(&found))?;
    let mut args = with_features("run", target);
    args.push(&found);
    if run::root().join(&kept).is_dir() {
        args.push(&kept);
    }
    let time = format!("-max_total_time={seconds}");
    // Inputs of all lengths from the beginning: a rule and a packet are not made of a few bytes.
    args.extend(["--", &time, "-print_final_stats=1", "-len_control=0"]);
    let name = format!("fuzz-{target}");
    let mut rows = checks::yes_or_no(&name, nightly(&args), Duration::from_secs(seconds) + GRACE)?;
    let executions =
        executions(&run::log(&name)).map_or_else(String::new, |count| format!("{count} executions"));
    rows.iter_mut().filter(|row| row.note.is_empty()).for_each(|row| row.note.clone_from(&executions));
    Ok(rows)
}

/// `cargo fuzz` with a subcommand and a target: those of the packet generator, of DHCP, PPPoE and routes need the program as a library.
fn with_features<'a>(subcommand: &'a str, target: &'a str) -> Vec<&'a str> {
    let is_program =
        target.starts_with("pktgen_") || ["dhcp", "pppoe_client", "route_table"].contains(&target);
    let features: &[&str] = if is_program { &["--features", "program"] } else { &[] };
    [&[subcommand, target], features].concat()
}

/// Returns libFuzzer's number of executions.
fn executions(log: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(log).ok()?;
    text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok())
}

fn nightly(args: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz"]).args(args).current_dir(run::root());
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command
}
