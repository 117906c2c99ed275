//! Interfaces by which this machine is reached: AF_XDP takes all frames away from the kernel, and with them the way of a user that
//! sits at the other end.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeSet;

use dev::netlink::{Link, NetlinkError, Rtnetlink};
use dev::sys::process;
use ipnet::IpNet;

use crate::config::KernelPorts;

/// Kinds of interfaces that send through the one that their `IFLA_LINK` names.
const STACKED: [&str; 4] = ["vlan", "macvlan", "macvtap", "ipvlan"];
/// The protocol number of TCP.
const TCP: u8 = 6;
/// The state `TCP_ESTABLISHED` in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// An ssh session: the addresses of the client and of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    client: SocketAddr,
    here: SocketAddr,
}

/// Why the kernel's interface should not be taken: it carries its default route, or the ssh session of the caller.
pub(crate) fn of(host: &str, netlink: &mut Rtnetlink) -> Result<Option<String>, NetlinkError> {
    let links = netlink.links()?;
    let Some(link) = links.iter().find(|link| link.name == host) else { return Ok(None) };
    let carried = carried(link, &links);
    let by = |index: &u32| {
        let name = links.iter().find(|link| link.index == *index).map_or("", |link| &link.name);
        if name == host { String::new() } else { format!(" of {name}") }
    };
    if let Some(index) = netlink.default_route_links()?.iter().find(|index| carried.contains(index)) {
        return Ok(Some(format!("{host} carries the kernel's default route{}", by(index))));
    }
    let own = netlink.addresses()?;
    for session in sessions() {
        let addressed = own.iter().filter(|own| own.net.addr() == session.here.ip()).map(|own| own.ifindex);
        let ways = addressed.chain(netlink.link_towards(session.client.ip())?);
        if ways.into_iter().any(|index| carried.contains(&index)) {
            return Ok(Some(format!("{host} carries your ssh session from {}", session.client.ip())));
        }
    }
    Ok(None)
}

/// Why a shared interface should not have these addresses: the ssh session of the caller is at one of them, and its port not
/// among the kernel's.
pub(crate) fn session_at(addresses: &[IpNet], kernels: &[KernelPorts]) -> Option<String> {
    let is_lost = |session: &Session| {
        addresses.iter().any(|net| net.addr() == session.here.ip())
            && !kernels.iter().any(|ports| ports.has(TCP, session.here.port()))
    };
    let lost = sessions().into_iter().find(is_lost)?;
    Some(format!("{} has your ssh session from {}", lost.here, lost.client.ip()))
}

/// The interfaces that are lost with `link`: itself, its bridge or bond, and what is stacked on them.
fn carried(link: &Link, links: &[Link]) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([link.index]);
    loop {
        let is_stacked = |link: &Link| link.kind.as_deref().is_some_and(|kind| STACKED.contains(&kind));
        let masters = links.iter().filter(|link| found.contains(&link.index)).filter_map(|link| link.master);
        let stacked = links
            .iter()
            .filter(|link| is_stacked(link) && link.peer.is_some_and(|parent| found.contains(&parent)));
        let more: Vec<u32> = masters.chain(stacked.map(|link| link.index)).collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            return found;
        }
    }
}

/// The established ssh sessions in which this process was started: `SSH_CONNECTION` of itself and of the processes that it
/// descends from, because `sudo` does not hand it on.
fn sessions() -> Vec<Session> {
    let mut found = Vec::new();
    let mut pid = Some(std::process::id());
    while let Some(now) = pid.filter(|pid| *pid > 1) {
        let environment = std::fs::read(format!("/proc/{now}/environ")).unwrap_or_default();
        found.extend(environment.split(|byte| *byte == 0).filter_map(session));
        pid = process::parent_of(now);
    }
    found.retain(is_established);
    found
}

/// Reads `SSH_CONNECTION=client-address client-port own-address own-port`.
fn session(variable: &[u8]) -> Option<Session> {
    let text = core::str::from_utf8(variable).ok()?.strip_prefix("SSH_CONNECTION=")?;
    let words: Vec<&str> = text.split(' ').collect();
    let [client, client_port, here, port] = words[..] else { return None };
    // A link-local address has its interface behind it.
    let at = |address: &str, port: &str| {
        let address: IpAddr = address.split('%').next()?.parse().ok()?;
        Some(SocketAddr::new(address.to_canonical(), port.parse().ok()?))
    };
    Some(Session { client: at(client, client_port)?, here: at(here, port)? })
}

fn is_established(session: &Session) -> bool {
    let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
    tables.iter().any(|table| std::fs::read_to_string(table).is_ok_and(|text| has(&text, session)))
}

/// Whether a table of the kernel's TCP connections has the session.
fn has(table: &str, session: &Session) -> bool {
    table.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, here, client, state, ..] = words[..] else { return false };
        state == ESTABLISHED && (address(here), address(client)) == (Some(session.here), Some(session.client))
    })
}

/// Reads `0100007F:0016`: the address in words of the machine's order, the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<u32>> = (0..address.len() / 8)
        .map(|at| u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok())
        .collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address = match <[u8; 16]>::try_from(bytes.as_slice()) {
        Ok(bytes) => IpAddr::from(bytes).to_canonical(),
        Err(_) => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn a_session_is_found_in_the_kernels_tables_of_both_families() {
        let v4 = session(b"SSH_CONNECTION=192.0.2.9 50000 192.0.2.1 22").unwrap();
        let v6 = session(b"SSH_CONNECTION=fe80::9%eth0 50000 2001:db8::1 22").unwrap();
        let lines = "sl\n 0: 010200C0:0016 090200C0:C350 01 x\n";
        assert!(has(lines, &v4) && !has(lines, &v6) && !has(&lines.replace(" 01 ", " 06 "), &v4));
        let mapped =
            "sl\n 0: 0000000000000000FFFF0000010200C0:0016 0000000000000000FFFF0000090200C0:C350 01 x\n";
        assert!(has(mapped, &v4));
        let six =
            "sl\n 0: B80D0120000000000000000001000000:0016 000080FE000000000000000009000000:C350 01 x\n";
        assert!(has(six, &v6) && !has(six, &v4));
    }

    #[test]
    fn what_is_no_session_is_passed_over() {
        for text in ["", "SSH_CONNECTION=", "SSH_CONNECTION=a 1 b 2", "SSH_CONNECTION=::1 1 ::1", "PATH=x"] {
            assert_eq!(session(text.as_bytes()), None, "{text}");
        }
        for text in ["", ":", "0:0", "zz000000:1", "01000000:10000", "é1234567:1"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
