//! `nat N config …`.

use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use super::value::{instance, interface, ip4};
use super::{list, refuse};
use crate::command::{Command, NatConfig, NatRedirect};
use crate::error::Fault;
use crate::limit::REDIRECTS_MAX;
use crate::names;
use crate::refused::Place;
use crate::words::{Tokens, Word};

const PARAMETERS: &[&str] = &[
    "ip",
    "if",
    "log",
    "deny_in",
    "same_ports",
    "unreg_only",
    "unreg_cgn",
    "reset",
    "reverse",
    "proxy_only",
    "port_range",
    "redirect_port",
    "redirect_addr",
    "redirect_proto",
];

pub(crate) fn nat(words: &mut Tokens<'_>) -> Result<Command, Fault> {
    const EXPECTED: &str = "config …, delete or show";
    if words.accept("show") || words.accept("list") {
        let config = words.accept("config");
        let Some(word) = words.peek() else { return Ok(Command::NatShow { number: None, config }) };
        words.skip();
        return Ok(Command::NatShow { number: Some(instance(word, "an instance")?), config });
    }
    if words.accept("delete") {
        return Ok(Command::NatDelete(instance(words.take("an instance's number")?, "an instance")?));
    }
    let number = instance(words.take("an instance's number, or show")?, "an instance")?;
    let what = words.take(EXPECTED)?;
    match what.full(&["config", "delete", "show", "list"]) {
        "config" => Ok(Command::NatConfig { number, config: config(words, what)? }),
        "delete" => Ok(Command::NatDelete(number)),
        "show" | "list" => Ok(Command::NatShow { number: Some(number), config: words.accept("config") }),
        _ => Err(what.unknown("command for nat", ["config", "delete", "show", "list"]).expected(EXPECTED)),
    }
}

fn config(words: &mut Tokens<'_>, what: Word<'_>) -> Result<NatConfig, Fault> {
    let mut config = NatConfig::default();
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "ip" => config.ip = Some(ip4(words.take("the address that others see")?)?),
            "if" => config.interface = Some(interface(words.take("an interface")?)?),
            "log" => config.log = true,
            "deny_in" => config.deny_in = true,
            "same_ports" => config.same_ports = true,
            "unreg_only" => config.unreg_only = true,
            "unreg_cgn" => config.unreg_cgn = true,
            "reset" => config.reset = true,
            "reverse" => config.reverse = true,
            "proxy_only" => config.proxy_only = true,
            "port_range" => config.port_range = Some(port_range(words.take("ports, such as 1024-65535")?)?),
            "redirect_port" | "redirect_addr" | "redirect_proto"
                if config.redirects.len() == REDIRECTS_MAX =>
            {
                return Err(word.fault(format!("an instance has at most {REDIRECTS_MAX} redirections")));
            }
            "redirect_port" => config.redirects.push(redirect_port(words)?),
            "redirect_addr" => config.redirects.push(redirect_addr(words)?),
            "redirect_proto" => config.redirects.push(redirect_proto(words)?),
            _ => {
                refuse(Place::Parameters, word)?;
                let fault = word.unknown("parameter of nat", PARAMETERS.iter().copied());
                return Err(fault.expected(PARAMETERS.join(", ")));
            }
        }
    }
    match (config.ip, &config.interface) {
        (None, None) => Err(what
            .fault("it is not said which address others see")
            .expected("`ip ADDRESS` or `if INTERFACE`")),
        (Some(_), Some(_)) => {
            Err(what.fault("`ip` and `if` both say which address others see").help("keep one of them"))
        }
        _ => Ok(config),
    }
}

fn port_range(word: Word<'_>) -> Result<RangeInclusive<u16>, Fault> {
    let range = ports(word)?;
    match *range.start() {
        0 => Err(word.fault("port 0 cannot be used").help("begin at 1024")),
        _ => Ok(range),
    }
}

/// A port, or a range of ports.
fn ports(word: Word<'_>) -> Result<RangeInclusive<u16>, Fault> {
    match list::ports(word, None)?.as_slice() {
        [range] => Ok(range.clone()),
        _ => Err(word.fault("this is a list").expected("one port, or one range of ports")),
    }
}

