//! The two ends of a script's connections: addresses and ports, as packetdrill chooses them.

use core::net::{IpAddr, Ipv4Addr};

use drill::Script;
use drill::script::{IpVersion, SettingValue};
use net::tables::IfAddr;

use super::linux;

/// The port that programs bind, and the one that they connect to, if a script does not say.
const PORT: u16 = 8080;
/// Bytes of the largest packet on the link, if a script does not say.
const MTU: u16 = 1500;

/// Addresses and ports.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    /// IP version of sockets and packets.
    pub(super) version: IpVersion,
    /// The host's address, with its prefix.
    pub(super) local: IfAddr,
    /// Where the other end is.
    pub(super) remote: IpAddr,
    /// The gateway to it.
    pub(super) gateway: IpAddr,
    /// Port of `bind` with `...`.
    pub(super) bind_port: u16,
    /// Port of `connect` with `...`.
    pub(super) connect_port: u16,
    /// Bytes of the largest packet on the link.
    pub(super) mtu: u16,
    /// It was written for Linux.
    pub(super) is_linux: bool,
    /// Its card cuts segments.
    pub(super) cuts: bool,
    /// Key of segment signatures, in both directions.
    pub(super) secret: Option<Vec<u8>>,
}

impl Endpoints {
    /// Reads the options of a script; `version` is the default.
    ///
    /// Such a script may be meant for any, and is if its packets are as long: so links of IPv6 are wider then.
    pub(super) fn of(script: &Script, version: IpVersion) -> Result<Self, String> {
        let wider = script.ip_version().is_none() && version == IpVersion::Ipv6;
        let version = script.ip_version().unwrap_or(version);
        let (local, gateway, remote, len) = match version {
            IpVersion::Ipv6 => ("fd3d:fa7b:d17d::1", "fd3d:fa7b:d17d::2", "2001:db8::1", 48),
            IpVersion::Ipv4 | IpVersion::Ipv4MappedIpv6 => {
                ("192.168.0.1", "192.168.0.2", "192.0.2.1", netmask_len(script)?)
            }
        };
        let port = |name| script.number(name).and_then(|port| u16::try_from(port).ok());
        let mtu = script.number("mtu").and_then(|mtu| u16::try_from(mtu).ok());
        Ok(Self {
            version,
            local: IfAddr { addr: addr(script, "local_ip", local)?, prefix_len: len },
            remote: addr(script, "remote_ip", remote)?,
            gateway: addr(script, "gateway_ip", gateway)?,
            bind_port: port("bind_port").unwrap_or(PORT),
            connect_port: port("connect_port").unwrap_or(PORT),
            is_linux: linux::wrote(script),
            cuts: linux::cuts(script),
            mtu: mtu.unwrap_or(if wider { MTU + 20 } else { MTU }),
            secret: word(script, "tcp_md5_secret").map(|secret| secret.as_bytes().to_vec()),
        })
    }

    /// Whether packets are IPv6.
    pub(super) const fn is_ipv6(&self) -> bool {
        matches!(self.version, IpVersion::Ipv6)
    }
}

fn word<'a>(script: &'a Script, name: &str) -> Option<&'a str> {
    match script.option(name)? {
        SettingValue::Word(word) | SettingValue::Text(word) => Some(word),
        SettingValue::Define { .. } => None,
    }
}

fn addr(script: &Script, name: &str, default: &str) -> Result<IpAddr, String> {
    let text = word(script, name).unwrap_or(default);
    text.parse().map_err(|_| format!("--{name}={text} is no address"))
}

fn netmask_len(script: &Script) -> Result<u8, String> {
    let text = word(script, "netmask_ip").unwrap_or("255.255.0.0");
    let mask = text.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits);
    match mask.map(|mask| (mask, mask.leading_ones())) {
        Ok((mask, ones)) if mask.count_ones() == ones => Ok(u8::try_from(ones).unwrap_or(32)),
        _ => Err(format!("--netmask_ip={text} is no mask")),
    }
}
