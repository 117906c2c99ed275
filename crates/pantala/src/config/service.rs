//! `[[service]]`: a small service of this host's own, in the manner of those inside inetd.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use net::app::services;

use super::Serve;
use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use super::serve::address;
use diagnostic::did_you_mean;

const KEYS: &[&str] = &["kind", "address", "port", "to"];
const WORDS: &[&str] = &["echo", "discard", "chargen", "relay"];

/// One `[[service]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Service {
    /// Its kind.
    pub kind: ServiceKind,
    /// The address, all of both families if it is unspecified, and the port.
    pub addr: SocketAddr,
}

/// The kind of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceKind {
    /// One of those that every host once had, over TCP and UDP.
    Own(services::Kind),
    /// A relay: forwards each accepted connection to this address.
    Relay(SocketAddr),
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(services::Kind::Echo) => f.write_str("echo"),
            Self::Own(services::Kind::Discard) => f.write_str("discard"),
            Self::Own(services::Kind::Chargen) => f.write_str("chargen"),
            Self::Relay(to) => write!(f, "relay to {to}"),
        }
    }
}

pub(crate) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> Vec<At<Service>> {
    let tables = top.tables("service", report);
    tables
        .into_iter()
        .filter_map(|table| {
            let fields = Fields::new(table.value, table.span, "in [[service]]", KEYS, report);
            service(&fields, report)
        })
        .collect()
}

fn service(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<At<Service>> {
    if fields.key("kind").is_none() {
        report.add(&fields.span, "no service is named here", "add a line like kind = \"echo\"");
    }
    let word = fields.parsed("kind", word, report);
    let to = fields.parsed("to", target, report);
    let address = fields.parsed("address", address, report);
    let port = fields.number("port", 1..=65_535, report).and_then(|at| u16::try_from(at.value).ok());
    let (kind, usual) = match (word?.value, to) {
        ("relay", Some(to)) => (ServiceKind::Relay(to.value), None),
        ("relay", None) => {
            let help = "add a line like to = \"192.0.2.1:80\"";
            report.add(&fields.span, "the relay leads nowhere", help);
            return None;
        }
        (_, Some(to)) => {
            report.add(&to.span, "`to` is of a relay", "leave it out, or write kind = \"relay\"");
            return None;
        }
        //= https://www.rfc-editor.org/rfc/rfc862#section-1
        //= https://www.rfc-editor.org/rfc/rfc863#section-1
        //= https://www.rfc-editor.org/rfc/rfc864#section-1
        ("echo", None) => (ServiceKind::Own(services::Kind::Echo), Some(7)),
        ("discard", None) => (ServiceKind::Own(services::Kind::Discard), Some(9)),
        (_, None) => (ServiceKind::Own(services::Kind::Chargen), Some(19)),
    };
    let Some(port) = port.or(usual) else {
        report.add(&fields.span, "the relay has no port", "add a line like port = 8080");
        return None;
    };
    let address = address.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |at| at.value);
    Some(At::new(Service { kind, addr: SocketAddr::new(address, port) }, fields.span.clone()))
}

fn word(text: &str) -> Result<&'static str, Wrong> {
    let found = WORDS.iter().find(|word| **word == text).copied();
    found.ok_or_else(|| Wrong::new(format!("there is no service `{text}`"), did_you_mean(text, WORDS)))
}

fn target(text: &str) -> Result<SocketAddr, Wrong> {
    let is_target = |to: &SocketAddr| to.port() != 0 && !to.ip().is_unspecified() && !to.ip().is_multicast();
    text.parse().ok().filter(is_target).ok_or_else(|| {
        let help = "write an address and a port, as in 192.0.2.1:80 or [2001:db8::1]:80";
        Wrong::new(format!("`{text}` is nobody to connect to"), help)
    })
}

/// No two wait at one place.
pub(crate) fn check(services: &[At<Service>], serves: &[At<Serve>], report: &mut Report<'_>) -> Vec<Service> {
    for (at, service) in services.iter().enumerate() {
        let addr = service.value.addr;
        let before = services.iter().take(at).any(|other| other.value.addr == addr);
        if before || serves.iter().any(|serve| serve.value.addr == addr) {
            report.add(&service.span, format!("{addr} is taken already"), "give it another address or port");
        }
    }
    services.iter().map(|service| service.value).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Machine, Service, ServiceKind};
    use net::app::services::Kind;

    fn parse(text: &str) -> Result<Vec<Service>, String> {
        let machine = Machine { cpus: vec![0] };
        let text = format!("[[interface]]\ndevice = \"tap:t0\"\n{text}");
        let config = Config::parse("f", &text, &machine);
        config.map(|config| config.services).map_err(|problems| problems.to_string())
    }

    #[test]
    fn services_have_the_ports_that_everybody_knows_or_those_that_are_said() {
        let text = "[[service]]\nkind = \"echo\"\n[[service]]\nkind = \"discard\"\n\
                    [[service]]\nkind = \"chargen\"\n\
                    [[service]]\nkind = \"echo\"\naddress = \"192.0.2.1\"\nport = 7000\n\
                    [[service]]\nkind = \"relay\"\nport = 80\nto = \"[2001:db8::1]:8080\"\n";
        let own = |kind, addr: &str| Service { kind: ServiceKind::Own(kind), addr: addr.parse().unwrap() };
        let to = "[2001:db8::1]:8080".parse().unwrap();
        let wanted = [
            own(Kind::Echo, "[::]:7"),
            own(Kind::Discard, "[::]:9"),
            own(Kind::Chargen, "[::]:19"),
            own(Kind::Echo, "192.0.2.1:7000"),
            Service { kind: ServiceKind::Relay(to), addr: "[::]:80".parse().unwrap() },
        ];
        assert_eq!(parse(text).unwrap(), wanted);
    }

    #[test]
    fn what_is_wrong_with_a_service_is_said() {
        for (text, wanted) in [
            ("port = 7", "no service is named here"),
            ("kind = \"ehco\"", "did you mean `echo`?"),
            ("kind = \"relay\"\nport = 8080", "the relay leads nowhere"),
            ("kind = \"relay\"\nto = \"192.0.2.1:80\"", "the relay has no port"),
            ("kind = \"relay\"\nport = 80\nto = \"192.0.2.1\"", "`192.0.2.1` is nobody to connect to"),
            ("kind = \"relay\"\nport = 80\nto = \"0.0.0.0:80\"", "`0.0.0.0:80` is nobody to connect to"),
            ("kind = \"echo\"\nto = \"192.0.2.1:80\"", "`to` is of a relay"),
            ("kind = \"echo\"\n[[service]]\nkind = \"echo\"", "[::]:7 is taken already"),
            ("kind = \"echo\"\nport = 80\n[[serve]]\ndir = \"/srv\"", "[::]:80 is taken already"),
        ] {
            let said = parse(&format!("[[service]]\n{text}\n")).unwrap_err();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
