//! `ifconfig`: a block for each interface.

use core::fmt::Write;
use core::net::IpAddr;

use net::vxlan::PORT;

use crate::api::{
    Address, AddressState, BridgeMember, CopyMode, DeviceInfo, DeviceMode, Interface, InterfaceFlag,
    InterfaceOption, MemifFaults, MemifInfo, MemifState, OffloadInfo, Station, StpInfo, StpMember, XdpInfo,
};

/// The blocks of all interfaces.
pub(crate) fn ifconfig(interfaces: &[Interface]) -> String {
    interfaces.iter().map(block).collect()
}

/// The lines of `ifconfig bridge0 addr`.
pub(crate) fn stations(stations: &[Station]) -> String {
    addr_lines(stations)
}

// Writing to a String does not fail.
fn block(interface: &Interface) -> String {
    let mut text = String::new();
    let (bits, names) = flags(&interface.flags);
    let Interface { name, metric, mtu, .. } = interface;
    let _ = writeln!(text, "{name}: flags={bits:x}<{names}> metric {metric} mtu {mtu}");
    if interface.fib != 0 {
        let _ = writeln!(text, "\tfib: {}", interface.fib);
    }
    if let Some(description) = &interface.description {
        let _ = writeln!(text, "\tdescription: {description}");
    }
    if !interface.options.is_empty() {
        let (bits, names) = options(&interface.options);
        let _ = writeln!(text, "\toptions={bits:x}<{names}>");
    }
    if let Some(mac) = interface.mac {
        let _ = writeln!(text, "\tether {mac}");
    }
    for address in &interface.addresses {
        text += &line(address, interface);
    }
    if !interface.groups.is_empty() {
        let groups = interface.groups.iter().map(ToString::to_string).collect::<Vec<_>>();
        let _ = writeln!(text, "\tmulticast: {}", groups.join(" "));
    }
    if let Some(twin) = &interface.twin {
        let _ = writeln!(text, "\ttwin: {twin} in the kernel");
    }
    if let Some(of) = &interface.twin_of {
        let _ = writeln!(text, "\ttwin of: {of}");
    }
    if let Some(device) = &interface.device {
        let _ = write!(text, "{}", link(interface));
        text += &match (&device.memif, device.mode) {
            (Some(memif), _) => memif_lines(memif),
            (None, DeviceMode::Vlan) => vlan_line(device),
            (None, DeviceMode::Tunnel) => tunnel_line(&device.device),
            (None, DeviceMode::Pppoe) => pppoe_lines(device),
            (None, DeviceMode::Loopback) => String::new(),
            (None, DeviceMode::Bridge) => bridge_lines(device) + &addr_lines(&interface.fdb),
            (None, DeviceMode::Vxlan) => vxlan_line(&device.device) + &addr_lines(&interface.fdb),
            (None, _) => device_line(device),
        };
        text += &xdp_line(device);
    }
    text
}

fn link(interface: &Interface) -> String {
    let status = if interface.link.active { "active" } else { "no carrier" };
    if interface.link.media.is_empty() {
        return format!("\tstatus: {status}\n");
    }
    format!("\tmedia: {}\n\tstatus: {status}\n", interface.link.media)
}

fn line(address: &Address, interface: &Interface) -> String {
    let state = match address.state {
        AddressState::Preferred => "",
        AddressState::Deprecated => " deprecated",
        AddressState::Tentative => " tentative",
        AddressState::Duplicated => " duplicated",
    };
    let length = address.prefix_len;
    match address.address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            let broadcast = if interface.is(InterfaceFlag::Broadcast) && length < 31 {
                format!(" broadcast {}", core::net::Ipv4Addr::from_bits(v4.to_bits() | !mask))
            } else {
                String::new()
            };
            format!("\tinet {v4} netmask 0x{mask:08x}{broadcast}{state}\n")
        }
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            let (name, index) = (&interface.name, interface.index);
            format!("\tinet6 {v6}%{name} prefixlen {length}{state} scopeid 0x{index:x}\n")
        }
        IpAddr::V6(v6) => format!("\tinet6 {v6} prefixlen {length}{state}{}\n", life(address)),
    }
}

/// Where an address comes from, and how long it lives, if not for ever.
fn life(address: &Address) -> String {
    let origin = match (address.autoconf, address.temporary) {
        (false, _) => return String::new(),
        (true, false) => " autoconf",
        (true, true) => " autoconf temporary",
    };
    let seconds = |left: Option<u64>| left.map_or_else(|| "infty".to_owned(), |seconds| seconds.to_string());
    format!("{origin} pltime {} vltime {}", seconds(address.preferred_s), seconds(address.valid_s))
}

