//! The summary of a test binary that uses the harness: this one starts itself as such a binary, and reads it.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::{Command, ExitCode};

/// In the environment of a process that runs the [examples], and not the tests.
const EXAMPLES: &str = "PANTALA_HARNESS_EXAMPLES";

fn main() -> ExitCode {
    harness::run(&[if std::env::var_os(EXAMPLES).is_some() { examples::TESTS } else { TESTS }])
}

mod examples {
    fn lacks_something() {
        harness::skip("needs root");
        harness::skip("no AF_XDP");
    }

    fn lacks_something_and_fails() {
        harness::skip("needs root");
        panic!("as planned");
    }

    fn lacks_nothing() {}

    fn is_alone() {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert_eq!(threads, 1, "a process without other threads");
    }

    fn is_alone_and_lacks_something() {
        harness::skip("no tap");
    }

    fn is_alone_and_fails() {
        panic!("as planned");
    }

    harness::tests![lacks_something, lacks_nothing; on_demand: lacks_something_and_fails;
        alone: is_alone, is_alone_and_lacks_something, is_alone_and_fails];
}

fn the_summary_says_what_ran_what_did_not_and_why() {
    let (passed, lines, _) = run(&["lacks", "--skip", "alone"]);
    assert!(passed, "{lines:?}");
    has(&lines, "test examples::lacks_something ", "... ignored (needs root; no AF_XDP)");
    has(&lines, "test examples::lacks_something_and_fails ", "... ignored");
    has(&lines, "test examples::lacks_nothing ", "... ok");
    has(&lines, "test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; ", "");
}

fn a_test_that_lacks_something_and_fails_has_failed() {
    let (passed, lines, said) = run(&["--ignored"]);
    assert!(!passed, "{lines:?}");
    has(&lines, "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; ", "");
    assert!(
        said.contains("thread 'examples::lacks_something_and_fails'"),
        "the panic names the test: {said}"
    );
}

fn a_test_alone_has_its_process_and_says_there_what_it_lacks_or_that_it_failed() {
    let (passed, lines, _) = run(&["alone"]);
    assert!(!passed, "{lines:?}");
    has(&lines, "test examples::is_alone ", "... ok");
    has(&lines, "test examples::is_alone_and_lacks_something ", "... ignored (no tap)");
    has(&lines, "test examples::is_alone_and_fails ", "... FAILED");
    assert!(lines.iter().any(|line| line.contains("as planned")), "the failure says why: {lines:?}");
}

harness::tests![
    the_summary_says_what_ran_what_did_not_and_why,
    a_test_that_lacks_something_and_fails_has_failed,
    a_test_alone_has_its_process_and_says_there_what_it_lacks_or_that_it_failed,
];

/// Whether the examples pass, and what they print to standard output and to standard error.
fn run(arguments: &[&str]) -> (bool, Vec<String>, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(arguments).env(EXAMPLES, "1").output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.success(), out.lines().map(str::to_owned).collect(), err)
}

fn has(lines: &[String], begin: &str, end: &str) {
    assert!(lines.iter().any(|line| line.starts_with(begin) && line.contains(end)), "{begin}: {lines:?}");
}
