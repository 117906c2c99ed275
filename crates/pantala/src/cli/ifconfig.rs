//! `ifconfig [-a] [-l] [IF [up|down|monitor|-monitor]]`.

use super::flags::{Flags, extra_word};
use super::{Failure, Session};
use crate::api::client::escaped;
use crate::api::{Interface, InterfaceChange};
use crate::show;
use diagnostic::nearest;

pub(crate) const USAGE: &str = "\
pantala ifconfig [-a] | -l | IF
       pantala ifconfig IF up | down
       pantala ifconfig IF monitor | -monitor";

pub(crate) const HELP: &str = "  -a        every interface (the default)
  -l        only their names
  up, down  bring the interface up or take it down
  monitor   only count and measure what it receives; `netstat -M -I IF` shows
            it

Addresses are changed in the configuration file; then `pantala reload`.

Examples:
  pantala ifconfig lan
  pantala ifconfig lan down
  pantala ifconfig --json";

const WORDS: &[&str] = &["up", "down", "monitor", "-monitor"];
/// BSD's words that this version understands only in the configuration file.
const IN_FILE: &[&str] = &["inet", "inet6", "alias", "-alias", "delete", "mtu", "ether", "lladdr"];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ifconfig {
    All,
    Names,
    One(String),
    Change(String, InterfaceChange),
}

impl Ifconfig {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        // The only word of BSD's that begins like a flag.
        if let [name, word] = words
            && word == "-monitor"
        {
            return change(word).map(|change| Self::Change(name.clone(), change));
        }
        let flags = Flags::read("ifconfig", words, "al", "")?;
        if flags.has('l') {
            return flags.no_operands("ifconfig").map(|()| Self::Names);
        }
        match flags.operands.as_slice() {
            [] => Ok(Self::All),
            [name] => Ok(Self::One(name.clone())),
            [name, word] => change(word).map(|change| Self::Change(name.clone(), change)),
            [_, word, ..] if IN_FILE.contains(&word.as_str()) => Err(in_file(word)),
            [_, _, extra, ..] => Err(extra_word("ifconfig", extra)),
        }
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::All => {
                let all: Vec<Interface> = session.client.get("/v1/interfaces")?;
                session.show(&all, |all| show::ifconfig(all))
            }
            Self::Names => {
                let all: Vec<Interface> = session.client.get("/v1/interfaces")?;
                let names: Vec<String> = all.into_iter().map(|interface| interface.name).collect();
                session.show(&names, |names| names.join(" ") + "\n")
            }
            Self::One(name) => {
                let one: Interface = session.client.get(&path(&name))?;
                session.show(&one, |one| show::ifconfig(core::slice::from_ref(one)))
            }
            Self::Change(name, change) => {
                let () = session.client.patch(&path(&name), &change)?;
                session.done("")
            }
        }
    }
}

fn path(name: &str) -> String {
    format!("/v1/interfaces/{}", escaped(name))
}

fn change(word: &str) -> Result<InterfaceChange, Failure> {
    match word {
        "up" => Ok(InterfaceChange { up: Some(true), ..InterfaceChange::default() }),
        "down" => Ok(InterfaceChange { up: Some(false), ..InterfaceChange::default() }),
        "monitor" => Ok(InterfaceChange { monitor: Some(true), ..InterfaceChange::default() }),
        "-monitor" => Ok(InterfaceChange { monitor: Some(false), ..InterfaceChange::default() }),
        word if IN_FILE.contains(&word) => Err(in_file(word)),
        word => {
            let known = WORDS.iter().chain(IN_FILE).copied();
            let help = nearest(word, known).map_or_else(
                || format!("known are {}", WORDS.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            Err(Failure::usage(format!("ifconfig: unknown word `{word}`; {help}")))
        }
    }
}

fn in_file(word: &str) -> Failure {
    Failure::usage(format!(
        "ifconfig: `{word}` is not supported by this version; change the configuration file, then `pantala reload`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Ifconfig, Failure> {
        Ifconfig::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn bsd_lines_are_understood() {
        let change = |up| Ifconfig::Change("lan".into(), InterfaceChange { up: Some(up), monitor: None });
        let monitor = |on| Ifconfig::Change("lan".into(), InterfaceChange { up: None, monitor: Some(on) });
        for (line, means) in [
            ("", Ifconfig::All),
            ("-a", Ifconfig::All),
            ("-l", Ifconfig::Names),
            ("lan", Ifconfig::One("lan".into())),
            ("lan up", change(true)),
            ("lan down", change(false)),
            ("lan monitor", monitor(true)),
            ("lan -monitor", monitor(false)),
        ] {
            assert_eq!(read(line).unwrap(), means, "{line}");
        }
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("lan dwon", "did you mean `down`?"),
            ("lan frobnicate", "known are up, down, monitor, -monitor"),
            ("lan monitro", "did you mean `monitor`?"),
            ("lan inet 10.0.0.1/24", "configuration file"),
            ("lan mtu", "configuration file"),
            ("lan up up", "one word too many"),
            ("-x", "no flag -x"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
