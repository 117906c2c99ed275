//! Scripts of packetdrill, run against the stack: our own, and those of folders that `DRILL_SCRIPTS` names.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read its files fails")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use drill::Script;
use drill::mutate::Role;
use drill::script::IpVersion;
use sim::drill::{Setup, run};
use sim::mem::Rss;

/// The hosts that our own scripts run against.
fn setups() -> Vec<Setup> {
    let cpus = [(1, Rss::Right), (2, Rss::Wrong), (4, Rss::Right), (8, Rss::Wrong)];
    let versions = [IpVersion::Ipv4, IpVersion::Ipv6];
    let setup = |version| cpus.map(|(cpus, rss)| Setup { cpus, rss, version, seed: u64::from(cpus) });
    versions.into_iter().flat_map(setup).collect()
}

#[test]
fn our_own_scripts_pass_on_one_cpu_and_on_several_with_both_families() {
    for (path, script) in own() {
        for setup in setups() {
            if let Err(failure) = run(&script, &setup) {
                panic!("{}:{failure}\nwith {setup:?}", path.display());
            }
        }
    }
}

#[test]
fn scripts_that_demand_something_else_do_not_pass() {
    for (path, script) in own() {
        for mutant in drill::mutants(&script).filter(|mutant| mutant.role == Role::Demand) {
            assert!(run(&mutant.script, &Setup::default()).is_err(), "{}:{mutant}", path.display());
        }
    }
}

#[test]
fn scripts_of_others_pass() {
    let folders = std::env::var_os("DRILL_SCRIPTS").unwrap_or_default();
    let mut paths = Vec::new();
    std::env::split_paths(&folders)
        .filter(|folder| folder.is_dir())
        .for_each(|folder| walk(&folder, &mut paths));
    if paths.is_empty() {
        let why = "DRILL_SCRIPTS names no folder of packetdrill scripts";
        let _ = writeln!(std::io::stderr(), "SKIPPED: scripts of others: {why}");
        return;
    }
    paths.sort();
    let scripts: Vec<_> = paths.into_iter().map(read).collect();
    let failure = |(path, script): &(PathBuf, Script)| {
        let failure = run(script, &Setup::default()).err()?;
        Some(format!("{}:{failure}", path.display()))
    };
    let failures: Vec<String> = scripts.iter().filter_map(failure).collect();
    let (failed, all) = (failures.len(), scripts.len());
    assert!(failures.is_empty(), "{failed} of {all} failed:\n{}", failures.join("\n"));
}

/// Our own scripts, and where they are.
fn own() -> Vec<(PathBuf, Script)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("drill");
    let mut paths = Vec::new();
    walk(&folder, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "there are scripts");
    paths.into_iter().map(read).collect()
}

fn read(path: PathBuf) -> (PathBuf, Script) {
    let text = std::fs::read_to_string(&path).unwrap();
    let script = drill::parse(&path.display().to_string(), &text, &[drill::STANDARD]);
    (path, script.unwrap_or_else(|errors| panic!("{}", errors[0])))
}

fn walk(folder: &Path, scripts: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => walk(&path, scripts),
            false if path.extension().is_some_and(|extension| extension == "pkt") => scripts.push(path),
            false => {}
        }
    }
}
