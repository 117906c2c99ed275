//! Many changes from a file: a line for each, in the grammar of the command line.

use core::time::Duration;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use super::Route;
use crate::api::{RouteEdit, RouteEdits};
use crate::cli::{Failure, Session};

/// Changes in one request: while they are made, no other request is served.
const AT_ONCE: usize = 5000;
/// Bytes of a line.
const LINE_MAX: usize = 4096;
/// Refusals that are shown; all are counted.
const SHOWN_MAX: usize = 20;
/// Interval of progress reports.
const PROGRESS: Duration = Duration::from_secs(2);

/// The progress so far.
struct Batch<'s, 't> {
    session: &'s mut Session<'t>,
    name: String,
    /// Changes of the next request, and their line numbers.
    edits: Vec<RouteEdit>,
    lines: Vec<usize>,
    done: u64,
    refused: u64,
    shown: Instant,
}

/// Carries the lines of a file out. Those that cannot be are named with their line, and the others are done.
pub(super) fn run(file: &Path, session: &mut Session<'_>) -> Result<(), Failure> {
    let (name, lines): (String, Box<dyn BufRead>) = if file == Path::new("-") {
        ("standard input".to_owned(), Box::new(io::stdin().lock()))
    } else {
        let name = file.display().to_string();
        let opened = File::open(file).map_err(|why| Failure::Failed(format!("cannot read {name}: {why}")))?;
        (name, Box::new(BufReader::new(opened)))
    };
    let (edits, numbers) = (Vec::new(), Vec::new());
    let mut batch =
        Batch { session, name, edits, lines: numbers, done: 0, refused: 0, shown: Instant::now() };
    batch.read(lines)?;
    batch.flush()?;
    batch.end()
}

impl Batch<'_, '_> {
    fn read(&mut self, lines: impl BufRead) -> Result<(), Failure> {
        for (number, line) in (1..).zip(lines.lines()) {
            let line = line.map_err(|why| Failure::Failed(format!("{}:{number}: {why}", self.name)))?;
            match edit(&line) {
                Ok(None) => {}
                Ok(Some(edit)) => {
                    self.edits.push(edit);
                    self.lines.push(number);
                }
                Err(why) => self.refuse(number, &why),
            }
            if self.edits.len() >= AT_ONCE {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.edits.is_empty() {
            return Ok(());
        }
        let answer: RouteEdits = self.session.client.post("/v1/routes/batch", &self.edits)?;
        self.done += answer.done;
        for refused in answer.refused {
            let line = self.lines.get(refused.at).copied().unwrap_or_default();
            self.refuse(line, &refused.error.to_string());
        }
        self.edits.clear();
        self.lines.clear();
        if self.shown.elapsed() >= PROGRESS {
            self.shown = Instant::now();
            let so_far = format!("{}: {} changes made so far", self.name, self.done);
            self.session.term.complain(&so_far);
        }
        Ok(())
    }

    fn refuse(&mut self, line: usize, why: &str) {
        self.refused += 1;
        match usize::try_from(self.refused).unwrap_or(usize::MAX) {
            shown if shown <= SHOWN_MAX => {
                self.session.term.complain(&format!("{}:{line}: {}", self.name, why.trim_end()));
            }
            shown if shown == SHOWN_MAX + 1 => self.session.term.complain("…"),
            _ => {}
        }
    }

    fn end(self) -> Result<(), Failure> {
        let Self { session, done, refused, .. } = self;
        let summary = serde_json::json!({ "done": done, "refused": refused });
        session.show(&summary, |_| format!("{done} changes made, {refused} refused\n"))?;
        if refused == 0 { Ok(()) } else { Err(Failure::Said) }
    }
}

/// Parses a line; nothing, if it is empty or a comment.
fn edit(line: &str) -> Result<Option<RouteEdit>, String> {
    let line = line.split('#').next().unwrap_or_default();
    if line.len() > LINE_MAX {
        return Err(format!("longer than {LINE_MAX} bytes"));
    }
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if words.first().is_some_and(|word| word == "route") {
        words.remove(0);
    }
    if words.is_empty() {
        return Ok(None);
    }
    match Route::read(&words) {
        Ok(Route::Edit(edit)) => Ok(Some(edit)),
        Ok(_) => Err("a batch has only add, change and delete".to_owned()),
        Err(Failure::Usage(why)) => Err(why),
        Err(_) => Err("not understood".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_change_a_comment_or_a_mistake() {
        assert_eq!(edit("  # nothing"), Ok(None));
        assert_eq!(edit(""), Ok(None));
        let add = edit("add 10.0.0.0/8 192.0.2.1 # why").unwrap();
        assert!(matches!(add, Some(RouteEdit::Add(_))));
        assert_eq!(edit("route add 10.0.0.0/8 192.0.2.1").unwrap(), add);
        assert!(matches!(edit("delete default"), Ok(Some(RouteEdit::Delete { .. }))));
        assert!(edit("flush").unwrap_err().contains("only add, change and delete"));
        assert!(edit("ad default 192.0.2.1").unwrap_err().contains("did you mean `add`?"));
        assert!(edit(&"a".repeat(5000)).unwrap_err().contains("longer than"));
    }
}
