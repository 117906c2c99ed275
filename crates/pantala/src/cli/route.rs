//! `route add | change | delete | get | show | flush | batch | monitor`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::IpNet;

use super::flags::extra_word;
use super::{Failure, Session, netstat, resolve};
use crate::api::client::escaped;
use crate::api::{Family, RouteAnswer, RouteEdit, RouteMetrics, RouteRequest, RouteSource};
use crate::config::limits;
use crate::show;
use diagnostic::did_you_mean;

mod batch;
mod monitor;

pub(crate) const USAGE: &str = "\
pantala route [-n] [-4 | -6] [show]
       pantala route add [-inet6] TO GATEWAY [GATEWAY ...]
       pantala route add TO -interface IF | -reject | -blackhole
       pantala route change TO [GATEWAY ...] [...]
       pantala route delete [-inet6] TO [GATEWAY]
       pantala route get [-inet6] ADDRESS | default
       pantala route flush [-inet | -inet6]
       pantala route batch FILE
       pantala route sources
       pantala route [-n] monitor";

pub(crate) const HELP: &str = "\
TO is `default`, a prefix or a host. `via GATEWAY` and `dev IF` are understood,
too. Several gateways share the flows (ECMP).

  -interface IF      TO is on the link of IF
  -reject            answer with an ICMP error
  -blackhole         discard silently
  -mtu BYTES         with add and change: MTU of the path
  -msl MILLISECONDS  with add and change: TCP's maximum segment lifetime
  -iw SEGMENTS       with add and change: TCP's initial window
  -fib N             routing table N; 0 if it is not given
  -inet, -4          IPv4;  -inet6, -6: IPv6

  get    the route that a packet would take
  flush  deletes all routes but those of interface addresses
  batch  one change per line, as above; - is standard input
  sources  FRR and kernel tables that routes are taken from
  monitor  changes of routes, neighbours, addresses and interfaces as they are
           made, until it is interrupted

Examples:
  pantala route add default 192.0.2.254
  pantala route add -inet6 2001:db8::/32 2001:db8:1::1
  pantala route add -net 10.0.0.0 -netmask 255.0.0.0 192.0.2.7
  pantala route change default -mtu 1400
  pantala route get 198.51.100.7
  printf 'add 10.1.0.0/16 192.0.2.7\\n' | pantala route batch -";

const VERBS: &[&str] = &["add", "change", "delete", "get", "show", "flush", "batch", "sources", "monitor"];
const OPTIONS: &[&str] = &[
    "-n",
    "-v",
    "-q",
    "-4",
    "-6",
    "-inet",
    "-inet6",
    "-net",
    "-host",
    "-interface",
    "-reject",
    "-blackhole",
    "-netmask",
    "-prefixlen",
    "-mtu",
    "-msl",
    "-iw",
    "-fib",
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Show(Option<Family>, u8),
    Get(IpAddr, u8),
    Edit(RouteEdit),
    Flush(Option<Family>, u8),
    Batch(PathBuf),
    Sources,
    Monitor,
}

impl Route {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let parts = Parts::read(words)?;
        match parts.verb.as_deref() {
            None | Some("show") => parts.nothing_more().map(|()| Self::Show(parts.family, parts.fib)),
            Some("get") => parts.get(),
            Some("flush") => parts.nothing_more().map(|()| Self::Flush(parts.family, parts.fib)),
            Some("batch") => parts.batch(),
            Some("monitor") => parts.nothing_more().map(|()| Self::Monitor),
            Some("sources") => parts.nothing_more().map(|()| Self::Sources),
            Some("add" | "change" | "delete" | "del") => parts.edit().map(Self::Edit),
            Some(other) => {
                let help = did_you_mean(other, VERBS);
                Err(Failure::usage(format!("route: unknown word `{other}`; {help}")))
            }
        }
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::Show(family, fib) => netstat::show_routes(family, fib, session),
            Self::Get(to, fib) => {
                let answer: RouteAnswer = session
                    .client
                    .get(&format!("/v1/routes/get?to={}&fib={fib}", escaped(&to.to_string())))?;
                session.show(&answer, show::route_answer)
            }
            Self::Sources => {
                let sources: Vec<RouteSource> = session.client.get("/v1/routes/sources")?;
                session.show(&sources, |sources| show::route_sources(sources))
            }
            Self::Monitor => monitor::run(session),
            Self::Edit(edit) => change(&edit, session),
            Self::Flush(family, fib) => {
                let query = family.map(|family| format!("&family={family}")).unwrap_or_default();
                let gone: u64 = session.client.post(&format!("/v1/routes/flush?fib={fib}{query}"), &())?;
                session.show(&gone, |gone| format!("{gone} routes deleted\n"))
            }
            Self::Batch(file) => batch::run(&file, session),
        }
    }
}

