//! `arp` and `ndp`: show, enter, forget.

use core::net::IpAddr;

use super::flags::Flags;
use super::{Failure, Session, resolve};
use crate::Mac;
use crate::api::client::{Client, escaped};
use crate::api::{Family, Learned, LearnedLink, Neighbour, NeighbourRequest};
use crate::show;

pub(crate) const ARP_USAGE: &str = "\
pantala arp [-n] -a [-i IF]
       pantala arp [-n] HOST
       pantala arp -s HOST MAC [pub]
       pantala arp -d HOST | -d -a";

pub(crate) const ARP_HELP: &str = "  -a       every IPv4 neighbour
  -i IF    only those on this interface
  -s       add a permanent entry; with `pub`, answer for HOST, which is
           elsewhere (proxy ARP); MAC may be `auto` then: the interface's own
  -d       delete an entry; -d -a: all learnt entries
  -n       numbers instead of names (always so)

Examples:
  pantala arp -an
  pantala arp -s 192.0.2.7 02:00:00:00:00:07
  pantala arp -i lan -s 198.51.100.9 auto pub";

pub(crate) const NDP_USAGE: &str = "\
pantala ndp [-n] -a [-i IF]
       pantala ndp [-n] HOST
       pantala ndp -s HOST MAC [proxy]
       pantala ndp -d HOST | -c
       pantala ndp -r | -p | -R | -P";

pub(crate) const NDP_HELP: &str = "  -a       every IPv6 neighbour
  -i IF    only those on this interface
  -s       add a permanent entry; with `proxy`, answer for HOST, which is
           elsewhere (proxy ND); MAC may be `auto` then: the interface's own
  -d       delete an entry
  -c       delete all learnt entries
  -r       default routers from router advertisements
  -p       on-link prefixes from router advertisements
  -R       forget the default routers
  -P       forget the prefixes, and the addresses in them
  -n       numbers instead of names (always so)

Examples:
  pantala ndp -an
  pantala ndp -d 2001:db8::7";

/// Words of `arp` and `ndp` that publish an address.
const PUBLISH: [&str; 2] = ["pub", "proxy"];

/// A command on the neighbours of a family.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Neighbours {
    family: Family,
    act: Act,
}

#[derive(Debug, PartialEq, Eq)]
enum Act {
    Show { interface: Option<String>, host: Option<IpAddr> },
    Set { host: IpAddr, request: NeighbourRequest },
    Delete(IpAddr),
    Flush,
    Routers,
    Prefixes,
    Forget(Learned),
}

impl Neighbours {
    pub(crate) fn arp(words: &[String]) -> Result<Self, Failure> {
        Self::read("arp", Family::Inet, &Flags::read("arp", words, "ands", "i")?)
    }

    pub(crate) fn ndp(words: &[String]) -> Result<Self, Failure> {
        Self::read("ndp", Family::Inet6, &Flags::read("ndp", words, "andscrpRP", "i")?)
    }

    fn read(command: &str, family: Family, flags: &Flags) -> Result<Self, Failure> {
        let interface = flags.value('i').map(str::to_owned);
        let act = if flags.has('r') {
            flags.no_operands(command).map(|()| Act::Routers)
        } else if flags.has('p') {
            flags.no_operands(command).map(|()| Act::Prefixes)
        } else if flags.has('R') {
            flags.no_operands(command).map(|()| Act::Forget(Learned::Routers))
        } else if flags.has('P') {
            flags.no_operands(command).map(|()| Act::Forget(Learned::Prefixes))
        } else if flags.has('c') || (flags.has('d') && flags.has('a')) {
            flags.no_operands(command).map(|()| Act::Flush)
        } else if flags.has('d') {
            resolve::host(flags.one_operand(command, "the host")?, Some(family)).map(Act::Delete)
        } else if flags.has('s') {
            set(command, family, flags, interface)
        } else if flags.operands.is_empty() {
            Ok(Act::Show { interface, host: None })
        } else {
            let host = resolve::host(flags.one_operand(command, "the host")?, Some(family))?;
            Ok(Act::Show { interface, host: Some(host) })
        };
        act.map(|act| Self { family, act })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let client = &session.client;
        match self.act {
            Act::Routers => session.show(&links(client)?, |links| show::routers(links)),
            Act::Prefixes => session.show(&links(client)?, |links| show::prefixes(links)),
            Act::Forget(what) => {
                let count: u64 = client.delete(&format!("/v1/links?what={what}"))?;
                session.done(&format!("{count} {what} forgotten\n"))
            }
            Act::Show { interface, host } => list(self.family, interface.as_deref(), host, session),
            Act::Set { host, request } => {
                let () = client.put(&path(host), &request)?;
                session.done("")
            }
            Act::Delete(host) => {
                let () = client.delete(&path(host))?;
                session.done(&format!("{host} deleted\n"))
            }
            Act::Flush => {
                let count: u64 = client.delete(&format!("/v1/neighbours?family={}", self.family))?;
                session.done(&format!("{count} deleted\n"))
            }
        }
    }
}

