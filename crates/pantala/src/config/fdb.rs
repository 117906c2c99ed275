//! `fdb`, `timeout`, `maxaddr`: learnt and static link addresses of an interface; `private`, `span`, `storm` of a bridge.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use net::fdb::{ADDRESSES_MAX, Behind, Settings, Static};
use net::tables::IfIndex;
use wire::ether::Mac;

use super::device::vxlan_end;
use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use super::stp::{self, Stp};

/// Frames that a bridge floods in a second, unless the configuration says otherwise.
const STORM: u32 = 50_000;
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StaticAddress {
    /// The link address; zero for a remote end of a VXLAN that gets what is flooded.
    pub mac: Mac,
    /// The place.
    pub place: Place,
}

/// The place of a station.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// Behind a remote end of a VXLAN.
    Vtep(IpAddr),
    /// Behind a port of a bridge.
    Port(String),
}

/// The ports of a bridge that differ from others, and what it floods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeKeys {
    /// Ports that exchange no frames with each other.
    pub private: Vec<String>,
    /// Ports that only get a copy of all that is received.
    pub span: Vec<String>,
    /// Frames that are flooded in a second; 0 for no limit.
    pub storm: u32,
    /// Its spanning tree, if it takes part in one.
    pub stp: Option<Stp>,
    /// Whether multicast packets go only to the ports with listeners.
    pub snooping: bool,
}

impl Default for BridgeKeys {
    fn default() -> Self {
        Self { private: Vec::new(), span: Vec::new(), storm: STORM, stp: None, snooping: false }
    }
}

impl Default for Fdb {
    fn default() -> Self {
        Self { timeout_s: 1200, addresses_max: 2000, statics: Vec::new() }
    }
}

impl Fdb {
    /// Returns the settings as the netisrs want them, where `index` answers the number of an interface.
    pub(crate) fn to_net(&self, index: impl Fn(&str) -> Option<IfIndex>) -> Settings {
        let place = |entry: &StaticAddress| {
            let behind = match &entry.place {
                Place::Vtep(addr) => Behind::Vtep(*addr),
                Place::Port(name) => Behind::Port(index(name)?),
            };
            Some(Static { mac: entry.mac, behind })
        };
        Settings {
            timeout: Duration::from_secs(self.timeout_s.into()),
            addresses_max: self.addresses_max as usize,
            statics: self.statics.iter().filter_map(place).collect(),
        }
    }
}

/// The keys of an interface that learns.
pub(crate) struct Draft {
    pub(crate) timeout: Option<At<u32>>,
    pub(crate) addresses_max: Option<At<u32>>,
    pub(crate) statics: Vec<At<StaticAddress>>,
    pub(crate) private: Vec<At<String>>,
    pub(crate) span: Vec<At<String>>,
    pub(crate) storm: Option<At<u32>>,
    pub(crate) stp: stp::Draft,
    pub(crate) snooping: Option<At<bool>>,
}

impl Draft {
    /// Returns what is given of a bridge, and the defaults.
    pub(crate) fn bridge(&self) -> BridgeKeys {
        let names = |list: &[At<String>]| list.iter().map(|at| at.value.clone()).collect();
        BridgeKeys {
            private: names(&self.private),
            span: names(&self.span),
            storm: self.storm.as_ref().map_or(STORM, |at| at.value),
            stp: self.stp.settings(),
            snooping: self.snooping.as_ref().is_some_and(|at| at.value),
        }
    }

    /// Returns what is given, and the defaults.
    pub(crate) fn settings(&self) -> Fdb {
        let usual = Fdb::default();
        Fdb {
            timeout_s: self.timeout.as_ref().map_or(usual.timeout_s, |at| at.value),
            addresses_max: self.addresses_max.as_ref().map_or(usual.addresses_max, |at| at.value),
            statics: self.statics.iter().map(|at| at.value.clone()).collect(),
        }
    }
}

pub(crate) fn read(fields: &Fields<'_>, report: &mut Report<'_>) -> Draft {
    Draft {
        timeout: fields.number("timeout", 0..=TIMEOUT_MAX, report),
        addresses_max: fields.number("maxaddr", 1..=ADDRESSES, report),
        statics: fields.parsed_list("fdb", static_address, report),
        private: fields.parsed_list("private", |name| Ok(name.to_owned()), report),
        span: fields.parsed_list("span", |name| Ok(name.to_owned()), report),
        storm: fields.number("storm", 0..=100_000_000, report),
        stp: stp::read(fields, report),
        snooping: fields.truth("snooping", report),
    }
}

fn static_address(text: &str) -> Result<StaticAddress, Wrong> {
    const HELP: &str = "write \"MAC REMOTE\" or \"MAC PORT\", as in \"02:00:00:00:00:07 198.51.100.1\"";
    let wrong = |message: String| Wrong::new(message, HELP);
    let Some((mac, place)) = text.split_once(' ') else {
        return Err(wrong(format!("`{text}` does not say behind which remote end or port the station is")));
    };
    let mac: Mac = mac.parse().map_err(|_| wrong(format!("`{mac}` is no link address")))?;
    if mac.is_multicast() {
        return Err(wrong(format!("{mac} is a group, which is at no single place")));
    }

    let place = place.trim();
    if !place.contains([':', '.']) {
        return Ok(StaticAddress { mac, place: Place::Port(place.to_owned()) });
    }
    match vxlan_end(place)? {
        vtep if vtep.is_multicast() => Err(wrong(format!("{vtep} is a group"))),
        vtep => Ok(StaticAddress { mac, place: Place::Vtep(vtep) }),
    }
}

impl fmt::Display for StaticAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Vtep(addr) => write!(f, "{} {addr}", self.mac),
            Place::Port(name) => write!(f, "{} {name}", self.mac),
        }
    }
}