/// Lines without an equivalent in BSD: the peer at the other end of the shared memory.
fn memif_lines(memif: &MemifInfo) -> String {
    let MemifInfo { role, id, socket, peer, peer_interface, rings, connects, ends, failed_connects, .. } =
        memif;
    let mut lines = format!("\tmemif: {role} id {id} socket {socket} connects {connects} ends {ends}");
    if *failed_connects > 0 {
        let _ = write!(lines, " failed connects {failed_connects}");
    }
    lines.push('\n');
    let _ = match memif.state {
        MemifState::Waiting => write!(lines, "\tpeer: waiting"),
        MemifState::Greeting => write!(lines, "\tpeer: greeting {peer}"),
        MemifState::Connected => write!(lines, "\tpeer: connected {peer} {peer_interface} rings {rings}"),
    };
    if let Some(why) = memif.last_error.as_ref().filter(|_| memif.state != MemifState::Connected) {
        let _ = write!(lines, " ({why})");
    }
    lines.push('\n');
    let MemifFaults { bad_descriptor, bad_length, bad_chain, index_jump, bad_buffer } = memif.faults;
    if memif.faults != MemifFaults::default() {
        let _ = writeln!(
            lines,
            "\tfaults: bad_descriptor {bad_descriptor} bad_length {bad_length} bad_chain {bad_chain} \
             index_jump {index_jump} bad_buffer {bad_buffer}"
        );
    }
    lines
}

/// As in BSD: the VLAN and the interface that it is over.
fn vlan_line(device: &DeviceInfo) -> String {
    let (word, rest) = device.device.split_once(':').unwrap_or(("vlan", &device.device));
    let (parent, vid) = rest.split_once(',').unwrap_or((rest, ""));
    let proto = if word == "qinq" { "802.1ad" } else { "802.1q" };
    format!(
        "\tvlan: {vid} vlanproto: {proto} vlanpcp: {} parent interface: {parent}\n",
        device.vlanpcp.unwrap_or(0)
    )
}

/// As in BSD: the outer addresses.
fn tunnel_line(device: &str) -> String {
    let ends = device.split_once(':').map_or(device, |(_, ends)| ends);
    let (local, rest) = ends.split_once(',').unwrap_or((ends, ""));
    let (remote, key) = rest.split_once(",key=").map_or((rest, None), |(remote, key)| (remote, Some(key)));
    let family = if local.contains(':') { "inet6" } else { "inet" };
    let key = key.map_or_else(String::new, |key| format!("\tgrekey: {key}\n"));
    format!("\ttunnel {family} {local} --> {remote}\n{key}")
}

/// Lines without an equivalent in BSD: the session, and why there is none.
fn pppoe_lines(device: &DeviceInfo) -> String {
    let parent = device.device.split_once(':').map_or("", |(_, rest)| rest);
    let parent = parent.split(',').next().unwrap_or_default();
    let Some(info) = &device.pppoe else { return format!("\tpppoe: parent interface: {parent}\n") };
    let mut lines = format!("\tpppoe: {}", info.phase);
    if let Some(session) = info.session {
        let _ = write!(lines, " session {session}");
    }
    if let Some(ac) = &info.ac {
        let _ = write!(lines, " ac {ac}");
    }
    if let Some(mac) = info.ac_mac {
        let _ = write!(lines, " {mac}");
    }
    if let Some(seconds) = info.connected_s {
        let _ = write!(lines, " connected {seconds}s");
    }
    if let Some(seconds) = info.retry_s {
        let _ = write!(lines, " retry in {seconds}s");
    }
    let _ = writeln!(lines, " parent interface: {parent}");
    let list = |addrs: &[IpAddr]| addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if !info.peers.is_empty() {
        let _ = writeln!(lines, "\tpeer: {}", list(&info.peers));
    }
    if !info.dns.is_empty() {
        let _ = writeln!(lines, "\tdns: {}", list(&info.dns));
    }
    if let Some(error) = &info.last_error {
        let _ = writeln!(lines, "\tlast error: {error}");
    }
    lines
}