fn change(edit: &RouteEdit, session: &mut Session<'_>) -> Result<(), Failure> {
    match edit {
        RouteEdit::Add(route) => {
            let () = session.client.post("/v1/routes", route)?;
            session.done(&said("add", (route.fib, route.to), route.via.first()))
        }
        RouteEdit::Change(route) => {
            let () = session.client.put("/v1/routes", route)?;
            session.done(&said("change", (route.fib, route.to), route.via.first()))
        }
        RouteEdit::Delete { fib, to, via } => {
            let gateway = via.map(|via| format!("&via={}", escaped(&via.to_string()))).unwrap_or_default();
            let () = session
                .client
                .delete(&format!("/v1/routes?fib={fib}&to={}{gateway}", escaped(&to.to_string())))?;
            session.done(&said("delete", (*fib, *to), via.as_ref()))
        }
    }
}

/// BSD's word on a change: `add net default: gateway 192.0.2.254`.
fn said(verb: &str, (fib, to): (u8, IpNet), gateway: Option<&IpAddr>) -> String {
    let kind = if to.prefix_len() == to.max_prefix_len() { "host" } else { "net" };
    let gateway = gateway.map(|gateway| format!(": gateway {gateway}")).unwrap_or_default();
    let table = if fib == 0 { String::new() } else { format!(" fib {fib}") };
    format!("{verb} {kind} {}{gateway}{table}\n", show::destination(to))
}

/// A line taken apart, not yet understood.
#[derive(Default)]
struct Parts {
    verb: Option<String>,
    family: Option<Family>,
    net: bool,
    dev: Option<String>,
    reject: bool,
    blackhole: bool,
    length: Option<Length>,
    metrics: RouteMetrics,
    fib: u8,
    operands: Vec<String>,
}

/// The prefix length, when it does not stand behind a slash.
enum Length {
    Bits(u8),
    Mask(Ipv4Addr),
}

