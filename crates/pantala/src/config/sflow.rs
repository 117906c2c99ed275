//! The section `[sflow]`: samples of frames and counters, told to a collector.

use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU32;

use super::fields::Fields;
use super::ipfix::collector;
use super::problem::{Report, Wrong};

const KEYS: &[&str] = &["collector", "sampling", "polling", "header", "agent"];
/// Bytes of a frame that are told, by default and at the most.
const HEADER: u32 = 128;
const HEADER_MAX: u32 = 512;

/// Samples of frames and counters (sFlow version 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sflow {
    /// The collector, which is reached by the kernel.
    pub collector: SocketAddr,
    /// Number of received frames of which one is told, on average.
    pub sampling: NonZeroU32,
    /// Seconds between two tellings of each interface's counters.
    pub polling_s: u32,
    /// Bytes of a frame that are told.
    pub header: u32,
    /// The address that this machine is known by; `None`: the one that the kernel sends from.
    pub agent: Option<IpAddr>,
}

pub(super) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> Option<Sflow> {
    let Some(table) = top.section("sflow") else {
        let span = top.key("sflow")?;
        report.add(&span, "`sflow` must be a section, [sflow]", "it has keys of its own, like collector");
        return None;
    };
    let fields = Fields::new(table.value, table.span, "in [sflow]", KEYS, report);
    let collector = fields.parsed("collector", collector, report);
    if fields.key("collector").is_none() {
        let help = "write its address and port, as in collector = \"192.0.2.9:6343\"";
        report.add(&fields.span, "[sflow] has no collector", help);
    }
    let sampling = fields.number("sampling", 1..=1 << 24, report).map_or(1000, |at| at.value);
    let polling_s = fields.number("polling", 1..=86_400, report).map_or(20, |at| at.value);
    let header = fields.number("header", 14..=HEADER_MAX, report).map_or(HEADER, |at| at.value);
    let agent = fields.parsed("agent", agent, report).map(|at| at.value);
    let sampling = NonZeroU32::new(sampling)?;
    Some(Sflow { collector: collector?.value, sampling, polling_s, header, agent })
}

fn agent(text: &str) -> Result<IpAddr, Wrong> {
    text.parse().map_err(|_| {
        Wrong::new(format!("bad address `{text}`"), "write an address of this machine, as in 192.0.2.1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<Option<Sflow>, String> {
        let text = format!("{text}\n[[interface]]\ndevice = \"tap:pt-x\"\n");
        let parsed = Config::parse("t", &text, &Machine { cpus: vec![0] });
        parsed.map(|config| config.sflow).map_err(|why| why.to_string())
    }

    #[test]
    fn only_the_collector_must_be_named() {
        assert_eq!(parse(""), Ok(None));
        let sflow = parse("[sflow]\ncollector = \"[2001:db8::9]:6343\"\nsampling = 5\nagent = \"192.0.2.1\"");
        let sflow = sflow.unwrap().unwrap();
        assert_eq!((sflow.sampling.get(), sflow.polling_s, sflow.header), (5, 20, 128));
        assert_eq!(sflow.agent, Some([192, 0, 2, 1].into()));
    }

    #[test]
    fn each_error_is_refused_where_it_stands() {
        for (text, says) in [
            ("sflow = true", "`sflow` must be a section"),
            ("[sflow]", "[sflow] has no collector"),
            ("[sflow]\ncollector = \"192.0.2.9:0\"", "no collector can be at"),
            ("[sflow]\ncollector = \"192.0.2.9:6343\"\nsampling = 0", "too small"),
            ("[sflow]\ncollector = \"192.0.2.9:6343\"\nheader = 1000", "too large"),
            ("[sflow]\ncollector = \"192.0.2.9:6343\"\nagent = \"here\"", "bad address"),
            ("[sflow]\ncollector = \"192.0.2.9:6343\"\ncolector = 1", "unknown key"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