fn links(client: &Client) -> Result<Vec<LearnedLink>, Failure> {
    Ok(client.get("/v1/links")?)
}

fn set(command: &str, family: Family, flags: &Flags, interface: Option<String>) -> Result<Act, Failure> {
    let [host, mac, words @ ..] = flags.operands.as_slice() else {
        return Err(Failure::usage(format!("{command}: -s takes a host and its Ethernet address")));
    };
    if let Some(word) = words.iter().find(|word| !PUBLISH.contains(&word.as_str())) {
        return Err(Failure::usage(format!("{command}: what is `{word}`? `pub` publishes an address")));
    }
    let publish = !words.is_empty();
    let mac = match mac.as_str() {
        "auto" if publish => None,
        text => {
            let mac = text.parse().map_err(|why| Failure::usage(format!("{command}: `{text}`: {why}")))?;
            Some(Mac(mac))
        }
    };
    let host = resolve::host(host, Some(family))?;
    Ok(Act::Set { host, request: NeighbourRequest { mac, interface, publish } })
}

fn list(
    family: Family,
    interface: Option<&str>,
    host: Option<IpAddr>,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let mut list: Vec<Neighbour> = session.client.get(&format!("/v1/neighbours?family={family}"))?;
    list.retain(|neighbour| {
        interface.is_none_or(|name| name == neighbour.interface)
            && host.is_none_or(|host| host == neighbour.address)
    });
    if let (Some(host), true) = (host, list.is_empty()) {
        return Err(Failure::Failed(format!("{host} is not known as a neighbour")));
    }
    session.show(&list, |list| match family {
        Family::Inet => show::arp(list),
        Family::Inet6 => show::ndp(list),
    })
}

fn path(host: IpAddr) -> String {
    format!("/v1/neighbours/{}", escaped(&host.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Neighbours, Failure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match words.split_first() {
            Some((command, words)) if command == "arp" => Neighbours::arp(words),
            Some((_, words)) => Neighbours::ndp(words),
            None => panic!("{line}"),
        }
    }

    #[test]
    fn the_same_lines_are_understood_for_both_families() {
        for (command, family, host) in
            [("arp", Family::Inet, "192.0.2.7"), ("ndp", Family::Inet6, "2001:db8::7")]
        {
            let address: IpAddr = host.parse().unwrap();
            let mac = Some(Mac([2, 0, 0, 0, 0, 7].into()));
            let request = NeighbourRequest { mac, interface: None, publish: false };
            let publish = NeighbourRequest { publish: true, ..request.clone() };
            let own = NeighbourRequest { mac: None, interface: Some("lan".into()), publish: true };
            for (line, act) in [
                ("-an".to_owned(), Act::Show { interface: None, host: None }),
                ("-a -i lan".to_owned(), Act::Show { interface: Some("lan".into()), host: None }),
                (format!("-n {host}"), Act::Show { interface: None, host: Some(address) }),
                (format!("-d {host}"), Act::Delete(address)),
                ("-ad".to_owned(), Act::Flush),
                (format!("-s {host} 2:0:0:0:0:7"), Act::Set { host: address, request }),
                (format!("-s {host} 2:0:0:0:0:7 pub"), Act::Set { host: address, request: publish.clone() }),
                (format!("-s {host} 2:0:0:0:0:7 pub proxy"), Act::Set { host: address, request: publish }),
                (format!("-i lan -s {host} auto proxy"), Act::Set { host: address, request: own }),
            ] {
                assert_eq!(read(&format!("{command} {line}")).unwrap(), Neighbours { family, act }, "{line}");
            }
        }
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("arp -d", "the host is missing"),
            ("arp -d 192.0.2.1 192.0.2.2", "one word too many"),
            ("arp -d 2001:db8::1", "not an address of the family inet"),
            ("ndp -d 192.0.2.1", "not an address of the family inet6"),
            ("arp -s 192.0.2.1", "-s takes a host and its Ethernet address"),
            ("arp -s 192.0.2.1 02:00", "six pairs of hexadecimal digits"),
            ("arp -s 192.0.2.1 auto", "six pairs of hexadecimal digits"),
            ("arp -s 192.0.2.1 2:0:0:0:0:7 temp", "what is `temp`?"),
            ("arp -x", "no flag -x"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
