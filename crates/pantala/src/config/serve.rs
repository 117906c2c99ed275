//! `[[serve]]`: a folder that is served to the web.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::fields::Fields;
use super::problem::{At, Report, Wrong};

const KEYS: &[&str] = &["dir", "address", "port"];
/// Where the web is, if nothing else is said (RFC 9110 §4.2.1).
const PORT: u32 = 80;

/// One `[[serve]]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Serve {
    /// The folder.
    pub folder: PathBuf,
    /// The address, all of both families if it is unspecified, and the port.
    pub addr: SocketAddr,
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
    Some(At::new(Serve { folder: folder.value.into(), addr }, fields.span.clone()))
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
