//! Redirections of packets from outside to hosts inside, and their replies. Stateless: the verdict on a packet
//! follows from it alone, on whichever CPU it is.

use core::fmt;
use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use hashbrown::HashMap;
use ipfw::command::NatRedirect;
use wire::Protocol;

use super::headers::End;
use crate::base::secret::{Secret, fold};

/// Redirections of an instance.
pub const REDIRECTS_MAX: usize = 1024;
/// Targets of a redirection.
pub const TARGETS_MAX: usize = 256;

/// The redirections of an instance.
#[derive(Debug)]
pub struct Redirects {
    all: Vec<Redirect>,
    /// By the address that others see, and by that of each target: which.
    by_alias: HashMap<u32, Vec<u16>, Secret>,
    by_target: HashMap<u32, Vec<u16>, Secret>,
    key: u64,
}

/// Why there is no such redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It has no target, or too many.
    Targets,
    /// The port ranges inside and outside have different lengths.
    Ports,
    /// Ports of a protocol that is not translated by ports.
    Protocol(u8),
    /// More than an instance may have.
    TooMany,
}

#[derive(Debug)]
struct Redirect {
    /// `None` for all.
    protocol: Option<u8>,
    /// Where it may go; with ports, the first of each.
    targets: Vec<(u32, u16)>,
    alias: u32,
    /// Ports that others see; `None` if ports do not matter.
    ports: Option<RangeInclusive<u16>>,
    remote: Option<u32>,
    remote_ports: Option<RangeInclusive<u16>>,
}

impl Redirects {
    /// Takes what was configured; `addr` is the instance's own address.
    ///
    /// # Errors
    ///
    /// All of [`Error`].
    pub fn new(config: &[NatRedirect], addr: Option<u32>, key: u64) -> Result<Self, Error> {
        let all = config.iter().filter_map(|one| Redirect::new(one, addr).transpose());
        let all = all.collect::<Result<Vec<_>, _>>()?;
        if all.len() > REDIRECTS_MAX {
            return Err(Error::TooMany);
        }
        let mut redirects = Self {
            by_alias: HashMap::with_hasher(Secret::new(key.into())),
            by_target: HashMap::with_hasher(Secret::new(key.into())),
            all: Vec::new(),
            key,
        };
        for (redirect, n) in all.iter().zip(0..) {
            redirects.by_alias.entry(redirect.alias).or_default().push(n);
            for (target, _) in &redirect.targets {
                redirects.by_target.entry(*target).or_default().push(n);
            }
        }
        Ok(Self { all, ..redirects })
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether an address is one that others see.
    #[inline]
    #[must_use]
    pub fn has_alias(&self, addr: u128) -> bool {
        self.any(&self.by_alias, addr)
    }

    /// Whether an address is that of a target.
    #[inline]
    #[must_use]
    pub fn has_target(&self, addr: u128) -> bool {
        self.any(&self.by_target, addr)
    }

    /// The end inside that a packet from `remote` to `alias` goes to.
    #[inline]
    #[must_use]
    pub fn inward(&self, protocol: u8, alias: End, remote: End) -> Option<End> {
        let mut of_alias = self.of(&self.by_alias, alias.addr);
        of_alias.find_map(|redirect| redirect.inward(protocol, alias, remote, self.key))
    }

    /// The end that others see of a packet from `inside` to `remote`.
    #[inline]
    #[must_use]
    pub fn outward(&self, protocol: u8, inside: End, remote: End) -> Option<End> {
        let mut of_target = self.of(&self.by_target, inside.addr);
        of_target.find_map(|redirect| redirect.outward(protocol, inside, remote))
    }

    /// Whether a port that others see is redirected, for whomever.
    #[must_use]
    pub fn has_port(&self, protocol: u8, alias: End) -> bool {
        self.of(&self.by_alias, alias.addr).any(|redirect| {
            redirect.protocol == Some(protocol)
                && redirect.ports.as_ref().is_some_and(|ports| ports.contains(&alias.port))
        })
    }

    #[inline]
    fn any(&self, map: &HashMap<u32, Vec<u16>, Secret>, addr: u128) -> bool {
        !self.all.is_empty() && u32::try_from(addr).is_ok_and(|addr| map.contains_key(&addr))
    }

    #[inline]
    fn of<'a>(
        &'a self,
        map: &'a HashMap<u32, Vec<u16>, Secret>,
        addr: u128,
    ) -> impl Iterator<Item = &'a Redirect> {
        let addr = if self.all.is_empty() { None } else { u32::try_from(addr).ok() };
        let list = addr.and_then(|addr| map.get(&addr));
        list.into_iter().flatten().filter_map(|n| self.all.get(usize::from(*n)))
    }
}

