//! The one place that writes to the terminal.
//!
//! Everything a command says goes through a [`Term`], so that tests can read it, nothing is coloured that is not
//! looked at by a person, and a reader that went away (`pantala netstat -w 1 | head`) ends the command quietly.

use std::io::{self, IsTerminal, Write};

/// Where a command's output and its complaints go.
pub struct Term {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    colour: bool,
    live: bool,
    /// Whether a live line is shown beside the output.
    live_beside: bool,
    /// A line of progress stands on the terminal.
    in_progress: bool,
}

/// The meaning of a piece of text, for terminals with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A heading, or the word to look at.
    Bold,
    /// It works.
    Good,
    /// It does not.
    Bad,
    /// Beside the point.
    Faint,
}

impl Term {
    /// Standard output and standard error; coloured if the output is a terminal and `NO_COLOR` is not set.
    #[must_use]
    pub fn stdio() -> Self {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let (live, live_beside) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self { live, live_beside, ..Self::new(Box::new(io::stdout()), Box::new(io::stderr()), colour) }
    }

    /// A terminal made of two writers.
    #[must_use]
    pub fn new(out: Box<dyn Write>, err: Box<dyn Write>, colour: bool) -> Self {
        Self { out, err, colour, live: false, live_beside: false, in_progress: false }
    }

    /// Whether a line that was shown can be replaced: whether a person looks at a terminal.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Writes `text` as it is (it brings its own line ends) and shows it at once.
    ///
    /// # Errors
    /// Those of the writer; [`io::ErrorKind::BrokenPipe`] when the reader has gone.
    pub fn show(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Writes bytes that need not be text, and shows them at once.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub fn show_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// Writes a line of complaint. That it cannot be written is not worth a second complaint.
    pub fn complain(&mut self, text: &str) {
        let _ = writeln!(self.err, "{}", text.trim_end());
        let _ = self.err.flush();
    }

    /// Whether a line of progress can be replaced by the next.
    #[must_use]
    pub fn is_live_beside(&self) -> bool {
        self.live_beside
    }

    /// Says beside the output how far something is: a line of its own, or in place of the last one where that can be.
    pub fn progress(&mut self, text: &str) {
        if !self.live_beside {
            return self.complain(text);
        }
        self.in_progress = true;
        // A failure loses only a live line.
        let _ = write!(self.err, "\r\x1b[K{text}").and_then(|()| self.err.flush());
    }

    /// Takes the last line of progress away, where it can be.
    pub fn end_progress(&mut self) {
        if core::mem::take(&mut self.in_progress) {
            let _ = write!(self.err, "\r\x1b[K").and_then(|()| self.err.flush());
        }
    }

    /// `text`, coloured if this terminal shows colours.
    #[must_use]
    pub fn style(&self, style: Style, text: &str) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }

    /// Says what is about to be done, without a line end; [`Step::done`] or [`Step::failed`] completes the line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn step(&mut self, what: &str) -> io::Result<Step<'_>> {
        self.show(&format!("  {what} ... "))?;
        Ok(Step { term: self })
    }
}

/// A step that was announced and has not ended.
#[must_use = "a step ends with `done` or `failed`"]
pub struct Step<'t> {
    term: &'t mut Term,
}

impl Step<'_> {
    /// It worked; `detail` may be empty.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn done(self, detail: &str) -> io::Result<()> {
        self.end(Style::Good, "ok", detail)
    }

    /// It did not work.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn failed(self, why: &str) -> io::Result<()> {
        self.end(Style::Bad, "failed", why)
    }

    fn end(self, style: Style, word: &str, detail: &str) -> io::Result<()> {
        let word = self.term.style(style, word);
        let gap = if detail.is_empty() { "" } else { "  " };
        self.term.show(&format!("{word}{gap}{detail}\n"))
    }
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Faint => "2",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(colour: bool, act: impl FnOnce(&mut Term)) -> String {
        let page = Page::default();
        act(&mut Term::new(Box::new(page.clone()), Box::new(io::sink()), colour));
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_step_is_one_line_without_colour_when_nobody_looks() {
        let text = written(false, |t| t.step("make a TAP").unwrap().done("tap0").unwrap());
        assert_eq!(text, "  make a TAP ... ok  tap0\n");
    }

    #[test]
    fn a_failed_step_is_red_on_a_terminal() {
        let text = written(true, |t| t.step("ping").unwrap().failed("no answer").unwrap());
        assert_eq!(text, "  ping ... \x1b[31mfailed\x1b[0m  no answer\n");
    }
}
