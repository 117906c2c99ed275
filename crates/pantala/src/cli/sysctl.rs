//! `sysctl`: shows variables of the stack and changes them.

use super::flags::Flags;
use super::{Failure, Session};
use crate::api::client::escaped;
use crate::api::{Sysctl, SysctlChange, SysctlChanged};
use crate::show::sysctl as show;
use diagnostic::nearest;

pub(crate) const USAGE: &str = "\
pantala sysctl [-d | -n | -N] -a
       pantala sysctl [-d | -n | -N] NAME ...
       pantala sysctl NAME=VALUE ...";

pub(crate) const HELP: &str = "  -a  all variables; NAME is one of them, or a prefix: net.inet.tcp
  -d  descriptions: unit, range, default
  -n  values without names
  -N  names without values

A change applies on all CPUs to new connections and sockets, also to those
that existing listeners accept unless their program has set the option. For
values from the start see the section [sysctl] of the configuration.

Examples:
  pantala sysctl net.inet.tcp.cc.algorithm=newreno
  pantala sysctl -d net.inet.tcp";

/// The style of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Both,
    Values,
    Names,
    Descriptions,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    style: Style,
    /// Nothing for all; in the order of the line.
    words: Vec<Word>,
}

#[derive(Debug, PartialEq, Eq)]
enum Word {
    Show(String),
    Change(String, String),
}

impl Line {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        // -w was once needed to change something, and still is in people's fingers.
        let flags = Flags::read("sysctl", words, "adnNw", "")?;
        let style = match (flags.has('d'), flags.has('n'), flags.has('N')) {
            (false, false, false) => Style::Both,
            (true, false, false) => Style::Descriptions,
            (false, true, false) => Style::Values,
            (false, false, true) => Style::Names,
            _ => return Err(Failure::usage("sysctl: -d, -n and -N exclude each other")),
        };
        if flags.has('a') {
            flags.no_operands("sysctl")?;
        } else if flags.operands.is_empty() {
            return Err(Failure::usage("sysctl: name variables, or -a for all (see pantala sysctl --help)"));
        }
        let word = |word: &String| match word.split_once('=') {
            Some((name, value)) => Word::Change(name.to_owned(), value.to_owned()),
            None => Word::Show(word.clone()),
        };
        Ok(Self { style, words: flags.operands.iter().map(word).collect() })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        if self.words.is_empty() {
            let all: Vec<Sysctl> = session.client.get("/v1/sysctl")?;
            return session.show(&all, |all| show::variables(all, self.style));
        }
        for word in self.words {
            match word {
                Word::Show(name) => {
                    let found = below(&name, session)?;
                    session.show(&found, |found| show::variables(found, self.style))?;
                }
                Word::Change(name, value) => {
                    let path = format!("/v1/sysctl/{}", escaped(&name));
                    let changed: SysctlChanged = session.client.put(&path, &SysctlChange { value })?;
                    session.show(&changed, |changed| show::changed(changed, self.style))?;
                }
            }
        }
        Ok(())
    }
}

/// The variable of this name, or all whose names begin so.
fn below(name: &str, session: &Session<'_>) -> Result<Vec<Sysctl>, Failure> {
    let mut all: Vec<Sysctl> = session.client.get("/v1/sysctl")?;
    let is_below = |one: &Sysctl| {
        let rest = one.name.strip_prefix(name.trim_end_matches('.'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let near = nearest(name, all.iter().map(|one| one.name.as_str())).map(str::to_owned);
    all.retain(is_below);
    if !all.is_empty() {
        return Ok(all);
    }
    let help = near.map_or_else(
        || "sysctl -a shows all that there are".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Err(Failure::Failed(format!("unknown variable `{name}`; {help}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Line, Failure> {
        Line::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn lines_show_and_change() {
        assert_eq!(read("-an").unwrap(), Line { style: Style::Values, words: Vec::new() });
        let words = vec![Word::Show("a.b".into()), Word::Change("a.c".into(), "1".into())];
        assert_eq!(read("-w a.b a.c=1").unwrap(), Line { style: Style::Both, words });
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("", "name variables"),
            ("-a x", "one word too many"),
            ("-dn x", "exclude"),
            ("-q", "no flag -q"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