impl Redirect {
    /// `None` if it is of an address that there is not yet.
    fn new(config: &NatRedirect, addr: Option<u32>) -> Result<Option<Self>, Error> {
        let own = |alias: Option<Ipv4Addr>| alias.map(Ipv4Addr::to_bits).or(addr);
        let (alias, redirect) = match config {
            NatRedirect::Port { alias, .. } => (own(*alias), Self::port(config)?),
            NatRedirect::Addr { targets, alias } => {
                let targets = targets.iter().map(|target| (target.to_bits(), 0)).collect();
                (own(Some(*alias).filter(|alias| !alias.is_unspecified())), Self { targets, ..Self::NONE })
            }
            NatRedirect::Proto { proto, target, alias, remote } => {
                let targets = vec![(target.to_bits(), 0)];
                let remote = remote.map(Ipv4Addr::to_bits);
                (own(*alias), Self { protocol: Some(*proto), targets, remote, ..Self::NONE })
            }
        };
        if redirect.targets.is_empty() || redirect.targets.len() > TARGETS_MAX {
            return Err(Error::Targets);
        }
        Ok(alias.map(|alias| Self { alias, ..redirect }))
    }

    const NONE: Self =
        Self { protocol: None, targets: Vec::new(), alias: 0, ports: None, remote: None, remote_ports: None };

    fn port(config: &NatRedirect) -> Result<Self, Error> {
        let NatRedirect::Port { proto, targets, target_ports, alias_ports, remote, remote_ports, .. } =
            config
        else {
            return Ok(Self::NONE);
        };
        if ![Protocol::TCP.0, Protocol::UDP.0].contains(proto) {
            return Err(Error::Protocol(*proto));
        }
        if target_ports.iter().any(|ports| ports.len() != alias_ports.len()) {
            return Err(Error::Ports);
        }
        let of = |n: usize| target_ports.get(n).or_else(|| target_ports.first()).ok_or(Error::Ports);
        let targets = targets.iter().enumerate().map(|(n, target)| Ok((target.to_bits(), *of(n)?.start())));
        Ok(Self {
            protocol: Some(*proto),
            targets: targets.collect::<Result<_, _>>()?,
            alias: 0,
            ports: Some(alias_ports.clone()),
            remote: remote.map(Ipv4Addr::to_bits),
            remote_ports: remote_ports.clone(),
        })
    }

    fn inward(&self, protocol: u8, alias: End, remote: End, key: u64) -> Option<End> {
        if !self.is_about(protocol, remote) {
            return None;
        }
        let Some(ports) = &self.ports else {
            // All that a host sends goes to one target: also what has no ports, and fragments.
            let (target, _) = self.target(remote.addr, 0, key)?;
            return Some(End { addr: target.into(), port: alias.port });
        };
        if !ports.contains(&alias.port) {
            return None;
        }
        let (target, first) = self.target(remote.addr, remote.port, key)?;
        Some(End { addr: target.into(), port: first.wrapping_add(alias.port - ports.start()) })
    }

    fn outward(&self, protocol: u8, inside: End, remote: End) -> Option<End> {
        if !self.is_about(protocol, remote) {
            return None;
        }
        let addr = u128::from(self.alias);
        let Some(ports) = &self.ports else { return Some(End { addr, port: inside.port }) };
        let mut of_host = self.targets.iter().filter(|(target, _)| u128::from(*target) == inside.addr);
        of_host.find_map(|(_, first)| {
            let port = inside.port.checked_sub(*first)?.checked_add(*ports.start())?;
            ports.contains(&port).then_some(End { addr, port })
        })
    }

    fn is_about(&self, protocol: u8, remote: End) -> bool {
        self.protocol.is_none_or(|own| own == protocol)
            && self.remote.is_none_or(|own| u128::from(own) == remote.addr)
            && self.remote_ports.as_ref().is_none_or(|ports| ports.contains(&remote.port))
    }

    /// The target for a remote end: it always gets the same.
    fn target(&self, addr: u128, port: u16, key: u64) -> Option<(u32, u16)> {
        let [one] = *self.targets else {
            let end = u64::try_from(addr).unwrap_or(0) << 16 | u64::from(port);
            let hash = usize::try_from(fold(end ^ key, !key | 1) >> 16).unwrap_or(0);
            return self.targets.get(hash % self.targets.len()).copied();
        };
        Some(one)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Targets => write!(f, "a redirection has 1 to {TARGETS_MAX} targets"),
            Self::Ports => f.write_str("the port ranges inside and outside have different lengths"),
            Self::Protocol(protocol) => write!(f, "ports of {} are not translated", Protocol(*protocol)),
            Self::TooMany => write!(f, "limit reached ({REDIRECTS_MAX} redirections of an instance)"),
        }
    }
}

impl core::error::Error for Error {}
