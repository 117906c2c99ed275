//! Comments, and branches of the preprocessor that are not taken: blanks take their place, so that nothing else moves.

use crate::error::{Fault, nearest};
use crate::limit::DEPTH_MAX;

/// The text without comments and without what `#ifdef` leaves out, of the same length, with lines where they were.
/// `defined` are the names that `#ifdef` finds defined.
pub(crate) fn strip(text: &str, defined: &[&str]) -> Result<String, Fault> {
    let defined = defined.iter().map(|name| (*name).to_owned()).collect();
    let mut strip =
        Strip { text, at: 0, out: String::with_capacity(text.len()), branches: Vec::new(), defined };
    strip.all()?;
    Ok(strip.out)
}

struct Strip<'a> {
    text: &'a str,
    at: usize,
    out: String,
    branches: Vec<Branch>,
    defined: Vec<String>,
}

/// An `#ifdef` that is open.
struct Branch {
    /// Where it stands.
    at: usize,
    /// Whether what stands here counts.
    taken: bool,
    /// Whether a branch before it, or one around it, decides that none from here on counts.
    decided: bool,
    /// Whether there was an `#else`.
    last: bool,
}

impl Strip<'_> {
    fn all(&mut self) -> Result<(), Fault> {
        let mut line_start = true;
        while let Some(c) = self.rest().chars().next() {
            let rest = self.rest();
            if line_start && rest.starts_with('#') {
                self.directive()?;
                continue;
            }
            if line_start && self.branches.last().is_some_and(|branch| !branch.taken) && !is_blank(c) {
                self.blank_line();
                continue;
            }
            line_start = c == '\n' || line_start && is_blank(c);
            if rest.starts_with("//") {
                self.blank_line();
            } else if rest.starts_with("/*") {
                self.blank_comment()?;
            } else if rest.starts_with("%{") {
                self.copy_to("}%", 2, "`%{` is not closed", "}%")?;
            } else if c == '"' {
                self.copy_quoted('"', "the string is not closed", "`\"`")?;
            } else if c == '`' {
                self.copy_quoted('`', "the command is not closed", "a back-quote")?;
            } else {
                self.copy(c.len_utf8());
            }
        }
        match self.branches.last() {
            None => Ok(()),
            Some(open) => {
                let end = self.line_end(open.at);
                Err(Fault::new(open.at..end, "the branch is not closed").expected("#endif"))
            }
        }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn line_end(&self, from: usize) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        from + rest.find('\n').unwrap_or(rest.len())
    }

    fn copy(&mut self, len: usize) {
        self.out.push_str(self.text.get(self.at..self.at + len).unwrap_or_default());
        self.at += len;
    }

    /// Blanks in place of what stands before `end`, byte by byte, but for the ends of lines.
    fn blank(&mut self, end: usize) {
        let gone = self.text.get(self.at..end).unwrap_or_default();
        self.out.extend(gone.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        self.at = end;
    }

    fn blank_line(&mut self) {
        self.blank(self.line_end(self.at));
    }

    fn blank_comment(&mut self) -> Result<(), Fault> {
        match self.rest().get(2..).and_then(|rest| rest.find("*/")) {
            Some(len) => self.blank(self.at + len + 4),
            None => return Err(Fault::new(self.at..self.at + 2, "the comment is not closed").expected("*/")),
        }
        Ok(())
    }

    fn copy_to(&mut self, end: &str, open: usize, message: &str, expected: &str) -> Result<(), Fault> {
        match self.rest().get(open..).and_then(|rest| rest.find(end)) {
            Some(len) => self.copy(open + len + end.len()),
            None => return Err(Fault::new(self.at..self.at + open, message).expected(expected)),
        }
        Ok(())
    }

    /// As far as to the next `quote` that has no backslash before it.
    fn copy_quoted(&mut self, quote: char, message: &str, expected: &str) -> Result<(), Fault> {
        let mut escaped = false;
        for (len, c) in self.rest().char_indices().skip(1) {
            if c == quote && !escaped {
                self.copy(len + 1);
                return Ok(());
            }
            escaped = c == '\\' && !escaped;
        }
        Err(Fault::new(self.at..self.at + 1, message).expected(expected))
    }

    fn directive(&mut self) -> Result<(), Fault> {
        let (start, end) = (self.at, self.line_end(self.at));
        let line = self.text.get(start..end).unwrap_or_default().trim_end();
        let span = start..start + line.len();
        let (line, _) = line.split_once("//").unwrap_or((line, ""));
        let (line, _) = line.split_once("/*").unwrap_or((line, ""));
        let line = line.trim_start_matches('#').trim();
        let (word, name) =
            line.split_once([' ', '\t']).map_or((line, ""), |(word, name)| (word, name.trim()));
        let is_script_mark = start == 0 && self.text.starts_with("#!");
        if !is_script_mark {
            self.obey(word, name, span)?;
        }
        self.blank(end);
        Ok(())
    }

    fn obey(&mut self, word: &str, name: &str, span: core::ops::Range<usize>) -> Result<(), Fault> {
        let taken = self.branches.last().is_none_or(|branch| branch.taken);
        match word {
            "ifdef" | "ifndef" | "if" => {
                if self.branches.len() == DEPTH_MAX {
                    return Err(Fault::new(
                        span,
                        format!("at most {DEPTH_MAX} branches lie within each other"),
                    ));
                }
                let is = self.condition(word, name, &span)?;
                self.branches.push(Branch {
                    at: span.start,
                    taken: taken && is,
                    decided: !taken || is,
                    last: false,
                });
            }
            "else" | "elif" => {
                let is = if word == "elif" { self.condition("if", name, &span)? } else { true };
                let Some(branch) = self.branches.last_mut().filter(|branch| !branch.last) else {
                    return Err(Fault::new(span, format!("`#{word}` without `#ifdef`")));
                };
                branch.last = word == "else";
                branch.taken = !branch.decided && is;
                branch.decided |= is;
            }
            "endif" => {
                if self.branches.pop().is_none() {
                    return Err(Fault::new(span, "`#endif` without `#ifdef`"));
                }
            }
            "define" if taken && is_name(name) => self.defined.push(name.to_owned()),
            "undef" if taken && is_name(name) => self.defined.retain(|known| known != name),
            "define" | "undef" | "include" | "error" | "warning" | "pragma" | "line" if !taken => {}
            "define" => {
                let fault = Fault::new(span, "a macro cannot be defined here, only a name without a value");
                return Err(fault.help("write --define=NAME=value at the beginning of the script"));
            }
            _ => {
                const KNOWN: [&str; 8] =
                    ["ifdef", "ifndef", "if", "elif", "else", "endif", "define", "undef"];
                let fault = Fault::new(span, format!("`#{word}` is no directive that is understood here"));
                let fault = fault.expected("#ifdef, #ifndef, #if, #elif, #else, #endif, #define or #undef");
                return Err(match nearest(word, KNOWN) {
                    Some(near) => fault.help(format!("did you mean `#{near}`?")),
                    None => fault,
                });
            }
        }
        Ok(())
    }

    fn condition(&self, word: &str, name: &str, span: &core::ops::Range<usize>) -> Result<bool, Fault> {
        let is_defined = |name: &str| self.defined.iter().any(|known| known == name);
        if word != "if" {
            return match is_name(name) {
                true => Ok(is_defined(name) == (word == "ifdef")),
                false => Err(Fault::new(span.clone(), format!("`#{word}` needs a name"))),
            };
        }
        let (not, term) = name.strip_prefix('!').map_or((false, name), |term| (true, term.trim_start()));
        let name = term.strip_prefix("defined").map(|term| term.trim_matches([' ', '\t', '(', ')']));
        match (term, name) {
            ("0", _) => Ok(not),
            ("1", _) => Ok(!not),
            (_, Some(name)) if is_name(name) => Ok(is_defined(name) != not),
            _ => Err(Fault::new(span.clone(), "this condition is not understood here")
                .expected("0, 1, defined(NAME) or !defined(NAME)")),
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> String {
        let out = strip(text, &["STANDARD"]).unwrap_or_else(|fault| panic!("{}", fault.message));
        assert_eq!((out.len(), out.matches('\n').count()), (text.len(), text.matches('\n').count()));
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_go_and_what_only_lists_like_one_stays() {
        assert_eq!(stripped("a // b\nc /* d\n e */ f"), "a c f");
        assert_eq!(stripped("\"a // b\" `c /* d` %{ e // f }% g"), "\"a // b\" `c /* d` %{ e // f }% g");
        assert_eq!(stripped("\"a\\\" // b\" // c"), "\"a\\\" // b\"");
        assert_eq!(stripped("ä /* ö */ ü"), "ä ü");
    }

    #[test]
    fn of_branches_the_one_that_is_asked_for_stays() {
        assert_eq!(
            stripped("a\n#ifdef STANDARD\nb\n#endif\n#ifdef FreeBSD\nc\n#else\nd\n#endif\ne\n"),
            "a b d e"
        );
        assert_eq!(stripped("#ifndef STANDARD\na\n#elif defined(X)\nb\n#else\nc\n#endif"), "c");
        assert_eq!(stripped("#if 0\n\"\n#ifdef STANDARD\na\n#endif\n#else\nb\n#endif\n"), "b");
        assert_eq!(
            stripped("#if !defined STANDARD\na\n#endif\n#define X\n  # ifdef X // why\n b\n #endif\n"),
            "b"
        );
        assert_eq!(stripped("#undef STANDARD\n#if defined(STANDARD)\na\n#endif\n"), "");
    }

    #[test]
    fn a_number_sign_within_a_command_or_code_is_no_directive() {
        assert_eq!(stripped("`a\n# b`\n%{\n# c\n}%"), "`a # b` %{ # c }%");
        assert_eq!(stripped("#!/usr/bin/packetdrill\na"), "a");
    }

    #[test]
    fn what_is_not_closed_or_not_understood_is_told_with_its_place() {
        for (text, at, says) in [
            ("a\n#ifdef X\n", 2, "not closed"),
            ("#endif", 0, "without `#ifdef`"),
            ("#else", 0, "without `#ifdef`"),
            ("#ifdef X\n#else\n#else\n#endif", 15, "without `#ifdef`"),
            ("#include <x>", 0, "no directive"),
            ("#define X 1", 0, "without a value"),
            ("#if X > 1\n#endif", 0, "condition"),
            ("#ifdef\n#endif", 0, "needs a name"),
            ("a /* b", 2, "comment is not closed"),
            ("a \"b", 2, "string is not closed"),
            ("a `b", 2, "command is not closed"),
            ("a %{ b", 2, "`%{` is not closed"),
        ] {
            let fault = strip(text, &[]).unwrap_err();
            assert!(fault.message.contains(says), "{text}: {}", fault.message);
            assert_eq!(fault.span.start, at, "{text}");
        }
    }
}