/// As in BSD: limits and ports of a bridge, with the flags of each.
fn bridge_lines(device: &DeviceInfo) -> String {
    let Some(bridge) = &device.bridge else { return String::new() };
    let mut lines = bridge.stp.as_ref().map(tree_lines).unwrap_or_default();
    let _ =
        writeln!(lines, "\tmaxaddr {} timeout {} storm {}", bridge.maxaddr, bridge.timeout_s, bridge.storm);
    for member in &bridge.members {
        let _ = writeln!(lines, "\tmember: {} {}", member.name, member_flags(member));
        if let Some(stp) = &member.stp {
            let StpMember { role, state, port, priority, cost, protocol, .. } = stp;
            let _ = writeln!(
                lines,
                "\t        port {port} priority {priority} path cost {cost} proto {protocol}"
            );
            let _ = writeln!(lines, "\t        role {role} state {state}");
        }
    }
    lines
}

/// The flags of a port, with their names.
fn member_flags(member: &BridgeMember) -> String {
    let (edge, ptp) = member.stp.as_ref().map_or((false, false), |stp| (stp.edge, stp.ptp));
    let flags = [
        (!member.span, 0x1, "LEARNING"),
        (!member.span, 0x2, "DISCOVER"),
        (member.stp.is_some(), 0x4, "STP"),
        (member.span, 0x8, "SPAN"),
        (edge, 0x20, "EDGE"),
        (ptp, 0x80, "PTP"),
        (member.private, 0x800, "PRIVATE"),
    ];
    let set = || flags.iter().filter(|(is_set, ..)| *is_set);
    let bits = set().fold(0, |bits, (_, bit, _)| bits | bit);
    let names: Vec<&str> = set().map(|(.., name)| *name).collect();
    format!("flags={bits:x}<{}>", names.join(","))
}

/// As in BSD: identifier and times of a bridge, and the root of its spanning tree.
fn tree_lines(stp: &StpInfo) -> String {
    let StpInfo { protocol, id, root, cost, root_port, hellotime_s, maxage_s, fwddelay_s, holdcnt } = stp;
    let root_port = root_port.as_deref().unwrap_or("none");
    format!(
        "\tid {id} hellotime {hellotime_s} fwddelay {fwddelay_s} maxage {maxage_s} holdcnt {holdcnt} \
         proto {protocol}\n\troot id {root} ifcost {cost} port {root_port}\n"
    )
}

/// As in FreeBSD: the network identifier and the outer addresses.
fn vxlan_line(device: &str) -> String {
    let mut words = device.split_once(':').map_or(device, |(_, rest)| rest).split(',');
    let (vni, local) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut remote, mut port) = (None, PORT.to_string());
    for word in words {
        match word.strip_prefix("port=") {
            Some(other) => other.clone_into(&mut port),
            None => remote = Some(word),
        }
    }
    let end =
        |addr: &str| if addr.contains(':') { format!("[{addr}]:{port}") } else { format!("{addr}:{port}") };
    let mut line = format!("\tvxlan vni {vni} local {}", end(local));
    if let Some(remote) = remote {
        let is_group = remote.parse::<IpAddr>().is_ok_and(|addr| addr.is_multicast());
        line += &format!(" {} {}", if is_group { "group" } else { "remote" }, end(remote));
    }
    line + "\n"
}

/// As `ifconfig bridge0 addr` of BSD: stations, where they are, and seconds until they are forgotten.
fn addr_lines(stations: &[Station]) -> String {
    let line = |station: &Station| {
        let place = station.vtep.map(|vtep| vtep.to_string()).or_else(|| station.port.clone());
        let place = place.unwrap_or_default();
        let (left, flags) =
            (station.left_s.unwrap_or(0), if station.is_static { "1<STATIC>" } else { "0<>" });
        format!("\taddr {} {place} {left} flags={flags}\n", station.mac)
    };
    stations.iter().map(line).collect()
}

