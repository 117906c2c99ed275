//! The small grammars of `pantala pktgen`: numbers, ranges, sizes. Each error says what would have been right.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use ipnet::IpNet;

/// Digits of a number, before and behind its point.
const DIGITS_MAX: usize = 18;

/// A decimal number as it was written: `digits` divided by ten to the power of `places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u128,
    places: u32,
}

impl Decimal {
    /// Digits, with a point among or before them.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if !all().all(|b| b.is_ascii_digit()) || !(1..=DIGITS_MAX).contains(&all().count()) {
            return None;
        }
        let digits = all().fold(0, |sum, b| sum * 10 + u128::from(b - b'0'));
        Some(Self { digits, places: u32::try_from(fraction.len()).ok()? })
    }

    /// The number times `scale`, in units of ten to the power of minus `places`; `None` if it is not a whole one.
    pub(crate) fn scaled(self, scale: u64, places: u32) -> Option<u128> {
        let value = self.digits.checked_mul(u128::from(scale))?.checked_mul(10_u128.checked_pow(places)?)?;
        let divisor = 10_u128.checked_pow(self.places)?;
        value.is_multiple_of(divisor).then(|| value / divisor)
    }
}

/// A number and what follows it.
pub(crate) fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// Addresses from a first to a last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addrs {
    first: u128,
    last: u128,
    is_v4: bool,
}

const ADDRS: &str = "write an address, two with a dash between them, or a prefix, as in 192.0.2.10-192.0.2.250 or 2001:db8::/64";

impl Addrs {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some((first, last)) = text.split_once('-') {
            return Self::between(address(first)?, address(last)?);
        }
        if text.contains('/') {
            return text.parse().map(Self::within).map_err(|_| format!("`{text}` is no prefix; {ADDRS}"));
        }
        address(text).map(Self::one)
    }

    pub(crate) fn one(only: IpAddr) -> Self {
        Self { first: bits(only), last: bits(only), is_v4: only.is_ipv4() }
    }

    fn between(first: IpAddr, last: IpAddr) -> Result<Self, String> {
        if first.is_ipv4() != last.is_ipv4() {
            return Err(format!("{first} and {last} are of two families; {ADDRS}"));
        }
        let range = Self { first: bits(first), last: bits(last), is_v4: first.is_ipv4() };
        if range.first > range.last {
            Err(format!("{first} is behind {last}; write the lower address first"))
        } else {
            Ok(range)
        }
    }

    /// The hosts of a prefix: without network and broadcast address, where an IPv4 prefix has them.
    fn within(net: IpNet) -> Self {
        let (first, last) = (bits(net.network()), bits(net.broadcast()));
        match net {
            IpNet::V4(v4) if v4.prefix_len() < 31 => Self { first: first + 1, last: last - 1, is_v4: true },
            net => Self { first, last, is_v4: matches!(net, IpNet::V4(_)) },
        }
    }

    pub(crate) const fn is_v4(&self) -> bool {
        self.is_v4
    }

    /// Returns their number less one.
    pub(crate) const fn span(&self) -> u128 {
        self.last - self.first
    }

    /// Address number `at`, going round.
    pub(crate) fn nth(&self, at: u128) -> IpAddr {
        let at = self.span().checked_add(1).map_or(at, |count| at % count);
        let bits = self.first + at;
        if self.is_v4 {
            Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(0)).into()
        } else {
            Ipv6Addr::from_bits(bits).into()
        }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.is_v4 == address.is_ipv4() && (self.first..=self.last).contains(&bits(address))
    }

    pub(crate) fn first(&self) -> IpAddr {
        self.nth(0)
    }
}

impl core::fmt::Display for Addrs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.span() {
            0 => write!(f, "{}", self.first()),
            span => write!(f, "{}-{}", self.first(), self.nth(span)),
        }
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no address; {ADDRS}"))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Ports from a first to a last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl Ports {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| {
            let wrong = || {
                format!("`{text}` is no port; write one of 0 to 65535, or two with a dash, as in 1024-65535")
            };
            text.parse::<u16>().map_err(|_| wrong())
        };
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            Err(format!("{first} is above {last}; write the lower port first"))
        } else {
            Ok(Self { first, last })
        }
    }

    pub(crate) const fn span(&self) -> u16 {
        self.last - self.first
    }

    /// Port number `at`, going round.
    pub(crate) fn nth(&self, at: u64) -> u16 {
        let at = at % (u64::from(self.span()) + 1);
        self.first + u16::try_from(at).unwrap_or(0)
    }
}

/// A time: seconds, or with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let help = "write a number and ms, s, m or h, as in 500ms or 10s; at most 24h";
    let (number, unit) = split_unit(text);
    let scale = match unit {
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => return Err(format!("the unit `{other}` is not known; {help}")),
    };
    let decimal = Decimal::parse(number).ok_or_else(|| format!("`{number}` is no number; {help}"))?;
    let most = Duration::from_hours(24);
    let time = decimal.scaled(scale, 0).and_then(|ns| u64::try_from(ns).ok()).map(Duration::from_nanos);
    time.filter(|time| *time <= most).ok_or_else(|| format!("{text} is too long, or too fine; {help}"))
}

/// A share, in thousandths of a percent.
pub(crate) fn percent(text: &str) -> Result<u32, String> {
    let help = "write a percentage from 0% to 100%, as in 0.1%, with at most three decimals";
    let number = text.strip_suffix('%').ok_or_else(|| format!("`{text}` has no %; {help}"))?;
    let decimal = Decimal::parse(number).ok_or_else(|| format!("`{number}` is no number; {help}"))?;
    let value =
        decimal.scaled(1, 3).filter(|value| *value <= 100_000).and_then(|value| u32::try_from(value).ok());
    value.ok_or_else(|| format!("{text} is no share; {help}"))
}

/// CPUs: numbers and ranges with commas between them.
pub(crate) fn cpus(text: &str) -> Result<Vec<usize>, String> {
    const MOST: usize = 1023;
    let help = "write numbers and ranges with commas between them, as in 0,2-3";
    let mut all = Vec::new();
    for word in text.split(',') {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let number = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu <= MOST);
        let (first, last) =
            number(first).zip(number(last)).ok_or_else(|| format!("`{word}` names no CPU; {help}"))?;
        if first > last {
            return Err(format!("`{word}` goes backwards; {help}"));
        }
        all.extend(first..=last);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
