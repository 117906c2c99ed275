//! A test harness for tests that need more than processors: root, AF_XDP, a program, a folder of scripts.
//!
//! The standard harness decides at build time which tests are ignored. Whether a machine has what a test needs is known
//! only while it runs, and a test that returns early has passed there. Here it calls [`skip`], and `cargo test` itself
//! reports it: `test e2e::forwarding::… ... ignored (needs root)`. Command line and output are those of the standard one.
//!
//! A test binary with `harness = false` lists the tests of each module, and its modules:
//!
//! ```
//! mod routes {
//!     fn a_route_is_there() {
//!         // `cargo test` reports: ignored (needs root)
//!         harness::skip("needs root");
//!     }
//!
//!     harness::tests![a_route_is_there];
//! }
//!
//! harness::main![routes];
//! ```
//!
//! A test that is not listed is an unused function, which the compiler reports. One that still says `#[test]` would vanish;
//! `xtask/tests/house` looks for those.

use core::cell::RefCell;
use core::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;
use std::thread;

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

/// A test: it panics, calls [`skip`], or passes.
pub type Test = fn();

/// The tests of a module; made by [`tests!`].
#[derive(Clone, Copy, Debug)]
pub struct Tests {
    /// Path of the module, which begins with the name of the test binary.
    pub module: &'static str,
    /// Name and function of each.
    pub tests: &'static [(&'static str, Test)],
    /// Tests that run only if they are asked for with `--ignored`.
    pub on_demand: &'static [(&'static str, Test)],
}

/// Lists the tests of a module as its `TESTS`; those behind `on_demand:` run only with `--ignored`.
#[macro_export]
macro_rules! tests {
    ($($name:ident),+ $(,)? $(; on_demand: $($other:ident),+ $(,)?)?) => {
        pub(crate) const TESTS: $crate::Tests = $crate::Tests {
            module: module_path!(),
            tests: &[$((stringify!($name), $name as $crate::Test)),+],
            on_demand: &[$($((stringify!($other), $other as $crate::Test)),+)?],
        };
    };
}

/// The `main` of a test binary: runs the `TESTS` of these modules, or of this one.
#[macro_export]
macro_rules! main {
    () => {
        fn main() -> std::process::ExitCode {
            $crate::run(&[TESTS])
        }
    };
    ($($module:path),+ $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::run(&[$({ use $module as module; module::TESTS }),+])
        }
    };
}

thread_local! {
    /// Reasons why the test that runs on this thread is skipped; none on a thread that runs no test.
    static SKIPPED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Reports the running test as ignored, unless it fails. The caller then returns.
///
/// On a thread that the test has started itself, `SKIPPED: why` goes to standard error instead.
pub fn skip(why: impl Display) {
    let why = why.to_string();
    SKIPPED.with_borrow_mut(|reasons| match reasons {
        Some(reasons) => reasons.push(why),
        None => {
            // A harness has no better place for it.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
        }
    });
}

/// Runs tests as the command line says, each on a thread that bears its name.
#[must_use]
pub fn run(modules: &[Tests]) -> ExitCode {
    conclude(&Arguments::from_args(), modules, on_a_thread)
}

/// Runs tests on the main thread of a process that has no other: for those that change the process.
#[must_use]
pub fn run_on_the_main_thread(modules: &[Tests]) -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    conclude(&arguments, modules, |_, test| here(test))
}

type Runner = fn(&str, Test) -> Completion;

fn conclude(arguments: &Arguments, modules: &[Tests], runner: Runner) -> ExitCode {
    let trials = modules.iter().flat_map(|module| {
        let tests = module.tests.iter().map(|test| (test, false));
        let tests = tests.chain(module.on_demand.iter().map(|test| (test, true)));
        tests.map(|(&(name, test), on_demand)| {
            let name = path(module.module, name);
            let own = name.clone();
            Trial::ignorable_test(name, move || Ok::<_, Failed>(runner(&own, test)))
                .with_ignored_flag(on_demand)
        })
    });
    let mut trials: Vec<Trial> = trials.collect();
    trials.sort_by(|a, b| a.name().cmp(b.name()));
    let conclusion: Conclusion = libtest_mimic::run(arguments, trials);
    conclusion.exit_code()
}

/// The name of a test as the standard harness has it: without the binary's.
fn path(module: &str, name: &str) -> String {
    module.split_once("::").map_or_else(|| name.to_owned(), |(_, module)| format!("{module}::{name}"))
}

/// Runs a test on a thread of its own, so that the message of a panic names it.
fn on_a_thread(name: &str, test: Test) -> Completion {
    let Ok(thread) = thread::Builder::new().name(name.to_owned()).spawn(move || here(test)) else {
        return Completion::ignored_with("there is no thread for it");
    };
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn here(test: Test) -> Completion {
    SKIPPED.set(Some(Vec::new()));
    test();
    match SKIPPED.take() {
        Some(reasons) if !reasons.is_empty() => Completion::ignored_with(reasons.join("; ")),
        _ => Completion::Completed,
    }
}
