//! The configuration of an instance, compiled: shared by all CPUs, and never changed.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use core::ops::RangeInclusive;

use ipfw::command::NatConfig;

use super::headers::End;
use super::redirect::{self, Redirects};
use super::table::Lifetimes;
use crate::base::secret::fold;
use crate::link::tables::{IfIndex, Tables};

/// The ports that others see, unless the configuration says otherwise.
//= https://www.rfc-editor.org/rfc/rfc6056#section-3.2
pub const PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

/// Bindings of an instance on each CPU, unless the shell says otherwise: 16 MiB, and 4 for their chains.
pub const BINDINGS: usize = 1 << 18;

/// The configuration of an instance.
#[derive(Debug)]
pub struct Spec {
    /// Its number.
    pub number: u16,
    /// The address that others see; `None` while its interface has none.
    pub addr: Option<u32>,
    /// The interface that has the address; 0 if none does.
    pub outside_if: IfIndex,
    /// Drops unsolicited packets.
    pub deny_in: bool,
    /// Ports are kept where they can be.
    pub same_ports: bool,
    /// Which sources are translated.
    pub sources: Sources,
    /// All bindings end when the address changes.
    pub reset: bool,
    /// Inside is outside.
    pub reverse: bool,
    /// Nothing is translated.
    pub proxy_only: bool,
    /// The ports that others see.
    pub range: RangeInclusive<u16>,
    /// Lifetimes of bindings.
    pub lifetimes: Lifetimes,
    /// Bindings on each CPU at the most.
    pub max: usize,
    /// Redirections to hosts inside.
    pub redirects: Redirects,
    /// Key that makes the order of tried ports unpredictable outside.
    key: [u64; 2],
}

/// Which sources are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// All.
    All,
    /// Private ones (RFC 1918).
    Private,
    /// Private ones, and those shared by the customers of a provider (RFC 6598).
    Unregistered,
}

/// Why there is no such instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Neither `ip` nor `if`.
    NoAddress,
    /// There is no interface of this name.
    NoInterface(String),
    /// A redirection that cannot be.
    Redirect(redirect::Error),
}

impl Spec {
    /// Works out how the instance translates, with the addresses that interfaces have in `tables`. All CPUs, and all
    /// versions of an instance, must have the same `key`, which is secret.
    ///
    /// # Errors
    ///
    /// All of [`Error`].
    pub fn new(number: u16, config: &NatConfig, tables: &Tables, key: u128) -> Result<Self, Error> {
        let (addr, outside_if) = address(config, tables)?;
        let sources = match config {
            NatConfig { unreg_cgn: true, .. } => Sources::Unregistered,
            NatConfig { unreg_only: true, .. } => Sources::Private,
            _ => Sources::All,
        };
        let [a, b] = halves(key);
        let addr = addr.map(Ipv4Addr::to_bits);
        Ok(Self {
            number,
            addr,
            outside_if,
            deny_in: config.deny_in,
            same_ports: config.same_ports,
            sources,
            reset: config.reset,
            reverse: config.reverse,
            proxy_only: config.proxy_only,
            range: config.port_range.clone().unwrap_or(PORTS),
            lifetimes: Lifetimes::default(),
            max: BINDINGS,
            redirects: Redirects::new(&config.redirects, addr, a).map_err(Error::Redirect)?,
            key: [a, b],
        })
    }

    /// Whether packets from this address are translated.
    #[must_use]
    pub const fn has_source(&self, addr: u128) -> bool {
        let [.., a, b, _, _] = addr.to_be_bytes();
        let is_private = matches!((a, b), (10, _) | (172, 16..=31) | (192, 168));
        match self.sources {
            Sources::All => true,
            Sources::Private => is_private,
            Sources::Unregistered => is_private || matches!((a, b), (100, 64..=127)),
        }
    }

    /// Whether what came in by this interface came from inside, as far as that is known.
    #[inline]
    #[must_use]
    pub const fn is_from_inside(&self, rcvif: IfIndex) -> bool {
        self.outside_if != 0 && rcvif != 0 && rcvif != self.outside_if
    }

    /// Whether an address is one that others see.
    #[inline]
    #[must_use]
    pub fn is_outside(&self, addr: u128) -> bool {
        self.addr.map(u128::from) == Some(addr) || self.redirects.has_alias(addr)
    }

    /// Returns the seed of an inside end, the same on all CPUs.
    #[must_use]
    pub fn seed(&self, inside: End, protocol: u8) -> u64 {
        let [a, b] = halves(inside.addr);
        let about = u64::from(inside.port) << 8 | u64::from(protocol);
        fold(fold(a ^ self.key[0], b ^ self.key[1]) ^ about, self.key[0] | 1)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
pub(super) const fn halves(word: u128) -> [u64; 2] {
    [(word >> 64) as u64, word as u64]
}

/// The address that others see, and the interface that has it.
fn address(config: &NatConfig, tables: &Tables) -> Result<(Option<Ipv4Addr>, IfIndex), Error> {
    if let Some(addr) = config.ip {
        let has =
            |ifnet: &&crate::link::tables::Ifnet| ifnet.addrs.iter().any(|own| own.addr == IpAddr::V4(addr));
        return Ok((Some(addr), tables.ifnets().find(has).map_or(0, |ifnet| ifnet.index)));
    }
    let name = config.interface.as_deref().ok_or(Error::NoAddress)?;
    let ifnet = tables.ifnet_named(name).ok_or_else(|| Error::NoInterface(name.to_owned()))?;
    let first = ifnet.addrs.iter().find_map(|own| match own.addr {
        IpAddr::V4(addr) => Some(addr),
        IpAddr::V6(_) => None,
    });
    Ok((first, ifnet.index))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("an address is missing: \"ip\" or \"if\""),
            Self::NoInterface(name) => write!(f, "there is no interface {name}"),
            Self::Redirect(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}
