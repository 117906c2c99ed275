//! `ps`: unmodified programs that have sockets of the running stack.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use super::flags::Flags;
use super::{Failure, Session};
use crate::api::Programs;
use crate::show;

pub(crate) const USAGE: &str = "pantala ps [-w SECONDS]";

pub(crate) const HELP: &str = "\
Shows the programs started by `pantala run` that have sockets of the running
pantala: process, user, sockets, bytes that wait in their Unix sockets,
requests (of sockets, addresses and options), reads and writes that moved data,
and bytes to and from the network since they were first seen. An accepted
connection belongs to the process that has bound its listener.

  -w SECONDS  watch for so long, and show rates per second instead

Examples:
  pantala ps
  pantala ps -w 1
  pantala ps --json";

/// The longest time to watch.
const WATCH_MAX_S: f64 = 3600.0;

/// The command.
#[derive(Debug, PartialEq)]
pub(crate) struct Ps {
    watch: Option<Duration>,
}

impl Ps {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("ps", words, "", "w")?;
        flags.no_operands("ps")?;
        let watch = flags.value('w').map(seconds).transpose()?;
        Ok(Self { watch })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let before = programs(session)?;
        let Some(watch) = self.watch else { return session.show(&before, show::programs) };
        let begun = Instant::now();
        thread::sleep(watch);
        let now = programs(session)?;
        let passed = begun.elapsed();
        session.show(&now, |now| show::program_rates(&before, now, passed))
    }
}

fn programs(session: &Session<'_>) -> Result<Programs, Failure> {
    let programs: Option<Programs> = session.client.get("/v1/programs")?;
    programs.ok_or_else(|| {
        Failure::Failed("no programs are served: the configuration has no section [programs]".to_owned())
    })
}

fn seconds(text: &str) -> Result<Duration, Failure> {
    let wrong = || Failure::usage(format!("ps: -w {text}: give a number of seconds, 0.001 to 3600"));
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if (0.001..=WATCH_MAX_S).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Ps, Failure> {
        Ps::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn lines_are_understood_or_explained() {
        assert_eq!(read("").unwrap(), Ps { watch: None });
        assert_eq!(read("-w 0.5").unwrap(), Ps { watch: Some(Duration::from_millis(500)) });
        for (line, says) in
            [("-w 0", "0.001 to 3600"), ("-w x", "0.001 to 3600"), ("nginx", "one word too many")]
        {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
