//! `route add | delete | get | show`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::flags::extra_word;
use super::{Failure, Session, netstat, resolve};
use crate::api::client::escaped;
use crate::api::{Family, RouteAnswer, RouteRequest};
use crate::show;
use crate::suggest::did_you_mean;

pub(crate) const HELP: &str = "\
route [-n] [-4|-6] [show]                      the routing tables
route add [-inet6] TO GATEWAY [GATEWAY ...]    several gateways share the traffic
route add TO -interface IF                     TO is on the link of IF
route add TO -reject | -blackhole              answer with an error | discard in silence
route delete [-inet6] TO [GATEWAY]
route get ADDRESS                              which way would a packet go
TO is `default`, a prefix or a host. `via GATEWAY` and `dev IF` are understood too.

Examples:
  pantala route add default 192.0.2.254
  pantala route add -inet6 2001:db8::/32 2001:db8:1::1
  pantala route add -net 10.0.0.0 -netmask 255.0.0.0 192.0.2.7
  pantala route get 198.51.100.7";

const VERBS: &[&str] = &["add", "delete", "get", "show"];
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
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Show(Option<Family>),
    Get(IpAddr),
    Add(RouteRequest),
    Delete { to: IpNet, via: Option<IpAddr> },
}

impl Route {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let parts = Parts::read(words)?;
        match parts.verb.as_deref() {
            None | Some("show") => parts.nothing_more().map(|()| Self::Show(parts.family)),
            Some("get") => parts.get(),
            Some("add") => parts.add(),
            Some("delete" | "del") => parts.delete(),
            Some(other) => {
                let help = did_you_mean(other, VERBS);
                Err(Failure::usage(format!("route: unknown word `{other}`; {help}")))
            }
        }
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::Show(family) => netstat::show_routes(family, session),
            Self::Get(to) => {
                let answer: RouteAnswer =
                    session.client.get(&format!("/v1/routes/get?to={}", escaped(&to.to_string())))?;
                session.show(&answer, show::route_answer)
            }
            Self::Add(route) => {
                let () = session.client.post("/v1/routes", &route)?;
                session.done(&said("add", route.to, route.via.first()))
            }
            Self::Delete { to, via } => {
                let gateway =
                    via.map(|via| format!("&via={}", escaped(&via.to_string()))).unwrap_or_default();
                let () =
                    session.client.delete(&format!("/v1/routes?to={}{gateway}", escaped(&to.to_string())))?;
                session.done(&said("delete", to, via.as_ref()))
            }
        }
    }
}

/// BSD's word on a change: `add net default: gateway 192.0.2.254`.
fn said(verb: &str, to: IpNet, gateway: Option<&IpAddr>) -> String {
    let kind = if to.prefix_len() == to.max_prefix_len() { "host" } else { "net" };
    let gateway = gateway.map(|gateway| format!(": gateway {gateway}")).unwrap_or_default();
    format!("{verb} {kind} {}{gateway}\n", show::destination(to))
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
    operands: Vec<String>,
}

