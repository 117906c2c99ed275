//! Scripts of packetdrill, run against the stack: our own, and those of folders that `DRILL_SCRIPTS` names.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read its files fails")]

mod memory;

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

fn our_own_scripts_pass_on_one_cpu_and_on_several_with_both_families() {
    for (path, script) in own() {
        for setup in setups() {
            if let Err(failure) = run(&script, &setup) {
                panic!("{}:{failure}\nwith {setup:?}", path.display());
            }
        }
    }
}

fn scripts_that_demand_something_else_do_not_pass() {
    for (path, script) in own() {
        for mutant in drill::mutants(&script).filter(|mutant| mutant.role == Role::Demand) {
            assert!(run(&mutant.script, &Setup::default()).is_err(), "{}:{mutant}", path.display());
        }
    }
}

fn scripts_of_others_pass_but_for_those_that_contradict_an_rfc() {
    let scripts = of_others();
    let exceptions = exceptions();
    let failure = |(path, script): &(PathBuf, Script)| {
        let is_excepted = exceptions.iter().any(|name| path.ends_with(name));
        match (run(script, &Setup::default()), is_excepted) {
            (Ok(()), false) | (Err(_), true) => None,
            (Ok(()), true) => Some(format!("{}: passes, and is no exception any more", path.display())),
            (Err(failure), false) => Some(format!("{}:{failure}", path.display())),
        }
    };
    let failures: Vec<String> = scripts.iter().filter_map(failure).collect();
    let (failed, all) = (failures.len(), scripts.len());
    assert!(failures.is_empty(), "{failed} of {all} failed:\n{}", failures.join("\n"));
}

/// One in so many mutants of scripts of others is tried, each time another one.
const SAMPLE: usize = 29;

fn scripts_of_others_that_demand_something_else_do_not_pass() {
    let mut passed = Vec::new();
    let mut count = 0;
    for (path, script) in of_others() {
        if run(&script, &Setup::default()).is_err() {
            continue;
        }
        for mutant in drill::mutants(&script).filter(|mutant| mutant.role == Role::Demand) {
            count += 1;
            if count % SAMPLE == 0 && run(&mutant.script, &Setup::default()).is_ok() {
                passed.push(format!("{}:{mutant}", path.display()));
            }
        }
    }
    assert!(passed.is_empty(), "of {} mutants {} pass:\n{}", count / SAMPLE, passed.len(), passed.join("\n"));
}

/// The scripts of the folders that `DRILL_SCRIPTS` names.
fn of_others() -> Vec<(PathBuf, Script)> {
    let folders = std::env::var_os("DRILL_SCRIPTS").unwrap_or_default();
    let mut paths = Vec::new();
    std::env::split_paths(&folders)
        .filter(|folder| folder.is_dir())
        .for_each(|folder| walk(&folder, &mut paths));
    if paths.is_empty() {
        harness::skip("DRILL_SCRIPTS names no folder of packetdrill scripts");
    }
    paths.sort();
    paths.into_iter().map(read).collect()
}

/// The names of the scripts whose demand contradicts an RFC.
fn exceptions() -> Vec<String> {
    let list = include_str!("../../drill/exceptions.tsv");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.map(|line| line.split('\t').collect::<Vec<_>>());
    let name = |fields: Vec<&str>| {
        assert!(fields.len() == 3 && fields[1].starts_with("RFC ") && !fields[2].is_empty(), "{fields:?}");
        fields[0].to_owned()
    };
    fields.map(name).collect()
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

harness::tests![
    our_own_scripts_pass_on_one_cpu_and_on_several_with_both_families,
    scripts_that_demand_something_else_do_not_pass,
    scripts_of_others_pass_but_for_those_that_contradict_an_rfc,
    scripts_of_others_that_demand_something_else_do_not_pass,
];

harness::main![crate, memory];
