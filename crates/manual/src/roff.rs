//! The language of man pages, as groff and mandoc read it: the macros of man(7).

use crate::File;

/// A man page that is being written.
#[derive(Debug)]
pub struct Page {
    title: String,
    section: u8,
    text: String,
}

impl Page {
    /// Begins a page: `pantala`, 8.
    pub fn new(title: &str, section: u8, date: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let volume = if section == 5 { "File Formats Manual" } else { "System Manager's Manual" };
        let upper = escaped(&title.to_uppercase());
        let text = format!(
            ".\\\" Written by `cargo xtask man` from the text of --help and of docs/reference.\n\
             .TH \"{upper}\" \"{section}\" \"{date}\" \"pantala {version}\" \"{volume}\"\n.ad l\n"
        );
        Self { title: title.to_owned(), section, text }
    }

    /// The section NAME, which `apropos` reads.
    pub fn name(&mut self, name: &str, about: &str) {
        self.section("NAME");
        self.line(&format!("{} \\- {}", escaped(name), escaped(about)));
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        self.request(&format!(".SH \"{}\"", escaped(title)));
    }

    /// Begins a subsection.
    pub fn subsection(&mut self, title: &str) {
        self.request(&format!(".SS \"{}\"", escaped(title)));
    }

    /// A paragraph of plain text with `code` in backquotes.
    pub fn paragraph(&mut self, text: &str) {
        if !self.ends_with_heading() {
            self.request(".PP");
        }
        self.line(&inline(text));
    }

    /// A term and what it means.
    pub fn entry(&mut self, term: &str, meaning: &str) {
        self.tagged(&format!("\\fB{}\\fR", escaped(term)), &inline(meaning));
    }

    /// Text whose escapes are written already.
    pub(crate) fn tagged(&mut self, term: &str, meaning: &str) {
        self.request(".TP");
        self.line(term);
        self.line(meaning);
    }

    /// An item of a list.
    pub fn item(&mut self, text: &str) {
        self.request(".IP \\(bu 2");
        self.line(&inline(text));
    }

    /// Lines as they are.
    pub fn verbatim<'l>(&mut self, lines: impl IntoIterator<Item = &'l str>) {
        if !self.ends_with_heading() {
            self.request(".PP");
        }
        self.request(".nf");
        lines.into_iter().for_each(|line| {
            let line = escaped(line);
            self.line(if line.is_empty() { "\\&" } else { &line });
        });
        self.request(".fi");
    }

    /// The section SEE ALSO, of names with their sections: `pantala(8)`.
    pub fn see_also(&mut self, pages: &[String]) {
        self.section("SEE ALSO");
        self.line(&pages.iter().map(|page| reference(page)).collect::<Vec<_>>().join(",\n"));
    }

    /// The page as a file.
    pub fn into_file(self) -> File {
        let Self { title, section, text } = self;
        File { path: format!("man/man{section}/{title}.{section}"), text }
    }

    fn ends_with_heading(&self) -> bool {
        let last = self.text.lines().next_back().unwrap_or_default();
        last.starts_with(".SH") || last.starts_with(".SS")
    }

    fn request(&mut self, request: &str) {
        self.text.push_str(request);
        self.text.push('\n');
    }

    /// A line of text, whose escapes are there already.
    fn line(&mut self, line: &str) {
        if line.starts_with(['.', '\'']) {
            self.text.push_str("\\&");
        }
        self.request(line);
    }
}

/// Another page in bold, with its section.
pub fn reference(page: &str) -> String {
    let (name, section) = page.split_once('(').unwrap_or((page, ""));
    format!("\\fB{}\\fR({section}", escaped(name))
}

/// Text whose characters mean themselves.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '"' => out.push_str("\\(dq"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            other => out.push(other),
        }
    }
    out
}

/// Text with `code` in backquotes and **words** in stars, which become bold.
pub fn inline(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            out.push_str(&format!("\\fB{}\\fR", escaped(part)));
            continue;
        }
        for (at, part) in part.split("**").enumerate() {
            let part = escaped(part);
            out.push_str(&if at % 2 == 1 { format!("\\fB{part}\\fR") } else { part });
        }
    }
    out
}

/// The text of a page without requests and escapes, for tests.
#[cfg(test)]
pub(crate) fn plain(page: &str) -> String {
    let lines = page.lines().filter(|line| !line.starts_with('.')).collect::<Vec<_>>().join("\n");
    let known = [
        ("\\fB", ""),
        ("\\fR", ""),
        ("\\fI", ""),
        ("\\&", ""),
        ("\\-", "-"),
        ("\\(dq", "\""),
        ("\\(aq", "'"),
        ("\\(ga", "`"),
        ("\\(ha", "^"),
        ("\\(ti", "~"),
        ("\\e", "\\"),
    ];
    known.iter().fold(lines, |text, (from, to)| text.replace(from, to))
}