/// A line without an equivalent in BSD: the mode of the device.
fn device_line(device: &DeviceInfo) -> String {
    let (driver, name) = device.device.split_once(':').unwrap_or(("", &device.device));
    let name = name.split(',').next().unwrap_or_default();
    let word = if driver == "af_xdp" { "xdp" } else { driver };
    let mut line = format!("\t{word}:");
    match device.mode {
        DeviceMode::Native => line += " native",
        DeviceMode::Generic => line += " generic",
        DeviceMode::Tap
        | DeviceMode::Tun
        | DeviceMode::Pcap
        | DeviceMode::Null
        | DeviceMode::Memif
        | DeviceMode::Mem
        | DeviceMode::Vlan
        | DeviceMode::Tunnel
        | DeviceMode::Vxlan
        | DeviceMode::Bridge
        | DeviceMode::Pppoe
        | DeviceMode::Loopback => {}
    }
    match device.copy {
        Some(CopyMode::Copy) => line += " copy",
        Some(CopyMode::ZeroCopy) => line += " zero-copy",
        None => {}
    }
    if device.need_wakeup {
        line += " need-wakeup";
    }
    if let Some(umem) = device.umem {
        let _ = write!(line, " umem {}x{}", umem.chunks, umem.chunk_bytes);
    }
    let _ = writeln!(line, " host {name} queues {}", device.queues);
    if let Some(offload) = device.offload {
        let sends = if offload.sends { "" } else { " receive-only" };
        let OffloadInfo { stale, exceptions, .. } = offload;
        let _ = writeln!(line, "\toffload: auto{sends} stale {stale} exceptions {exceptions}");
    }
    line
}

/// The XDP program, and its verdicts.
fn xdp_line(device: &DeviceInfo) -> String {
    device.xdp.as_ref().map_or_else(String::new, |xdp| {
        let XdpInfo { file, program, aborted, dropped, passed, sent_back, redirected, .. } = xdp;
        let place = if xdp.in_kernel { "kernel" } else { "process" };
        format!(
            "\txdp program: {program} {file} {place} pass {passed} drop {dropped} tx {sent_back} redirect {redirected} aborted {aborted}\n"
        )
    })
}

/// The bits of BSD's `net/if.h`, and their names.
fn flags(flags: &[InterfaceFlag]) -> (u32, String) {
    bits(flags, |flag| match flag {
        InterfaceFlag::Up => (0x1, "UP"),
        InterfaceFlag::Broadcast => (0x2, "BROADCAST"),
        InterfaceFlag::Loopback => (0x8, "LOOPBACK"),
        InterfaceFlag::PointToPoint => (0x10, "POINTOPOINT"),
        InterfaceFlag::Running => (0x40, "RUNNING"),
        InterfaceFlag::Promisc => (0x100, "PROMISC"),
        InterfaceFlag::Simplex => (0x800, "SIMPLEX"),
        InterfaceFlag::Multicast => (0x8000, "MULTICAST"),
        InterfaceFlag::Monitor => (0x4_0000, "MONITOR"),
    })
}

/// The bits of BSD's `IFCAP_*`, and their names.
fn options(options: &[InterfaceOption]) -> (u32, String) {
    bits(options, |option| match option {
        InterfaceOption::Rxcsum => (0x1, "RXCSUM"),
        InterfaceOption::Txcsum => (0x2, "TXCSUM"),
        InterfaceOption::Tso4 => (0x100, "TSO4"),
        InterfaceOption::Tso6 => (0x200, "TSO6"),
        InterfaceOption::Lro => (0x400, "LRO"),
    })
}

