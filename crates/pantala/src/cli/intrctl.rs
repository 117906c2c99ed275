//! `intrctl list | affinity`: whose rings are, and giving them to other CPUs.

use super::flags::Flags;
use super::{Failure, Session};
use crate::api::client::escaped;
use crate::api::{Ring, RingChange};
use crate::show;
use diagnostic::did_you_mean;

pub(crate) const USAGE: &str = "\
pantala intrctl list [IF]
       pantala intrctl affinity IF RING CPU";

pub(crate) const HELP: &str = "  list      rings: device and queue, CPU, counters, polling, steering
  affinity  move a ring to another CPU while packets flow; none is lost

Steering is the place where frames are directed to the CPUs of their flows:
the NIC (nic), a program in the kernel (program), or the CPUs, which hand
packets to each other (hand-off).
A moved ring stays on its CPU until its interface is opened again. The ring
and its netisr move; the device's interrupts (/proc/irq/N/smp_affinity) do not.

Examples:
  pantala intrctl list
  pantala intrctl affinity wan 1 3";

const WORDS: &[&str] = &["list", "affinity"];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Intrctl {
    List { interface: Option<String> },
    Affinity { interface: String, ring: u32, cpu: u32 },
}

impl Intrctl {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("intrctl", words, "", "")?;
        match flags.operands.split_first() {
            None => {
                Err(Failure::usage("intrctl: say what to do: list or affinity (see pantala intrctl --help)"))
            }
            Some((word, rest)) => match word.as_str() {
                "list" => list(rest),
                "affinity" => affinity(rest),
                other => {
                    let help = did_you_mean(other, WORDS);
                    Err(Failure::usage(format!("intrctl: unknown word `{other}`; {help}")))
                }
            },
        }
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::List { interface } => {
                let rings = rings(interface.as_deref(), session)?;
                session.show(&rings, |rings| show::rings(rings))
            }
            Self::Affinity { interface, ring, cpu } => {
                let path = format!("/v1/interfaces/{}/rings/{ring}", escaped(&interface));
                let () = session.client.put(&path, &RingChange { cpu })?;
                session.done("")
            }
        }
    }
}

fn list(rest: &[String]) -> Result<Intrctl, Failure> {
    match rest {
        [] => Ok(Intrctl::List { interface: None }),
        [one] => Ok(Intrctl::List { interface: Some(one.clone()) }),
        [_, extra, ..] => Err(Failure::usage(format!("intrctl: `{extra}` is one word too many"))),
    }
}

fn affinity(rest: &[String]) -> Result<Intrctl, Failure> {
    match rest {
        [interface, ring, cpu] => Ok(Intrctl::Affinity {
            interface: interface.clone(),
            ring: number("ring", ring)?,
            cpu: number("CPU", cpu)?,
        }),
        [_, _, _, extra, ..] => Err(Failure::usage(format!("intrctl: `{extra}` is one word too many"))),
        _ => Err(Failure::usage("intrctl: affinity takes an interface, the number of a ring, and a CPU")),
    }
}

fn number(what: &str, word: &str) -> Result<u32, Failure> {
    word.parse().map_err(|_| Failure::usage(format!("intrctl: `{word}` is not the number of a {what}")))
}

fn rings(one: Option<&str>, session: &Session<'_>) -> Result<Vec<Ring>, Failure> {
    let all: Vec<Ring> = session.client.get("/v1/rings")?;
    let Some(name) = one else { return Ok(all) };
    let found: Vec<Ring> = all.iter().filter(|ring| ring.interface == name).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut names: Vec<&str> = all.iter().map(|ring| ring.interface.as_str()).collect();
    names.dedup();
    Err(Failure::Failed(format!("no interface `{name}` has rings; {}", did_you_mean(name, &names))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Intrctl, Failure> {
        Intrctl::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn its_lines_are_understood() {
        assert_eq!(read("list").unwrap(), Intrctl::List { interface: None });
        assert_eq!(read("list lan").unwrap(), Intrctl::List { interface: Some("lan".into()) });
        let affinity = Intrctl::Affinity { interface: "lan".into(), ring: 1, cpu: 3 };
        assert_eq!(read("affinity lan 1 3").unwrap(), affinity);
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("", "say what to do"),
            ("lsit", "did you mean `list`?"),
            ("afinity lan 0 1", "did you mean `affinity`?"),
            ("list lan wan", "one word too many"),
            ("affinity lan 0", "takes an interface, the number of a ring, and a CPU"),
            ("affinity lan one 1", "`one` is not the number of a ring"),
            ("affinity lan 0 cpu1", "`cpu1` is not the number of a CPU"),
            ("affinity lan 0 1 2", "`2` is one word too many"),
            ("-x list", "no flag -x"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