impl Parts {
    fn read(words: &[String]) -> Result<Self, Failure> {
        let mut parts = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            parts.word(word, &mut words)?;
        }
        Ok(parts)
    }

    fn word<'w>(&mut self, word: &str, next: &mut impl Iterator<Item = &'w str>) -> Result<(), Failure> {
        let mut value = || next.next().ok_or_else(|| Failure::usage(format!("route: {word} needs a value")));
        match word {
            "-n" | "-v" | "-q" | "-nv" | "-vn" | "-host" | "via" => {}
            "-4" | "-inet" => self.family = Some(Family::Inet),
            "-6" | "-inet6" => self.family = Some(Family::Inet6),
            "-net" => self.net = true,
            "-reject" | "reject" => self.reject = true,
            "-blackhole" | "blackhole" => self.blackhole = true,
            "-interface" | "-iface" | "dev" => self.dev = Some(value()?.to_owned()),
            "-prefixlen" => self.length = Some(Length::Bits(number(word, value()?)?)),
            "-netmask" => self.length = Some(Length::Mask(number(word, value()?)?)),
            "-fib" => self.fib = fib(value()?, "route")?,
            "-mtu" => self.metrics.mtu = Some(within(word, value()?, limits::MTU)?),
            "-msl" => self.metrics.msl_ms = Some(within(word, value()?, limits::MSL_MS)?),
            "-iw" | "-iwmaxsegs" => {
                let segments = within(word, value()?, limits::INITIAL_WINDOW)?;
                self.metrics.initial_window = u16::try_from(segments).ok();
            }
            option if option.starts_with('-') && option.len() > 1 => {
                let help = did_you_mean(option, OPTIONS);
                return Err(Failure::usage(format!("route: unknown option {option}; {help}")));
            }
            verb if self.verb.is_none() => self.verb = Some(verb.to_owned()),
            operand => self.operands.push(operand.to_owned()),
        }
        Ok(())
    }

    fn nothing_more(&self) -> Result<(), Failure> {
        self.operands.first().map_or(Ok(()), |extra| Err(extra_word("route", extra)))
    }

    fn get(&self) -> Result<Route, Failure> {
        match self.operands.as_slice() {
            [word] if word == "default" => {
                let family = self.family.unwrap_or(Family::Inet);
                Ok(Route::Get(everything(family).addr(), self.fib))
            }
            [to] => resolve::host(to, self.family).map(|to| Route::Get(to, self.fib)),
            [] => Err(Failure::usage("route: get which address? or `default`")),
            [_, extra, ..] => Err(extra_word("route", extra)),
        }
    }

    fn batch(&self) -> Result<Route, Failure> {
        match self.operands.as_slice() {
            [file] => Ok(Route::Batch(file.into())),
            [] => Err(Failure::usage("route: batch of which file? - is standard input")),
            [_, extra, ..] => Err(extra_word("route", extra)),
        }
    }

    fn edit(self) -> Result<RouteEdit, Failure> {
        match self.verb.as_deref() {
            Some("add") => self.request(1).map(RouteEdit::Add),
            Some("change") => self.request(0).map(RouteEdit::Change),
            _ => self.delete(),
        }
    }

    /// A route with at least so many targets, which is 0 or 1, and at most one.
    fn request(self, least: usize) -> Result<RouteRequest, Failure> {
        let gateways = self.operands.iter().skip(1);
        let via = gateways.map(|word| resolve::host(word, self.family)).collect::<Result<Vec<_>, _>>()?;
        let to = self.destination(via.first().copied())?;
        let links = !via.is_empty() || self.dev.is_some();
        let targets = usize::from(links) + usize::from(self.reject) + usize::from(self.blackhole);
        if targets == 0 && least == 0 && self.metrics == RouteMetrics::default() {
            return Err(Failure::usage(
                "route: change what? give gateways, another target, -mtu, -msl or -iw",
            ));
        }
        if !(least..=1).contains(&targets) {
            return Err(Failure::usage(
                "route: a route needs one target: gateways, -interface IF, -reject or -blackhole",
            ));
        }
        one_family(to, &via)?;
        let Self { dev, reject, blackhole, metrics, fib, .. } = self;
        Ok(RouteRequest { fib, to, via, dev, reject, blackhole, metrics })
    }

    fn delete(self) -> Result<RouteEdit, Failure> {
        let via = match self.operands.as_slice() {
            [_, _, extra, ..] => return Err(extra_word("route", extra)),
            [_, gateway] => Some(resolve::host(gateway, self.family)?),
            _ => None,
        };
        let to = self.destination(via)?;
        one_family(to, via.as_slice())?;
        Ok(RouteEdit::Delete { fib: self.fib, to, via })
    }

    /// The first operand as a prefix. `default` is of the family that was named, or the gateway's, or IPv4.
    fn destination(&self, gateway: Option<IpAddr>) -> Result<IpNet, Failure> {
        let Some(word) = self.operands.first() else {
            return Err(Failure::usage(
                "route: the destination is missing; give `default`, a prefix or a host",
            ));
        };
        if word == "default" {
            let family = self.family.or_else(|| gateway.map(Family::of)).unwrap_or(Family::Inet);
            return Ok(everything(family));
        }
        let net = match word.parse::<IpNet>() {
            Ok(net) => net,
            Err(_) if word.contains('/') => {
                return Err(Failure::usage(format!("route: `{word}` is not a prefix")));
            }
            Err(_) => self.prefix(resolve::host(word, self.family)?)?,
        };
        whole_prefix(net)
    }

    fn prefix(&self, address: IpAddr) -> Result<IpNet, Failure> {
        let wrong = |_| Failure::usage(format!("route: this is no prefix length for {address}"));
        match (&self.length, address) {
            (Some(Length::Bits(bits)), _) => IpNet::new(address, *bits).map_err(wrong),
            (Some(Length::Mask(mask)), IpAddr::V4(_)) => {
                IpNet::with_netmask(address, IpAddr::V4(*mask)).map_err(wrong)
            }
            (Some(Length::Mask(_)), IpAddr::V6(_)) => {
                Err(Failure::usage("route: IPv6 has -prefixlen, not -netmask"))
            }
            (None, _) if self.net => {
                Err(Failure::usage(format!("route: how long is the prefix? write {address}/N")))
            }
            (None, _) => Ok(address.into()),
        }
    }
}

/// Parses the number of a routing table.
pub(super) fn fib(text: &str, command: &str) -> Result<u8, Failure> {
    let number = text.parse().ok().filter(|fib| *fib < net::fib::FIBS_MAX);
    number.ok_or_else(|| {
        let most = net::fib::FIBS_MAX - 1;
        Failure::usage(format!("{command}: `{text}` is not a routing table, 0 to {most}"))
    })
}

fn number<T: core::str::FromStr>(option: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| Failure::usage(format!("route: {option} cannot be `{text}`")))
}

fn within(option: &str, text: &str, range: RangeInclusive<u32>) -> Result<u32, Failure> {
    let value = number(option, text)?;
    if range.contains(&value) {
        return Ok(value);
    }
    let (from, to) = range.into_inner();
    Err(Failure::usage(format!("route: {option} {value} is not between {from} and {to}")))
}

fn everything(family: Family) -> IpNet {
    match family {
        Family::Inet => ipnet::Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0).into(),
        Family::Inet6 => ipnet::Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

fn whole_prefix(net: IpNet) -> Result<IpNet, Failure> {
    if net.addr() == net.network() {
        return Ok(net);
    }
    let (network, address) = (net.trunc(), net.addr());
    Err(Failure::usage(format!(
        "route: {net} has bits set beyond its prefix length; the network is {network}, the host {address}"
    )))
}

fn one_family(to: IpNet, via: &[IpAddr]) -> Result<(), Failure> {
    match via.iter().find(|gateway| gateway.is_ipv4() != to.addr().is_ipv4()) {
        Some(gateway) => {
            Err(Failure::usage(format!("route: the gateway {gateway} is not of the family of {to}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