fn bits<T: Copy>(set: &[T], meaning: impl Fn(T) -> (u32, &'static str)) -> (u32, String) {
    let mut known: Vec<(u32, &str)> = set.iter().map(|&one| meaning(one)).collect();
    known.sort_unstable();
    known.dedup();
    let names: Vec<&str> = known.iter().map(|&(_, name)| name).collect();
    (known.iter().fold(0, |all, (bit, _)| all | bit), names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vxlan_shows_its_ends_and_the_stations_behind_them() {
        for (device, line) in [
            ("vxlan:42,192.0.2.1", "\tvxlan vni 42 local 192.0.2.1:4789\n"),
            (
                "vxlan:42,2001:db8::1,ff05::7,port=8472",
                "\tvxlan vni 42 local [2001:db8::1]:8472 group [ff05::7]:8472\n",
            ),
            (
                "vxlan:7,192.0.2.1,198.51.100.1",
                "\tvxlan vni 7 local 192.0.2.1:4789 remote 198.51.100.1:4789\n",
            ),
        ] {
            assert_eq!(vxlan_line(device), line);
        }
        let station = |last, is_static, left_s| Station {
            mac: crate::Mac(wire::ether::Mac([2, 0, 0, 0, 0, last])),
            vtep: Some(IpAddr::from([198, 51, 100, 1])),
            port: None,
            is_static,
            left_s,
        };
        assert_eq!(
            addr_lines(&[station(7, false, Some(1199)), station(8, true, None)]),
            "\taddr 02:00:00:00:00:07 198.51.100.1 1199 flags=0<>\n\
             \taddr 02:00:00:00:00:08 198.51.100.1 0 flags=1<STATIC>\n"
        );
    }

    #[test]
    fn a_bridge_shows_its_ports_and_the_stations_behind_them() {
        let member =
            |name: &str, private, span| BridgeMember { name: name.to_owned(), private, span, stp: None };
        let members = vec![member("a", false, false), member("b", true, false), member("c", false, true)];
        let bridge = crate::api::BridgeInfo { members, maxaddr: 2000, timeout_s: 1200, storm: 7, stp: None };
        let info = DeviceInfo {
            device: "bridge:a,b,c".to_owned(),
            mode: DeviceMode::Bridge,
            copy: None,
            need_wakeup: false,
            offload: None,
            xdp: None,
            umem: None,
            queues: 0,
            memif: None,
            bridge: Some(bridge),
            vlanpcp: None,
            pppoe: None,
        };
        assert_eq!(
            bridge_lines(&info),
            "\tmaxaddr 2000 timeout 1200 storm 7\n\tmember: a flags=3<LEARNING,DISCOVER>\n\
             \tmember: b flags=803<LEARNING,DISCOVER,PRIVATE>\n\tmember: c flags=8<SPAN>\n"
        );
        let tree = StpInfo {
            protocol: "rstp".to_owned(),
            id: "8000.02:00:00:00:00:01".to_owned(),
            root: "1000.02:00:00:00:00:02".to_owned(),
            cost: 20_000,
            root_port: Some("a".to_owned()),
            hellotime_s: 2,
            maxage_s: 20,
            fwddelay_s: 15,
            holdcnt: 6,
        };
        let of_port = StpMember {
            role: "root".to_owned(),
            state: "forwarding".to_owned(),
            port: 1,
            priority: 128,
            cost: 20_000,
            protocol: "stp".to_owned(),
            edge: false,
            ptp: true,
        };
        let mut info = info;
        if let Some(bridge) = &mut info.bridge {
            (bridge.stp, bridge.members[0].stp) = (Some(tree), Some(of_port));
            bridge.members.truncate(1);
        }
        assert_eq!(
            bridge_lines(&info),
            "\tid 8000.02:00:00:00:00:01 hellotime 2 fwddelay 15 maxage 20 holdcnt 6 proto rstp\n\
             \troot id 1000.02:00:00:00:00:02 ifcost 20000 port a\n\tmaxaddr 2000 timeout 1200 storm 7\n\
             \tmember: a flags=87<LEARNING,DISCOVER,STP,PTP>\n\
             \t        port 1 priority 128 path cost 20000 proto stp\n\t        role root state forwarding\n"
        );
        let mac = crate::Mac(wire::ether::Mac([2, 0, 0, 0, 0, 7]));
        let port = Some("a".to_owned());
        let station = Station { mac, vtep: None, port, is_static: false, left_s: Some(9) };
        assert_eq!(addr_lines(&[station]), "\taddr 02:00:00:00:00:07 a 9 flags=0<>\n");
    }

    #[test]
    fn a_tunnel_shows_its_ends() {
        let v4 = tunnel_line("gif:192.0.2.1,198.51.100.1");
        assert_eq!(v4, "\ttunnel inet 192.0.2.1 --> 198.51.100.1\n");
        let v6 = tunnel_line("gif:2001:db8::1,2001:db8:1::1");
        assert_eq!(v6, "\ttunnel inet6 2001:db8::1 --> 2001:db8:1::1\n");
        let gre = tunnel_line("gre:192.0.2.1,198.51.100.1,key=7");
        assert_eq!(gre, "\ttunnel inet 192.0.2.1 --> 198.51.100.1\n\tgrekey: 7\n");
    }

    #[test]
    fn a_vlan_shows_its_tag_and_the_interface_that_it_is_over() {
        for (device, vlanpcp, line) in [
            ("vlan:lan,10", 0, "\tvlan: 10 vlanproto: 802.1q vlanpcp: 0 parent interface: lan\n"),
            ("qinq:lan,4094", 5, "\tvlan: 4094 vlanproto: 802.1ad vlanpcp: 5 parent interface: lan\n"),
        ] {
            let info = DeviceInfo {
                device: device.to_owned(),
                mode: DeviceMode::Vlan,
                copy: None,
                need_wakeup: false,
                offload: None,
                xdp: None,
                umem: None,
                queues: 0,
                memif: None,
                bridge: None,
                vlanpcp: Some(vlanpcp),
                pppoe: None,
            };
            assert_eq!(vlan_line(&info), line);
        }
    }
}
