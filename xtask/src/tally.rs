//! Counts tests from what test binaries print.

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    /// Tests that were skipped because something was missing, and said so.
    pub skipped: usize,
}

/// Reads the output of `cargo test`, line by line, and keeps one tally per test binary.
#[derive(Debug, Default)]
pub struct Reader {
    binaries: Vec<Binary>,
}

#[derive(Debug, Default)]
struct Binary {
    name: String,
    seen: Tally,
    /// Tests that passed for the harness, but printed `SKIPPED:`.
    excused: usize,
}

impl Tally {
    pub const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    pub const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    pub const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };
}

impl core::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl core::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |mut sum, tally| {
            sum += tally;
            sum
        })
    }
}

impl Reader {
    /// Takes one line of output, of either stream.
    pub fn line(&mut self, line: &str) {
        if let Some(name) = binary_name(line) {
            self.binaries.push(Binary { name, ..Binary::default() });
        }
        if self.binaries.is_empty() {
            self.binaries.push(Binary::default());
        }
        if let Some(binary) = self.binaries.last_mut() {
            binary.line(line);
        }
    }

    /// The tests of the binaries whose names `wanted` likes.
    pub fn tally(&self, wanted: impl Fn(&str) -> bool) -> Tally {
        self.binaries.iter().filter(|binary| wanted(&binary.name)).map(Binary::tally).sum()
    }
}

impl Binary {
    fn line(&mut self, line: &str) {
        if is_skip(line) {
            self.excused += 1;
        } else if let Some(test) = line.strip_prefix("test ") {
            self.test(test);
        }
    }

    /// A test that writes to the terminal itself tears its own line apart; the `test result:` line mends the count.
    fn test(&mut self, test: &str) {
        if let Some(counts) = test.strip_prefix("result: ") {
            let count = |what| count_before(counts, what);
            self.seen.passed = self.seen.passed.max(count(" passed"));
            self.seen.failed = self.seen.failed.max(count(" failed"));
            self.seen.skipped = self.seen.skipped.max(count(" ignored"));
        } else if test.ends_with("... ok") {
            self.seen.passed += 1;
        } else if test.ends_with("... FAILED") {
            self.seen.failed += 1;
        } else if test.contains("... ignored") {
            self.seen.skipped += 1;
        }
    }

    fn tally(&self) -> Tally {
        let Tally { passed, failed, skipped } = self.seen;
        Tally { passed: passed.saturating_sub(self.excused), failed, skipped: skipped + self.excused }
    }
}

/// Whether a line tells of a test that could not run.
pub fn is_skip(line: &str) -> bool {
    line.trim_start().starts_with("SKIPPED:")
}

/// Whether a line tells of a test that found out while it ran that it could not: `harness` gives the reason in parentheses.
pub fn is_ignored_with_a_reason(line: &str) -> bool {
    line.starts_with("test ") && line.contains(" ... ignored (")
}

/// `wire` of `     Running unittests src/lib.rs (target/debug/deps/wire-0123456789abcdef)`, `doc` of `   Doc-tests wire`.
fn binary_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some("doc".into());
    }
    let path = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once('(')?.1;
    let file = path.rsplit_once('/').map_or(path, |(_, file)| file);
    Some(file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned())
}

fn count_before(counts: &str, what: &str) -> usize {
    let before = counts.split(';').find_map(|count| count.trim().strip_suffix(what));
    before.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Reader {
        let mut reader = Reader::default();
        output.lines().for_each(|line| reader.line(line));
        reader
    }

    #[test]
    fn tests_are_counted_by_binary() {
        let reader = read(
            "     Running unittests src/lib.rs (target/debug/deps/wire-01ab)\n\
             test a ... ok\ntest b ... FAILED\ntest c ... ignored, needs a reason\n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             \x20    Running tests/e2e/main.rs (target/debug/deps/e2e-02cd)\n\
             test d ... ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(reader.tally(|name| name == "wire"), Tally { passed: 1, failed: 1, skipped: 1 });
        assert_eq!(reader.tally(|name| name == "e2e"), Tally { passed: 1, failed: 0, skipped: 0 });
    }

    #[test]
    fn a_test_that_says_it_was_skipped_has_not_passed() {
        let reader = read("SKIPPED: needs root: a\ntest a ... ok\ntest b ... ok\n");
        assert_eq!(reader.tally(|_| true), Tally { passed: 1, failed: 0, skipped: 1 });
    }

    #[test]
    fn a_torn_line_is_still_counted() {
        let reader = read(
            "test a ... something printed\nok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n",
        );
        assert_eq!(reader.tally(|_| true), Tally { passed: 1, failed: 0, skipped: 0 });
    }

    #[test]
    fn a_binary_without_the_harness_counts_by_its_lines() {
        let reader = read("     Running tests/x.rs (target/debug/deps/x-01)\ntest alone ... ok\n");
        assert_eq!(reader.tally(|name| name == "x"), Tally::PASSED);
    }
}
