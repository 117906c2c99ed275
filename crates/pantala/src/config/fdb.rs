//! `fdb`, `timeout`, `maxaddr`: learnt and static link addresses of an interface.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use net::fdb::{ADDRESSES_MAX, Behind, Settings, Static};
use wire::ether::Mac;

use super::device::vxlan_end;
use super::fields::Fields;
use super::problem::{At, Report, Wrong};

/// Longest timeout, seconds.
const TIMEOUT_MAX: u32 = 7 * 86_400;
#[expect(clippy::cast_possible_truncation, reason = "65,536")]
const ADDRESSES: u32 = ADDRESSES_MAX as u32;

/// Learnt and static link addresses of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fdb {
    /// Seconds after which a silent station is forgotten; 0 for never.
    pub timeout_s: u32,
    /// Addresses that are learnt.
    pub addresses_max: u32,
    /// Static addresses.
    pub statics: Vec<StaticAddress>,
}

/// A static link address, and the place of its station.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StaticAddress {
    /// The link address; zero for a remote end that gets what is flooded.
    pub mac: Mac,
    /// The remote end that it is behind.
    pub vtep: IpAddr,
}

impl Default for Fdb {
    fn default() -> Self {
        Self { timeout_s: 1200, addresses_max: 2000, statics: Vec::new() }
    }
}

impl Fdb {
    /// Returns the settings as the netisrs want them.
    pub(crate) fn to_net(&self) -> Settings {
        let place = |entry: &StaticAddress| Static { mac: entry.mac, behind: Behind::Vtep(entry.vtep) };
        Settings {
            timeout: Duration::from_secs(self.timeout_s.into()),
            addresses_max: self.addresses_max as usize,
            statics: self.statics.iter().map(place).collect(),
        }
    }
}

/// The keys of an interface that learns.
pub(crate) struct Draft {
    pub(crate) timeout: Option<At<u32>>,
    pub(crate) addresses_max: Option<At<u32>>,
    pub(crate) statics: Vec<At<StaticAddress>>,
}

impl Draft {
    /// Returns what is given, and the defaults.
    pub(crate) fn settings(&self) -> Fdb {
        let usual = Fdb::default();
        Fdb {
            timeout_s: self.timeout.as_ref().map_or(usual.timeout_s, |at| at.value),
            addresses_max: self.addresses_max.as_ref().map_or(usual.addresses_max, |at| at.value),
            statics: self.statics.iter().map(|at| at.value).collect(),
        }
    }
}

pub(crate) fn read(fields: &Fields<'_>, report: &mut Report<'_>) -> Draft {
    Draft {
        timeout: fields.number("timeout", 0..=TIMEOUT_MAX, report),
        addresses_max: fields.number("maxaddr", 1..=ADDRESSES, report),
        statics: fields.parsed_list("fdb", static_address, report),
    }
}

fn static_address(text: &str) -> Result<StaticAddress, Wrong> {
    const HELP: &str = "write \"MAC REMOTE\", as in \"02:00:00:00:00:07 198.51.100.1\"";
    let wrong = |message: String| Wrong::new(message, HELP);
    let Some((mac, vtep)) = text.split_once(' ') else {
        return Err(wrong(format!("`{text}` does not say behind which remote end the station is")));
    };
    let mac: Mac = mac.parse().map_err(|_| wrong(format!("`{mac}` is no link address")))?;
    if mac.is_multicast() {
        return Err(wrong(format!("{mac} is a group, which is behind no single remote end")));
    }
    let vtep = vxlan_end(vtep.trim())?;
    if vtep.is_multicast() {
        Err(wrong(format!("{vtep} is a group")))
    } else {
        Ok(StaticAddress { mac, vtep })
    }
}

impl fmt::Display for StaticAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mac, self.vtep)
    }
}