/// How long the prefix is, when it does not stand behind a slash.
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
            option if option.starts_with('-') => {
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
            [to] => resolve::host(to, self.family).map(Route::Get),
            [] => Err(Failure::usage("route: get which address?")),
            [_, extra, ..] => Err(extra_word("route", extra)),
        }
    }

    fn add(self) -> Result<Route, Failure> {
        let gateways = self.operands.iter().skip(1);
        let via = gateways.map(|word| resolve::host(word, self.family)).collect::<Result<Vec<_>, _>>()?;
        let to = self.destination(via.first().copied())?;
        let links = !via.is_empty() || self.dev.is_some();
        if usize::from(links) + usize::from(self.reject) + usize::from(self.blackhole) != 1 {
            return Err(Failure::usage(
                "route: a route needs one target: gateways, -interface IF, -reject or -blackhole",
            ));
        }
        one_family(to, &via)?;
        Ok(Route::Add(RouteRequest {
            to,
            via,
            dev: self.dev,
            reject: self.reject,
            blackhole: self.blackhole,
        }))
    }

    fn delete(self) -> Result<Route, Failure> {
        let via = match self.operands.as_slice() {
            [_, _, extra, ..] => return Err(extra_word("route", extra)),
            [_, gateway] => Some(resolve::host(gateway, self.family)?),
            _ => None,
        };
        let to = self.destination(via)?;
        one_family(to, via.as_slice())?;
        Ok(Route::Delete { to, via })
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

fn number<T: core::str::FromStr>(option: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| Failure::usage(format!("route: {option} cannot be `{text}`")))
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
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Route, Failure> {
        Route::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn add(to: &str, via: &[&str]) -> Route {
        Route::Add(RouteRequest {
            to: to.parse().unwrap(),
            via: via.iter().map(|gateway| gateway.parse().unwrap()).collect(),
            dev: None,
            reject: false,
            blackhole: false,
        })
    }

    #[test]
    fn bsd_lines_are_understood() {
        let delete = |to: &str, via: Option<&str>| Route::Delete {
            to: to.parse().unwrap(),
            via: via.map(|via| via.parse().unwrap()),
        };
        for (line, means) in [
            ("", Route::Show(None)),
            ("-n", Route::Show(None)),
            ("-n -6 show", Route::Show(Some(Family::Inet6))),
            ("get 192.0.2.1", Route::Get("192.0.2.1".parse().unwrap())),
            ("-n get -inet6 2001:db8::1", Route::Get("2001:db8::1".parse().unwrap())),
            ("add default 192.0.2.254", add("0.0.0.0/0", &["192.0.2.254"])),
            ("add default 2001:db8::1", add("::/0", &["2001:db8::1"])),
            ("add -inet6 2001:db8::/32 2001:db8::1", add("2001:db8::/32", &["2001:db8::1"])),
            ("-n add -host 10.0.0.1 192.0.2.7", add("10.0.0.1/32", &["192.0.2.7"])),
            ("add -net 10.0.0.0 -netmask 255.0.0.0 192.0.2.7", add("10.0.0.0/8", &["192.0.2.7"])),
            ("add -net 10.0.0.0 192.0.2.7 -prefixlen 8", add("10.0.0.0/8", &["192.0.2.7"])),
            ("add 10.0.0.0/8 192.0.2.7 192.0.2.8", add("10.0.0.0/8", &["192.0.2.7", "192.0.2.8"])),
            ("add 10.0.0.0/8 via 192.0.2.7", add("10.0.0.0/8", &["192.0.2.7"])),
            ("delete default", delete("0.0.0.0/0", None)),
            ("delete -inet6 default", delete("::/0", None)),
            ("delete 10.0.0.0/8 192.0.2.7", delete("10.0.0.0/8", Some("192.0.2.7"))),
        ] {
            assert_eq!(read(line).unwrap(), means, "{line}");
        }
    }

    #[test]
    fn routes_without_a_gateway_are_understood() {
        let to: IpNet = "10.0.0.0/8".parse().unwrap();
        let none = RouteRequest { to, via: vec![], dev: None, reject: false, blackhole: false };
        let dev = Some("lan".to_owned());
        for (line, request) in [
            ("add 10.0.0.0/8 -interface lan", RouteRequest { dev: dev.clone(), ..none.clone() }),
            ("add 10.0.0.0/8 dev lan", RouteRequest { dev, ..none.clone() }),
            ("add 10.0.0.0/8 -reject", RouteRequest { reject: true, ..none.clone() }),
            ("add -blackhole 10.0.0.0/8", RouteRequest { blackhole: true, ..none }),
        ] {
            assert_eq!(read(line).unwrap(), Route::Add(request), "{line}");
        }
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("ad default 192.0.2.1", "did you mean `add`?"),
            ("add", "destination is missing"),
            ("add default", "needs one target"),
            ("add 10.0.0.0/8 -reject 192.0.2.1", "needs one target"),
            ("add 10.0.0.1/8 192.0.2.1", "the network is 10.0.0.0/8, the host 10.0.0.1"),
            ("add 10.0.0.0/33 192.0.2.1", "is not a prefix"),
            ("add -net 10.0.0.0 192.0.2.1", "write 10.0.0.0/N"),
            ("add 10.0.0.0/8 2001:db8::1", "not of the family"),
            ("add -inet6 10.0.0.0/8 192.0.2.1", "not an address of the family inet6"),
            ("add 10.0.0.0/8 -interfaec lan", "did you mean `-interface`?"),
            ("add 10.0.0.0/8 -interface", "needs a value"),
            ("delete default 192.0.2.1 192.0.2.2", "one word too many"),
            ("get", "which address"),
            ("show me", "one word too many"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
