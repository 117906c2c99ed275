//! The key `dhcp` of an interface: its IPv4 address comes from a DHCP server; true, or a section with all of it.

use std::path::PathBuf;

use super::fields::Fields;
use super::problem::{Report, Wrong};

const KEYS: &[&str] = &["hostname", "lease"];
/// The folder of leases, if the file does not say.
const FOLDER: &str = "/var/lib/pantala";

/// A DHCP client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DhcpClient {
    /// The name that it tells servers.
    pub hostname: Option<String>,
    /// Where its lease is kept; by the interface's name if `None`.
    pub lease: Option<PathBuf>,
}

impl DhcpClient {
    /// Where the lease of an interface is kept.
    pub(crate) fn path(&self, interface: &str) -> PathBuf {
        self.lease.clone().unwrap_or_else(|| PathBuf::from(FOLDER).join(format!("{interface}.lease")))
    }
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<DhcpClient> {
    interface.key("dhcp")?;
    let Some(table) = interface.section("dhcp") else {
        return interface.truth("dhcp", report)?.value.then(DhcpClient::default);
    };
    let fields = Fields::new(table.value, table.span, "in dhcp", KEYS, report);
    Some(DhcpClient {
        hostname: fields.parsed("hostname", hostname, report).map(|at| at.value),
        lease: fields.parsed("lease", path, report).map(|at| at.value),
    })
}

pub(super) fn path(text: &str) -> Result<PathBuf, Wrong> {
    if text.is_empty() || text.ends_with('/') {
        let help = "write a path as in \"/var/lib/pantala/wan.lease\"";
        return Err(Wrong::new("this cannot be the name of a file", help));
    }
    Ok(text.into())
}

fn hostname(text: &str) -> Result<String, Wrong> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if text.is_empty() || text.len() > 255 || !text.bytes().all(is_plain) {
        return Err(Wrong::new(format!("`{text}` is no host name"), "use letters, digits, `-` and `.`"));
    }
    Ok(text.to_owned())
}
