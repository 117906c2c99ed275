//! The project's own commands. `cargo xtask --help` lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to the person who started it")]
#![expect(unreachable_pub, reason = "a program: `pub` means to its other modules")]

mod args;
mod atf;
mod checks;
mod dist;
mod features;
mod fuzz;
mod icount;
mod interop;
mod lint;
mod manual;
mod peers;
mod plots;
mod prove;
mod report;
mod run;
mod setup;
mod soak;
mod suites;
mod tahi;
mod tally;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Args;

/// One sub-command.
struct Command {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    /// Answers whether all is well.
    run: fn(&mut Args) -> Result<bool>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        usage: "[CHECK...]",
        about: "Installs what the checks need, runs them all (or those named), and prints one table.\n\
                Checks: fmt clippy tests docs worlds tahi loom model miri icount; the end-to-end tests are among `tests`, and with\n\
                them the worlds that tests describe; clippy and rustdoc look at what is built for them. What needs only processors\n\
                runs beside the tests, and gives way to them.",
        run: checks::test,
    },
    Command { name: "ci", usage: "", about: "The same as `test`.", run: checks::test },
    Command {
        name: "worlds",
        usage: "[N] [--seed S]",
        about: "Runs N simulated worlds that seeds from S on think up (default: 2000 from 1), and N/20 of each kind\n\
                that a test describes, optimised. A failure prints its seed, and how to live through it again.",
        run: checks::worlds,
    },
    Command {
        name: "atf",
        usage: "[--only WORD] [--json] | --check | --write",
        about: "Runs the tests that show the cases of NetBSD's network suite, as ATF.toml has them, and all described worlds;\n\
                prints a line for each case: passed, failed, missing, or not applicable. --only runs the cases whose names\n\
                contain a word; --write puts the map into docs/evidence/ATF.md, --check says whether it is there.",
        run: atf::command,
    },
    Command {
        name: "meddle",
        usage: "[SEGMENTS] [--seed S]",
        about: "Lets two whole hosts speak with each other while somebody between them changes their segments and datagrams,\n\
                until so many segments were changed (default: a million), optimised. Nothing may be left of it.",
        run: checks::meddle,
    },
    Command {
        name: "loom",
        usage: "",
        about: "Tries all interleavings of the rings, ports and wakers of `pkt`.",
        run: checks::loom,
    },
    Command {
        name: "model",
        usage: "[ORDERS] [--seed S]",
        about: "Lets a control thread publish tables, routes, rules and rings while netisrs turn, in so many orders of their\n\
                steps for each kind of publication (default: 2000), and looks for packets that should not have passed.",
        run: checks::model,
    },
    Command {
        name: "miri",
        usage: "",
        about: "Runs the tests of `pkt`, as `test` does, and those of sockets on a netisr that is turned by hand, in an\n\
                interpreter that sees undefined behaviour (nightly toolchain).",
        run: checks::miri,
    },
    Command {
        name: "fuzz",
        usage: "[TARGET...] [--seconds N]",
        about: "Fuzzes every target, or those named, for N seconds (default: 60), and says how often it was executed.\n\
                Needs a nightly toolchain and cargo-fuzz.",
        run: fuzz::command,
    },
    Command {
        name: "icount",
        usage: "[--bless] [--json] [--where]",
        about: "Counts instructions per forwarded packet and compares them with bench/icount.toml.\n\
                --bless writes the numbers there; --where says in which functions they are spent.",
        run: icount::command,
    },
    Command {
        name: "peers",
        usage: "[--only WORD,...] [--rounds N] [--quick] [--json] [--write] [--list]",
        about: "Measures pantala beside DPDK, the kernel and XDP, taking turns on this machine, and prints one table.\n\
                --only runs the contests whose names contain a word (--list shows them), --quick shows only that all\n\
                works, --write puts the tables into docs/evidence/MEASUREMENTS.md. Needs root and a quiet machine.",
        run: peers::command,
    },
    Command {
        name: "shortconn",
        usage: "[--list] [--only WORD,...] [--rounds N] [--quick] [--json] [--write]",
        about: "Measures short connections: both ends in memory, beside the crate smoltcp, with the instructions of each\n\
                (needs valgrind); and `pantala serve` over TAP and AF_XDP beside nginx on the kernel, with wrk (needs root).\n\
                Options as those of `peers`.",
        run: peers::shortconn,
    },
    Command {
        name: "plots",
        usage: "",
        about: "Draws the pictures of docs/evidence/PERFORMANCE.md, and writes its table of ratios, from the tables of\n\
                docs/evidence/MEASUREMENTS.md; `peers --write` and `shortconn --write` do the same.",
        run: plots::command,
    },
    Command {
        name: "tahi",
        usage: "[PATH] [--cpus N] [--seed S] [--only PREFIX] [--json]",
        about: "Plays the conformance sequences of PATH (a folder with *.jsonl, or a file; default: $PANTALA_TAHI) to a host\n\
                in virtual time. One line for each that fails. docs/evidence/CONFORMANCE.md says which may.",
        run: tahi::command,
    },
    Command {
        name: "interop",
        usage: "[--bytes N] [--rounds N] [--only transfers|goodput] [--json] [--write]",
        about: "Sends N bytes (default: 10^9) each way between Linux and pantala over paths that lose, reorder and repeat, and\n\
                measures pantala's and Linux's senders on the same bad paths, N rounds (default: 5). --write puts the\n\
                tables into docs/evidence/INTEROP.md. Needs root and a quiet machine.",
        run: interop::command,
    },
    Command {
        name: "man",
        usage: "[FOLDER]",
        about: "Writes man pages and completions for bash, zsh and fish below FOLDER (default: target/man).",
        run: manual::command,
    },
    Command {
        name: "dist",
        usage: "[FOLDER] [--only-debian] [--try]",
        about: "Makes packages below FOLDER (default: target/packages): for Debian, with the symbols apart; a static program; an\n\
                OCI image layout; the list of components; checksums. --try installs, starts, upgrades, removes and purges the\n\
                Debian package in a clean Debian (needs root, and a mirror of Debian).",
        run: dist::command,
    },
    Command {
        name: "soak",
        usage: "[--minutes N] [--release] [--no-build] [--json]",
        about: "Loads a router with everything at once for N minutes (default: 60): forwarding, NAT, states, a web server, relays,\n\
                sockets of threads over memif, a generator, while rules, routes, rings and the configuration change. Then the\n\
                load stops, and memory, descriptors, threads, buffers, connections and states must be back. Ctrl-C ends the\n\
                load early and shows what was measured. Needs root.",
        run: soak::command,
    },
    Command {
        name: "storm",
        usage: "[--minutes N] [--seed S] [--release] [--no-build] [--json]",
        about: "The soak's router and load for N minutes (default: 5) under changes that a seed chooses, without a pause: links flap,\n\
                interfaces are made and destroyed, routes, rules, addresses and neighbours change, rings move, the file is read\n\
                again. Then each packet must be accounted for, and nothing be left. Needs root.",
        run: soak::storm,
    },
    Command {
        name: "e2e",
        usage: "[FILTER]",
        about: "Runs the tests against real Linux hosts in network namespaces. Needs root.",
        run: checks::e2e,
    },
    Command {
        name: "arrows",
        usage: "",
        about: "Checks the house's own rules: dependencies between crates, unsafe files, lengths of files.",
        run: checks::arrows,
    },
    Command {
        name: "features",
        usage: "[--check | --prove [--only NAME]]",
        about: "Writes FEATURES.toml's table into docs/evidence/FEATURES.md; --check only says whether it is there. --prove breaks each feature as\n\
                FAULTS.toml says, in a copy below target/prove, runs its test, which must fail, and writes docs/evidence/FAULTS.md.",
        run: features::command,
    },
];

fn main() -> ExitCode {
    if let Some(code) = lint::in_place_of_the_compiler() {
        return code;
    }
    let mut args = Args::from_env();
    let wants_help = args.flag("--help") | args.flag("-h");
    let Some(name) = args.word().filter(|name| name != "help") else {
        print!("{}", help());
        return ExitCode::SUCCESS;
    };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprintln!("xtask: there is no `{name}`\n\n{}", help());
        return ExitCode::from(2);
    };
    if wants_help {
        print!("{}", describe(command));
        return ExitCode::SUCCESS;
    }
    match (command.run)(&mut args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {name}: {error:#}");
            ExitCode::from(if error.is::<args::Unknown>() { 2 } else { 1 })
        }
    }
}

fn help() -> String {
    let commands: String = COMMANDS.iter().map(describe).collect();
    format!("usage: cargo xtask COMMAND\n\n{commands}")
}

fn describe(command: &Command) -> String {
    let about = command.about.replace('\n', "\n      ");
    format!("  {}\n      {about}\n", format!("{} {}", command.name, command.usage).trim_end())
}
