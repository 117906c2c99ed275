//! `[[serve]]`: a folder that is served to the web.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::path::PathBuf;

use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use crate::serve::Limits;

const KEYS: &[&str] =
    &["dir", "address", "port", "memory_mib", "client_memory_mib", "stall_s", "least_bytes_per_s"];
/// Where the web is, if nothing else is said (RFC 9110 §4.2.1).
const PORT: u32 = 80;

/// One `[[serve]]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Serve {
    /// The folder.
    pub folder: PathBuf,
    /// The address, all of both families if it is unspecified, and the port.
    pub addr: SocketAddr,
    /// Memory and pace limits of its readers.
    pub limits: Limits,
}

pub(crate) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> Vec<At<Serve>> {
    let tables = top.tables("serve", report);
    tables
        .into_iter()
        .filter_map(|table| {
            let fields = Fields::new(table.value, table.span, "in [[serve]]", KEYS, report);
            serve(&fields, report)
        })
        .collect()
}

fn serve(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<At<Serve>> {
    if fields.key("dir").is_none() {
        report.add(&fields.span, "nothing is served here", "add a line like dir = \"/srv/www\"");
    }
    let folder = fields.text("dir", report)?;
    let address = fields.parsed("address", address, report);
    let address = address.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |at| at.value);
    let port = fields.number("port", 1..=65_535, report).map_or(PORT, |at| at.value);
    let addr = SocketAddr::new(address, u16::try_from(port).unwrap_or(u16::MAX));
    let limits = limits(fields, report);
    Some(At::new(Serve { folder: folder.value.into(), addr, limits }, fields.span.clone()))
}

fn limits(fields: &Fields<'_>, report: &mut Report<'_>) -> Limits {
    let mut limits = Limits::default();
    if let Some(mib) = fields.number("memory_mib", 1..=1 << 20, report) {
        limits.memory = u64::from(mib.value) << 20;
        limits.client = limits.client.min(limits.memory);
    }
    if let Some(mib) = fields.number("client_memory_mib", 1..=1 << 20, report) {
        limits.client = u64::from(mib.value) << 20;
        if limits.client > limits.memory {
            let text = "one client may hold more than all together";
            report.add(&mib.span, text, "set memory_mib to at least as much, 256 by default");
        }
    }
    if let Some(stall) = fields.number("stall_s", 1..=86_400, report) {
        limits.stall = Duration::from_secs(stall.value.into());
    }
    if let Some(least) = fields.number("least_bytes_per_s", 0..=1_000_000_000, report) {
        limits.slowest = least.value;
    }
    limits
}

pub(super) fn address(text: &str) -> Result<IpAddr, Wrong> {
    text.parse().map_err(|_| {
        let help = "use an address of an interface like 192.0.2.1 or 2001:db8::1, or leave it out for all";
        Wrong::new(format!("`{text}` is not an IP address"), help)
    })
}

/// No two wait at one place.
pub(crate) fn check(serves: &[At<Serve>], report: &mut Report<'_>) -> Vec<Serve> {
    for (at, serve) in serves.iter().enumerate() {
        let is_taken = serves.iter().take(at).any(|other| other.value.addr == serve.value.addr);
        if is_taken {
            let text = format!("{} is served to already", serve.value.addr);
            report.add(&serve.span, text, "give it another address or port");
        }
    }
    serves.iter().map(|serve| serve.value.clone()).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Machine};
    use crate::serve::Limits;
    use core::time::Duration;

    fn limits(text: &str) -> Limits {
        let machine = Machine { cpus: vec![0] };
        let text = format!("[[interface]]\ndevice = \"tap:t0\"\n[[serve]]\ndir = \"/srv\"\n{text}");
        Config::parse("f", &text, &machine).unwrap().serves[0].limits
    }

    #[test]
    fn readers_have_the_usual_limits_or_those_that_are_said() {
        assert_eq!(limits(""), Limits::default());
        let said = "memory_mib = 512\nclient_memory_mib = 64\nstall_s = 20\nleast_bytes_per_s = 0\n";
        let stall = Duration::from_secs(20);
        assert_eq!(limits(said), Limits { memory: 512 << 20, client: 64 << 20, stall, slowest: 0 });
        assert_eq!(limits("memory_mib = 8\n").client, 8 << 20, "no more than all");
    }
}
