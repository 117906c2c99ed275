//! The section `[ipfix]`: flows told to a collector.

use core::net::SocketAddr;

use super::fields::Fields;
use super::problem::{Report, Wrong};

const KEYS: &[&str] = &["collector", "active_timeout", "inactive_timeout", "template_interval", "domain"];

/// Export of flows (RFC 7011).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipfix {
    /// The collector, which is reached by the kernel.
    pub collector: SocketAddr,
    /// Seconds after which a flow that goes on is told.
    pub active_timeout_s: u32,
    /// Seconds without a packet after which a flow is told.
    pub inactive_timeout_s: u32,
    /// Seconds between two messages with templates.
    pub template_s: u32,
    /// Observation domain.
    pub domain: u32,
}

pub(super) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> Option<Ipfix> {
    let Some(table) = top.section("ipfix") else {
        let span = top.key("ipfix")?;
        report.add(&span, "`ipfix` must be a section, [ipfix]", "it has keys of its own, like collector");
        return None;
    };
    let fields = Fields::new(table.value, table.span, "in [ipfix]", KEYS, report);
    let collector = fields.parsed("collector", collector, report);
    if fields.key("collector").is_none() {
        let help = "write its address and port, as in collector = \"192.0.2.9:4739\"";
        report.add(&fields.span, "[ipfix] has no collector", help);
    }
    let mut seconds = |key, usual| fields.number(key, 1..=86_400, report).map_or(usual, |at| at.value);
    let (active_timeout_s, inactive_timeout_s) =
        (seconds("active_timeout", 60), seconds("inactive_timeout", 15));
    let template_s = seconds("template_interval", 60);
    let domain = fields.number("domain", 0..=u32::MAX, report).map_or(0, |at| at.value);
    Some(Ipfix { collector: collector?.value, active_timeout_s, inactive_timeout_s, template_s, domain })
}

pub(super) fn collector(text: &str) -> Result<SocketAddr, Wrong> {
    let help = "write an address and a port, as in 192.0.2.9:4739 or [2001:db8::9]:4739";
    let addr: SocketAddr = text.parse().map_err(|_| Wrong::new(format!("bad address `{text}`"), help))?;
    if addr.port() == 0 || addr.ip().is_unspecified() {
        return Err(Wrong::new(format!("no collector can be at `{text}`"), help));
    }
    Ok(addr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<Option<Ipfix>, String> {
        let text = format!("{text}\n[[interface]]\ndevice = \"tap:pt-x\"\n");
        let parsed = Config::parse("t", &text, &Machine { cpus: vec![0] });
        parsed.map(|config| config.ipfix).map_err(|why| why.to_string())
    }

    #[test]
    fn only_the_collector_must_be_named() {
        assert_eq!(parse(""), Ok(None));
        let ipfix =
            parse("[ipfix]\ncollector = \"[2001:db8::9]:4739\"\nactive_timeout = 5").unwrap().unwrap();
        assert_eq!((ipfix.active_timeout_s, ipfix.inactive_timeout_s, ipfix.template_s), (5, 15, 60));
    }

    #[test]
    fn each_error_is_refused_where_it_stands() {
        for (text, says) in [
            ("ipfix = true", "`ipfix` must be a section"),
            ("[ipfix]", "[ipfix] has no collector"),
            ("[ipfix]\ncollector = \"collector.example:4739\"", "bad address"),
            ("[ipfix]\ncollector = \"192.0.2.9:0\"", "no collector can be at"),
            ("[ipfix]\ncollector = \"0.0.0.0:4739\"", "no collector can be at"),
            ("[ipfix]\ncollector = \"192.0.2.9:4739\"\nactive_timeout = 0", "too small"),
            ("[ipfix]\ncollector = \"192.0.2.9:4739\"\ncolector = 1", "unknown key"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
