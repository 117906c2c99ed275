//! `nat show`, `nat64lsn show`, `nptv6 show`.

use crate::api::client::escaped;
use crate::api::{FirewallBinding, FirewallBindings, FirewallNat, FirewallNat64, FirewallPrefixes};
use crate::cli::{Failure, Session};
use crate::show;

/// Flows that are asked for at once.
const PAGE: usize = 1000;

/// Options of showing NAT instances.
#[derive(Clone, Copy)]
pub(super) struct Nat {
    /// Only this one.
    pub(super) number: Option<u16>,
    /// Shows their configuration instead of their state.
    pub(super) config: bool,
    /// `-d`: with the flows that they translate.
    pub(super) flows: bool,
    /// `-v`: with the CPU of each.
    pub(super) verbose: bool,
}

impl Nat {
    pub(super) fn show(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut all: Vec<FirewallNat> = session.client.get("/v1/firewall/nat")?;
        if let Some(number) = self.number {
            all.retain(|nat| nat.number == number);
            if all.is_empty() {
                return Err(Failure::Failed(format!("ipfw: there is no nat {number}")));
            }
        }
        match (session.json, self.flows && !self.config) {
            (true, true) => {
                let mut with_flows = Vec::new();
                for nat in &all {
                    let mut bindings = Vec::new();
                    each(&of_nat(nat.number), session, |page, _| {
                        bindings.extend(page);
                        Ok(())
                    })?;
                    with_flows.push(serde_json::json!({ "nat": nat, "bindings": bindings }));
                }
                session.show(&with_flows, |_| String::new())
            }
            (_, false) => session.show(&all, |all| {
                let one = if self.config { show::ipfw::nat::config } else { show::ipfw::nat::instance };
                all.iter().map(one).collect()
            }),
            (false, true) => all.iter().try_for_each(|nat| self.show_flows(nat, session)),
        }
    }

    fn show_flows(self, nat: &FirewallNat, session: &mut Session<'_>) -> Result<(), Failure> {
        session.term.show(&show::ipfw::nat::instance(nat))?;
        each(&of_nat(nat.number), session, |page, session| {
            Ok(session.term.show(&show::ipfw::nat::bindings(&page, self.verbose))?)
        })
    }
}

/// Options of showing NAT64 instances.
pub(super) struct Crossings<'a> {
    /// Only this one.
    pub(super) name: Option<&'a str>,
    /// `-d`: with the flows that they translate.
    pub(super) flows: bool,
    /// `-v`: with the CPU of each.
    pub(super) verbose: bool,
}

impl Crossings<'_> {
    pub(super) fn show(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut all: Vec<FirewallNat64> = session.client.get("/v1/firewall/nat64")?;
        if let Some(name) = self.name {
            all.retain(|nat| nat.name == name);
            if all.is_empty() {
                return Err(Failure::Failed(format!("ipfw: there is no nat64lsn {name}")));
            }
        }
        if !self.flows {
            return session.show(&all, |all| all.iter().map(show::ipfw::nat::crossing).collect());
        }
        if session.json {
            let mut with_flows = Vec::new();
            for nat in &all {
                let mut bindings = Vec::new();
                each(&of_nat64(&nat.name), session, |page, _| {
                    bindings.extend(page);
                    Ok(())
                })?;
                with_flows.push(serde_json::json!({ "nat64lsn": nat, "bindings": bindings }));
            }
            return session.show(&with_flows, |_| String::new());
        }
        all.iter().try_for_each(|nat| {
            session.term.show(&show::ipfw::nat::crossing(nat))?;
            each(&of_nat64(&nat.name), session, |page, session| {
                Ok(session.term.show(&show::ipfw::nat::bindings(&page, self.verbose))?)
            })
        })
    }
}

/// Where the flows of an instance are.
fn of_nat(number: u16) -> String {
    format!("/v1/firewall/nat/{number}")
}

fn of_nat64(name: &str) -> String {
    format!("/v1/firewall/nat64/{}", escaped(name))
}

/// All flows that an instance translates, a page at a time.
fn each(
    instance: &str,
    session: &mut Session<'_>,
    mut see: impl FnMut(Vec<FirewallBinding>, &mut Session<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let first = format!("{instance}?limit={PAGE}");
    let mut path = first.clone();
    loop {
        let page: FirewallBindings = session.client.get(&path)?;
        see(page.bindings, session)?;
        let Some(next) = page.next else { return Ok(()) };
        path = format!("{first}&after={}", escaped(&next));
    }
}

/// `nptv6 NAME show`; without a name, all.
pub(super) fn prefixes(name: Option<&str>, session: &mut Session<'_>) -> Result<(), Failure> {
    let mut all: Vec<FirewallPrefixes> = session.client.get("/v1/firewall/nptv6")?;
    if let Some(name) = name {
        all.retain(|prefixes| prefixes.name == name);
        if all.is_empty() {
            return Err(Failure::Failed(format!("ipfw: there is no nptv6 {name}")));
        }
    }
    session.show(&all, |all| all.iter().map(show::ipfw::nat::prefixes).collect())
}
