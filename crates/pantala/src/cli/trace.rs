//! `trace`: the next packets on their way, step by step.

use core::ops::ControlFlow;

use dev::sys::libpcap;
use wire::pcap;

use super::flags::Flags;
use super::{Failure, Session};
use crate::api::TraceRequest;
use crate::show;

pub(crate) const USAGE: &str = "pantala trace [-v] [-c COUNT] [FILTER ...]";

pub(crate) const HELP: &str = "  -c COUNT  packets to trace [default: 10]
  -v        also show counters

FILTER is a pcap-filter(7), which libpcap compiles if it is installed. It sees
packets as they come in. Each step has the processor cycles that it took; a
traced packet goes alone, so that they are more than those of a busy stack.
A packet that another CPU owns is traced on both.

Examples:
  pantala trace host 192.0.2.7
  pantala trace -c 1 tcp port 443 and 'tcp[tcpflags] & tcp-syn != 0'";

/// Packets that are traced unless the line says how many.
const COUNT: u32 = 10;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    count: u32,
    filter: String,
    verbose: bool,
}

impl Trace {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("trace", words, "v", "c")?;
        let count = flags.number("trace", 'c')?.unwrap_or(COUNT);
        if count == 0 {
            return Err(Failure::usage("trace: -c takes 1 or more"));
        }
        Ok(Self { count, filter: flags.operands.join(" "), verbose: flags.has('v') })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Session { client, json, term } = session;
        let mut filter = Vec::new();
        if !self.filter.is_empty() {
            let insns = libpcap::compile(&self.filter, pcap::SNAP_LEN).map_err(|why| match why {
                libpcap::CompileError::Filter(_) => Failure::usage(format!("trace: {why}")),
                _ => Failure::Failed(format!("trace: {why}; without a filter all packets are traced")),
            })?;
            filter = insns.iter().map(|insn| (insn.code, insn.jt, insn.jf, insn.k)).collect();
        }
        let request = TraceRequest { count: self.count, filter };
        client.trace(&request, |packet| {
            let text = if *json {
                serde_json::to_string(&packet).map(|line| line + "\n").unwrap_or_default()
            } else {
                show::traced(&packet, self.verbose) + "\n"
            };
            term.show(&text)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Trace, Failure> {
        Trace::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_count_and_a_filter_are_understood() {
        let trace = read("-c 3 -v host 192.0.2.1").unwrap();
        assert_eq!(trace, Trace { count: 3, filter: "host 192.0.2.1".into(), verbose: true });
        assert_eq!(read("").unwrap().count, COUNT);
        assert!(matches!(read("-c 0"), Err(Failure::Usage(_))));
    }
}
