//! The table at the end of `cargo xtask test`.

use crate::tally::Tally;
use core::time::Duration;

/// The result of one check.
pub struct Row {
    pub check: String,
    pub tally: Tally,
    pub elapsed: Duration,
    /// Why something was skipped or failed, in a few words.
    pub note: String,
}

/// All rows so far.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub fn add(&mut self, row: Row) {
        println!("  {} in {} s", verdict(&row), row.elapsed.as_secs());
        self.rows.push(row);
    }

    pub fn total(&self) -> Tally {
        self.rows.iter().map(|row| row.tally).sum()
    }

    /// Prints the table, and the sums alone on the last line.
    pub fn print(&self) {
        let width = self.rows.iter().map(|row| row.check.len()).max().unwrap_or(0).max("check".len());
        println!("\n{:width$}  {:>7}  {:>6}  {:>7}  {:>6}", "check", "passed", "failed", "skipped", "time");
        for row in &self.rows {
            let Tally { passed, failed, skipped } = row.tally;
            let time = format!("{} s", row.elapsed.as_secs());
            let line = format!(
                "{:width$}  {passed:>7}  {failed:>6}  {skipped:>7}  {time:>6}  {}",
                row.check, row.note
            );
            println!("{}", line.trim_end());
        }
        let Tally { passed, failed, skipped } = self.total();
        println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    }
}

fn verdict(row: &Row) -> &'static str {
    match row.tally {
        Tally { failed: 1.., .. } => "FAILED",
        Tally { passed: 0, skipped: 1.., .. } => "SKIPPED",
        _ => "passed",
    }
}
