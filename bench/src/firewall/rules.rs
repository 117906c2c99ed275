//! Rules for benchmarks, from their text.

use core::fmt::Write as _;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use ipfw::Command;
use ipfw::command::Switch;
use ipfw::rule::Action;
use net::firewall::Shared;
use net::firewall::log::Amounts;
use net::firewall::nat::nptv6::Nptv6;
use net::firewall::nat::spec::Spec;
use net::firewall::pipe;
use net::firewall::ruleset::Rules;
use net::firewall::state::{Limits, Loose, Settings};
use net::firewall::table::Lookups;
use net::secret::Secret;
use net::tables::Tables;

use crate::frames::Family;

/// Returns the shared firewall for these rules; the default is deny.
///
/// # Errors
///
/// When it is no text of the language, says something that benchmarks do not need, or cannot be obeyed.
pub fn shared(text: &str, tables: &Tables, cpus: u16) -> Result<Shared> {
    let mut rules = Rules::new(Action::Deny);
    let (mut pipes, mut lookups) = (pipe::Config::new(7), Lookups::new(7)?);
    let (mut nat, mut prefixes, mut one_pass) = (Vec::new(), Vec::new(), true);
    let statements = ipfw::parse_file("rules", text).map_err(|errors| match errors.first() {
        Some(error) => anyhow!("{error}"),
        None => anyhow!("rules that are wrong"),
    })?;
    for statement in statements {
        match statement.command {
            Command::Add(rule) => {
                lookups.provide(&rule)?;
                rules.add(rule)?;
            }
            Command::NatConfig { number, config } => {
                nat.push(Arc::new(Spec::new(number, &config, tables, 5)?));
            }
            Command::Nptv6Create { name, config } => prefixes.push((name, Nptv6::new(&config, tables)?)),
            Command::PipeConfig { number, config } => pipes.set_pipe(number, &config)?,
            Command::Switch { what: Switch::OnePass, on } => one_pass = on,
            other => bail!("benchmarks do not say this: {other:?}"),
        }
    }
    Ok(Shared {
        rules: Arc::new(rules.compile(tables, &lookups)),
        one_pass,
        nat,
        nat64: Vec::new(),
        prefixes: Arc::new(prefixes.into_iter().collect()),
        pipes: Arc::new(pipes),
        settings: Settings::default(),
        loose: Loose::new(cpus.into()),
        limits: Limits::new(&Secret::new(11), 1 << 10),
        amounts: Arc::new(Amounts::new()?),
        is_enabled: true,
        is_verbose: true,
    })
}

/// One of many rules that no packet matches: it is about a host, from or to which packets go, and perhaps a port.
#[derive(Clone, Debug)]
pub struct Other {
    /// Whether it lets packets pass.
    pub allows: bool,
    /// Whether the host is the source; else it is the destination.
    pub is_from: bool,
    /// The host.
    pub host: String,
    /// The destination port.
    pub port: Option<u32>,
}

/// `count` of them.
pub fn others(count: u32, family: Family) -> impl Iterator<Item = Other> {
    (1..=count).map(move |n| {
        let (is_from, port) = (n % 4 < 2, Some(2000 + n % 50).filter(|_| n % 4 != 1));
        Other { allows: n % 4 == 2, is_from, host: host(n, family, 1), port }
    })
}

/// Makes rules of which packets of this protocol match only the last. `scope` ends each of them, for example `in`.
#[must_use]
pub fn hit_last(count: u32, family: Family, proto: &str, scope: &str) -> String {
    let mut text = String::new();
    for (number, Other { allows, is_from, host, port }) in (1..count).zip(others(count, family)) {
        let action = if allows { "allow" } else { "deny" };
        let ends = if is_from { format!("from {host} to any") } else { format!("from any to {host}") };
        let port = port.map_or_else(String::new, |port| port.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "add {number} {action} {proto} {ends} {port} {scope}");
    }
    if count > 0 {
        let _ = writeln!(text, "add {count} allow {proto} from any to any {scope}");
    }
    text
}

/// A host in 10.0.0.0/8 or 2001:db8::/32, whose last bit is given: rules are about odd ones, packets come from even ones.
#[must_use]
pub fn host(n: u32, family: Family, last: u32) -> String {
    let scattered = n.wrapping_mul(0x9e37_79b1) >> 9;
    if family == Family::Ip4 {
        return Ipv4Addr::from_bits((10 << 24) | (scattered << 1) | last).to_string();
    }
    let upper = (0x2001_0db8_u128 << 96) | (u128::from(scattered) << 73);
    Ipv6Addr::from_bits(upper | u128::from(last)).to_string()
}