/// An address and its ports: `192.0.2.1:80`, `192.0.2.1:80-89`.
fn target(word: Word<'_>) -> Result<(Ipv4Addr, RangeInclusive<u16>), Fault> {
    let Some((addr, port)) = word.split_once(':') else {
        return Err(word.fault("the host inside has no port").expected("ADDRESS:PORT"));
    };
    Ok((ip4(addr)?, ports(port)?))
}

fn count(range: &RangeInclusive<u16>) -> u16 {
    range.end() - range.start()
}

/// The next word, if it is no parameter's name but begins with a number.
fn take_number<'a>(words: &mut Tokens<'a>) -> Option<Word<'a>> {
    let word = words.peek().filter(|word| word.text.starts_with(|c: char| c.is_ascii_digit()))?;
    words.skip();
    Some(word)
}

/// `PROTO target:port[-port][,target:port…] [alias:]port[-port] [remote[:port[-port]]]`.
fn redirect_port(words: &mut Tokens<'_>) -> Result<NatRedirect, Fault> {
    const EXPECTED: &str = "tcp, udp or sctp";
    let word = words.take(EXPECTED)?;
    let proto = match word.text {
        "tcp" => 6,
        "udp" => 17,
        "sctp" => 132,
        _ => return Err(word.unknown("protocol with ports", ["tcp", "udp", "sctp"]).expected(EXPECTED)),
    };
    let inside = words.take("the host inside, ADDRESS:PORT")?;
    if let Some(extra) = inside.split(',').nth(REDIRECTS_MAX) {
        return Err(extra.fault(format!("at most {REDIRECTS_MAX} hosts share the load")));
    }
    let (targets, target_ports): (Vec<_>, Vec<_>) =
        inside.split(',').map(target).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let outside = words.take("the ports that others see, [ADDRESS:]PORT")?;
    let (alias, alias_ports) = match outside.split_once(':') {
        Some((addr, port)) => (Some(ip4(addr)?), ports(port)?),
        None => (None, ports(outside)?),
    };
    let wanted = if targets.len() > 1 { 0 } else { count(&alias_ports) };
    if target_ports.iter().any(|range| count(range) != wanted)
        || (targets.len() > 1 && count(&alias_ports) > 0)
    {
        let fault = inside.fault("inside and outside there are not equally many ports");
        return Err(
            fault.help("give ranges of the same length; hosts that share the load have one port each")
        );
    }
    let (mut remote, mut remote_ports) = (None, None);
    if let Some(word) = take_number(words) {
        let (addr, port) = match word.split_once(':') {
            Some((addr, port)) => (addr, Some(port)),
            None => (word, None),
        };
        (remote, remote_ports) = (Some(ip4(addr)?), port.map(ports).transpose()?);
    }
    Ok(NatRedirect::Port { proto, targets, target_ports, alias, alias_ports, remote, remote_ports })
}

/// `inside[,inside…] outside`.
fn redirect_addr(words: &mut Tokens<'_>) -> Result<NatRedirect, Fault> {
    let inside = words.take("the host inside")?;
    if let Some(extra) = inside.split(',').nth(REDIRECTS_MAX) {
        return Err(extra.fault(format!("at most {REDIRECTS_MAX} hosts share the load")));
    }
    let targets = inside.split(',').map(ip4).collect::<Result<_, _>>()?;
    Ok(NatRedirect::Addr { targets, alias: ip4(words.take("the address that others see")?)? })
}

/// `PROTO inside [outside [remote]]`.
fn redirect_proto(words: &mut Tokens<'_>) -> Result<NatRedirect, Fault> {
    let word = words.take("a protocol without ports, such as gre")?;
    let proto = match names::value(names::PROTOCOLS, word.text) {
        Some(proto) => proto,
        None if word.text.starts_with(|c: char| c.is_ascii_digit()) => {
            word.number("a protocol", 1..=u8::MAX)?
        }
        None => return Err(word.unknown("protocol", names::words(names::PROTOCOLS))),
    };
    if matches!(proto, 6 | 17 | 132) {
        return Err(word
            .fault(format!("`{}` has ports", word.text))
            .help("use `redirect_port`, or `redirect_addr`"));
    }
    let target = ip4(words.take("the host inside")?)?;
    let alias = take_number(words).map(ip4).transpose()?;
    let remote = match alias {
        Some(_) => take_number(words).map(ip4).transpose()?,
        None => None,
    };
    Ok(NatRedirect::Proto { proto, target, alias, remote })
}
