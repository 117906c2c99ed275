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
//! A test that looks at its whole process, or changes it, is listed behind `alone:`. The binary then starts itself again for
//! that test, and runs it on the only thread.
//!
//! A test that is not listed is an unused function, which the compiler reports. One that still says `#[test]` would vanish;
//! `xtask/tests/house` looks for those.

use core::cell::RefCell;
use core::fmt::Display;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

/// In the environment of a process that runs one test [alone](Tests::alone): its name.
const ALONE: &str = "PANTALA_TEST_ALONE";
/// Begins the line in which such a process says what its test lacked.
const LACKS: &str = "SKIPPED: ";

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
    /// Tests that run in a process of their own, on its main thread.
    pub alone: &'static [(&'static str, Test)],
    /// Modules below this one.
    pub modules: &'static [Self],
}

/// Lists the tests of a module as its `TESTS`; those behind `on_demand:` run only with `--ignored`, those behind `alone:` in a
/// process of their own.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)? $(; on_demand: $($other:ident),+ $(,)?)? $(; alone: $($alone:ident),+ $(,)?)?) => {
        pub(crate) const TESTS: $crate::Tests = $crate::Tests {
            module: module_path!(),
            tests: &[$((stringify!($name), $name as $crate::Test)),*],
            on_demand: &[$($((stringify!($other), $other as $crate::Test)),+)?],
            alone: &[$($((stringify!($alone), $alone as $crate::Test)),+)?],
            modules: &[],
        };
    };
}

/// Lists the modules of a module that has no tests itself as its `TESTS`.
#[macro_export]
macro_rules! modules {
    ($($module:path),+ $(,)?) => {
        pub(crate) const TESTS: $crate::Tests = $crate::Tests {
            module: module_path!(),
            tests: &[],
            on_demand: &[],
            alone: &[],
            modules: &[$({ use $module as module; module::TESTS }),+],
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

/// Runs tests as the command line says, each on a thread that bears its name, or [alone](Tests::alone).
#[must_use]
pub fn run(modules: &[Tests]) -> ExitCode {
    let mut tests = Vec::new();
    modules.iter().for_each(|module| module.list(&mut tests));
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    if let Ok(name) = std::env::var(ALONE) {
        return run_the_one(&tests, &name);
    }
    let trials = tests.into_iter().map(Listed::trial).collect();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or_else(at_once);
    let conclusion: Conclusion = libtest_mimic::run(&arguments, trials);
    conclusion.exit_code()
}

/// The number of tests to run at once, if `RUST_TEST_THREADS` says it, as for test programs of the standard library.
fn at_once() -> Option<usize> {
    std::env::var("RUST_TEST_THREADS").ok()?.parse().ok().filter(|number| *number > 0)
}

/// A test of the binary.
struct Listed {
    name: String,
    test: Test,
    list: List,
}

/// The list in which a test stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Tests,
    OnDemand,
    Alone,
}

impl Tests {
    fn list(&self, into: &mut Vec<Listed>) {
        let lists = [(self.tests, List::Tests), (self.on_demand, List::OnDemand), (self.alone, List::Alone)];
        for (tests, list) in lists {
            let listed = |&(name, test)| Listed { name: path(self.module, name), test, list };
            into.extend(tests.iter().map(listed));
        }
        self.modules.iter().for_each(|module| module.list(into));
    }
}

impl Listed {
    fn trial(self) -> Trial {
        let Self { name, test, list } = self;
        let own = name.clone();
        let run = move || match list {
            List::Alone => in_a_process(&own),
            List::Tests | List::OnDemand => Ok(on_a_thread(&own, test)),
        };
        Trial::ignorable_test(name, run).with_ignored_flag(list == List::OnDemand)
    }
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

/// Runs a test in a process of its own: this binary once more. Its panic message is in the failure.
fn in_a_process(name: &str) -> Result<Completion, Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.env(ALONE, name).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        // A harness has no better place for it.
        let _ = write!(std::io::stderr(), "{errors}");
    }
    match said.lines().find_map(|line| line.strip_prefix(LACKS)) {
        _ if !output.status.success() => Err(Failed::from(format!("{}\n{said}{errors}", output.status))),
        Some(why) => Ok(Completion::ignored_with(why.to_owned())),
        None => Ok(Completion::Completed),
    }
}

/// Runs the test that this process is for, and says what it lacked.
fn run_the_one(tests: &[Listed], name: &str) -> ExitCode {
    let Some(listed) = tests.iter().find(|listed| listed.name == name) else { return ExitCode::FAILURE };
    if let Completion::Ignored { reason } = here(listed.test) {
        let _ = writeln!(std::io::stdout(), "{LACKS}{}", reason.unwrap_or_default());
    }
    ExitCode::SUCCESS
}

fn here(test: Test) -> Completion {
    SKIPPED.set(Some(Vec::new()));
    test();
    match SKIPPED.take() {
        Some(reasons) if !reasons.is_empty() => Completion::ignored_with(reasons.join("; ")),
        _ => Completion::Completed,
    }
}
