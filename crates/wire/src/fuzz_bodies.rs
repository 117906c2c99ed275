//! Properties of any bytes at all. The fuzz targets check them, and so do the ordinary tests, with bytes from a
//! generator that mutates good packets and is the same on every run.
#![expect(clippy::missing_panics_doc, reason = "to panic when something does not hold is what they are for")]

use crate::membership::{Query, Records};
use crate::rtnetlink::{self, Content, NextHopKind};
use crate::{
    arp, bpdu, bpf, checksum, dhcp6, ether, fpm, icmp4, icmp6, igmp, ip4, ip6, ip6_ext, mld, nd, ppp, pppoe,
    tcp, udp,
};
use core::net::{IpAddr, Ipv6Addr};

/// Checks that parsed Ethernet, tag and ARP headers are emitted as the same bytes.
pub fn ether(data: &[u8]) {
    if let Ok(header) = ether::Header::parse(data) {
        assert!(data.starts_with(&header.to_bytes()));
    }
    if let Ok(tag) = ether::Tag::parse(data) {
        assert!(data.starts_with(&tag.to_bytes()));
    }
    if let Ok(packet) = arp::Packet::parse(data) {
        assert!(data.starts_with(&packet.to_bytes()));
    }
}

/// A spanning tree unit is emitted as the bytes that were read, but for its version and what follows it.
pub fn bpdu(data: &[u8]) {
    let Ok(unit) = bpdu::Bpdu::parse(data) else { return };
    let mut out = [0; bpdu::LEN_MAX];
    let Ok(len) = unit.emit(&mut out) else { unreachable!("there is room for the longest one") };
    assert_eq!(bpdu::Bpdu::parse(&out[..len]), Ok(unit));
    let (version, end) = (bpdu::LLC_LEN + 2, len.min(bpdu::LLC_LEN + 35));
    assert_eq!(out[..version], data[..version]);
    assert_eq!(out[version + 1..end], data[version + 1..end]);
}

/// Runs any verified filter on any packet: it ends, and a program that was cut off is refused or ends as well.
///
/// The first byte is the number of instructions, of eight bytes each; the packet follows.
pub fn bpf(data: &[u8]) {
    let Some((count, data)) = data.split_first() else { return };
    let (program, bytes) = data.split_at(data.len().min(usize::from(count % 8) * 8));
    let mut insns = [bpf::Insn { code: 6, jt: 0, jf: 0, k: 1 }; 8];
    for (insn, bytes) in insns.iter_mut().zip(program.chunks_exact(8)) {
        let [lo, hi, jt, jf, k @ ..] = bytes else { continue };
        // Most codes have no high byte, few have bits that no operation has.
        let code = u16::from_le_bytes([*lo, hi & u8::from(*hi == 0xff)]);
        let k = k.first_chunk().map_or(0, |k| u32::from_le_bytes(*k));
        let k = if k % 4 > 0 { k % 128 } else { k };
        *insn = bpf::Insn { code, jt: jt % 9, jf: jf % 9, k };
    }
    let packet =
        bpf::Packet { bytes, len: u32::try_from(bytes.len()).unwrap_or(u32::MAX), is_outgoing: true };
    for len in 0..=insns.len() {
        if let Ok(program) = bpf::Program::new(&insns[..len]) {
            assert_eq!(program.insns().len(), len);
            let _ = program.run(&packet);
        }
    }
}

/// A DHCPv6 message, or a relay's, says no more than lies in it, and all that its options name can be asked.
pub fn dhcp6(data: &[u8]) {
    let options = match (dhcp6::View::parse(data), dhcp6::Relayed::parse(data)) {
        (Ok(view), _) => view.options,
        (_, Ok(relayed)) => relayed.options,
        _ => return,
    };
    let total: usize = options.iter().map(|(_, value)| 4 + value.len()).sum();
    assert!(data.len() - total == 4 || data.len() - total == 34);
    for code in [dhcp6::option::IA_NA, dhcp6::option::IA_PD] {
        let count = options.iter().filter(|(known, _)| *known == code).count();
        assert_eq!(options.associations(code).count(), count);
        for ia in options.associations(code) {
            let codes = [dhcp6::option::IA_ADDR, dhcp6::option::IA_PREFIX];
            let count = ia.options.iter().filter(|(known, _)| codes.contains(known)).count();
            assert_eq!(ia.leased().count(), count);
            ia.leased().for_each(|leased| _ = leased.options.status());
        }
    }
    assert!(options.search().is_none_or(dhcp6::are_names));
    let _ = (options.status(), options.addrs(dhcp6::option::DNS).count());
}

/// A PPPoE packet, and what may be a control packet of PPP, say no more than lies in them.
pub fn pppoe(data: &[u8]) {
    if let Ok(view) = pppoe::View::parse(data) {
        let len = u16::try_from(view.payload.len()).unwrap_or(u16::MAX);
        let header = pppoe::Header { code: view.code, session: view.session, len };
        assert!(data.starts_with(&header.to_bytes()));
        if let Ok(tags) = view.tags() {
            let total: usize = tags.iter().map(|(_, value)| 4 + value.len()).sum();
            assert!(total <= view.payload.len());
            let is_named = |kind| tags.iter().any(|(known, _)| known == kind);
            assert!(tags.error().is_none_or(|(kind, value)| is_named(kind) && value.len() < data.len()));
        }
        ppp(view.payload.get(2..).unwrap_or_default());
    }
    ppp(data);
}

fn ppp(data: &[u8]) {
    let Ok(view) = ppp::View::parse(data) else { return };
    assert!(view.data.len() + ppp::HEADER_LEN <= data.len());
    if let Ok(options) = view.options() {
        let total: usize = options.iter().map(|(_, value)| 2 + value.len()).sum();
        assert_eq!(total, view.data.len());
    }
    if let Some((value, rest)) = ppp::counted(view.data) {
        assert_eq!(1 + value.len() + rest.len(), view.data.len());
    }
}

/// An IPv4 header survives the round trip, with a right checksum, and its options and payload can be asked.
pub fn ip4(data: &[u8]) {
    let data = &data[..data.len().min(LONGEST)];
    let quoted = ip4::View::new_quoted(data);
    let Ok(view) = ip4::View::new(data) else { return };
    assert!(quoted.is_ok());
    assert_eq!(view.header().len() + view.payload().len(), usize::from(view.total_len()));
    assert!(view.options().count() <= ip4::OPTIONS_MAX);
    if let Err(error) = view.options().summary() {
        assert!(usize::from(error.pointer()) < ip4::HEADER_MAX + 3);
    }
    let header = ip4::Header::from(view);
    let mut out = copy(data);
    assert_eq!(header.emit(&mut out), Ok(view.header_len()));
    assert_eq!(ip4::Header::parse(&out[..data.len()]), Ok(header));
    ttl(&mut out);
    upper4(view.payload());
}

/// A decremented header still verifies.
fn ttl(packet: &mut [u8]) {
    let Some(base) = packet.first_chunk_mut::<{ ip4::HEADER_LEN }>() else { return };
    let (before, ttl) = (checksum::verify_header_20(base), base[8]);
    let is_left = checksum::take_hop(base);
    assert_eq!(checksum::verify_header_20(base), before);
    assert_eq!((is_left, base[8]), (ttl > 1, ttl - u8::from(ttl > 1)));
}

fn upper4(payload: &[u8]) {
    if let Ok((message, quote)) = icmp4::Message::parse_quoted(payload) {
        let bytes = message.to_bytes(quote);
        let again = icmp4::Message::parse_quoted(&bytes).map(|(message, _)| message);
        assert_eq!(again, Ok(message));
        let _ = ip4::View::new_quoted(quote);
    }
    udp(payload);
    tcp(payload);
}

fn udp(payload: &[u8]) {
    if let Ok(header) = udp::Header::parse(payload) {
        assert!(payload.starts_with(&header.to_bytes()));
    }
}

/// An IPv6 header survives the round trip; the walk over extension headers is bounded and stays inside.
pub fn ip6(data: &[u8]) {
    let Ok(view) = ip6::View::new(data) else { return };
    assert!(data.starts_with(&ip6::Header::from(view).to_bytes()));
    for role in [ip6_ext::Role::Router, ip6_ext::Role::Host] {
        match ip6_ext::walk(&view, role) {
            Ok(chain) => check_chain(&view, &chain),
            Err(error) => check_answer(&view, error.answer()),
        }
    }
    // what a host accepts a router does not refuse: it judges less
    assert!(
        ip6_ext::walk(&view, ip6_ext::Role::Host).is_err()
            || ip6_ext::walk(&view, ip6_ext::Role::Router).is_ok()
    );
    if let Ok((message, quote)) = icmp6::Message::parse_quoted(view.payload()) {
        let bytes = message.to_bytes(view.src(), view.dst(), quote);
        assert_eq!(icmp6::Message::parse_quoted(&bytes).map(|(message, _)| message), Ok(message));
    }
}

fn check_chain(view: &ip6::View<'_>, chain: &ip6_ext::Chain) {
    assert!(chain.headers <= ip6_ext::HEADERS_MAX);
    assert!((ip6::HEADER_LEN..=view.packet().len()).contains(&chain.upper_at));
    assert!(chain.next_header_at < chain.upper_at);
    assert_eq!(view.packet().get(chain.next_header_at), Some(&chain.upper.0));
    if let Some(fragment) = chain.fragment {
        assert!(fragment.at + ip6_ext::Fragment::LEN <= chain.upper_at);
        assert_eq!(ip6_ext::Fragment::from_bytes(&fragment.header.to_bytes()), fragment.header);
    }
    assert!(!chain.has_upper() || !chain.upper.is_ip6_extension());
}

fn check_answer(view: &ip6::View<'_>, answer: ip6_ext::IcmpReply) {
    use ip6_ext::IcmpReply::{Always, Silence, UnlessMulticast};
    let (Always(message) | UnlessMulticast(message)) = answer else { return assert_eq!(answer, Silence) };
    let icmp6::Message::ParameterProblem { pointer, .. } = message else { unreachable!("{message:?}") };
    assert!(usize::try_from(pointer).is_ok_and(|pointer| pointer <= view.packet().len()));
}

/// A TCP header survives the round trip, and the next one exactly.
pub fn tcp(data: &[u8]) {
    let Ok(view) = tcp::View::new(data) else { return };
    assert_eq!(view.header_len() + view.payload().len(), data.len());
    assert!(view.options().count() <= tcp::OPTIONS_MAX);
    let Ok(header) = tcp::Header::parse(data) else { return };
    let once = emit_tcp(&header);
    // packed without padding, one block of selective acknowledgment more fits than we write
    assert!(header.options.sack.as_slice().starts_with(once.options.sack.as_slice()));
    // nor then is there always room for Fast Open and a user timeout, which come last
    let (cookie, timeout) = (once.options.fast_open, once.options.user_timeout);
    assert!(cookie.is_none() || cookie == header.options.fast_open);
    assert!(timeout.is_none() || timeout == header.options.user_timeout);
    let options =
        tcp::Options { sack: once.options.sack, fast_open: cookie, user_timeout: timeout, ..header.options };
    assert_eq!(once, tcp::Header { options, ..header });
    assert_eq!(emit_tcp(&once), once);
}

fn emit_tcp(header: &tcp::Header) -> tcp::Header {
    let mut out = [0xa5; tcp::HEADER_MAX];
    assert_eq!(header.emit(&mut out), Ok(header.header_len()));
    let again = tcp::Header::parse(&out[..header.header_len()]);
    assert!(again.is_ok());
    again.unwrap_or(*header)
}

/// A message of neighbour discovery survives the round trip with its options. The first byte chooses the envelope.
pub fn nd(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let data = &data[..data.len().min(LONGEST)];
    let envelope = envelope(choice);
    let Ok((message, options)) = nd::Message::parse(&envelope, data) else { return };
    let mut out = copy(data);
    let len = message.emit(envelope.src, envelope.dst, options.iter(), &mut out).unwrap_or(0);
    // A route may come with more bytes of its prefix than its length needs.
    let has_route = options.iter().any(|option| matches!(option, nd::Opt::RouteInfo(_)));
    assert!(len == data.len() || (has_route && len > 0 && len < data.len()));
    let emitted = &out[..len];
    assert!(icmp6::verify(envelope.src, envelope.dst, emitted));
    let again = nd::Message::parse(&envelope, emitted);
    assert!(again.is_ok_and(|(other, others)| other == message && others.iter().eq(options.iter())));
}

fn envelope(choice: u8) -> nd::Envelope {
    let pick = |bit: u8, one: &str, zero: &str| {
        let text = if choice & bit == 0 { zero } else { one };
        text.parse().unwrap_or(Ipv6Addr::UNSPECIFIED)
    };
    let hop_limit = if choice & 4 == 0 { 255 } else { 64 };
    nd::Envelope { src: pick(1, "::", "fe80::1"), dst: pick(2, "ff02::1:ff00:1", "fe80::2"), hop_limit }
}

/// Messages of IGMP, and of listener discovery, say no more than lies in them. The first byte chooses which protocol, and
/// whether the checksum is made right before.
pub fn membership(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let data = &data[..data.len().min(LONGEST)];
    let mut buffer = copy(data);
    let message = &mut buffer[..data.len()];
    if choice & 1 == 0 {
        return match mld::Message::parse(message) {
            Some(mld::Message::Query(query)) => check_query(&query, data.len(), 28, 16),
            Some(mld::Message::Report2(records)) => check_records(records, data.len(), 20, 16),
            _ => {}
        };
    }
    if choice & 2 == 0 && message.len() >= 4 {
        message[2..4].fill(0);
        let checksum = checksum::Sum::new().bytes(message).checksum();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    match igmp::Message::parse(message) {
        Some(igmp::Message::Query(query)) => check_query(&query, data.len(), 12, 4),
        Some(igmp::Message::Report3(records)) => check_records(records, data.len(), 8, 4),
        _ => {}
    }
}

fn check_query(query: &Query<'_>, len: usize, header: usize, addr: usize) {
    assert!(query.group.is_none_or(|group: IpAddr| group.is_multicast()));
    let sources = query.sources.count();
    assert!(sources == 0 || query.group.is_some() && header + sources * addr <= len);
}

fn check_records(records: Records<'_>, len: usize, header: usize, addr: usize) {
    let sizes = records.map(|record| header + record.sources.count() * addr);
    assert!(sizes.sum::<usize>() <= len);
}

/// A stream of FPM is taken apart without a panic, and its frames, messages and hops are no longer than it.
pub fn routes(data: &[u8]) {
    let mut left = data;
    let mut total = 0;
    while let Ok(Some((messages, rest))) = fpm::frame(left) {
        assert!(messages.len() + rest.len() < left.len());
        total += messages.len() + fpm::HEADER_LEN;
        check_messages(messages);
        left = rest;
    }
    assert!(total <= data.len());
    check_messages(data);
}

fn check_messages(bytes: &[u8]) {
    let mut count = 0;
    for message in rtnetlink::messages(bytes) {
        count += 1;
        let Ok(message) = message else { continue };
        match message.content() {
            Ok(Content::NewRoute(route) | Content::DelRoute(route)) => {
                assert!(route.len <= if route.to.is_ipv4() { 32 } else { 128 });
                assert!(route.hops().count() <= 1 + bytes.len() / 8);
                assert!(route.hops().all(|hop| (1..=256).contains(&hop.weight)));
            }
            Ok(Content::NewNextHop(next)) => {
                if let NextHopKind::Group(members) = next.kind {
                    assert!(members.count() <= bytes.len() / 8);
                }
            }
            Ok(Content::NewLink(link)) => assert!(!link.name.contains(&0)),
            _ => {}
        }
    }
    assert!(count <= 1 + bytes.len() / rtnetlink::HEADER_LEN);
}

/// The longest packet that is looked at.
const LONGEST: usize = 4096;

/// A copy to emit over.
fn copy(data: &[u8]) -> [u8; LONGEST] {
    let mut buffer = [0; LONGEST];
    buffer.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    buffer
}

#[cfg(test)]
mod tests;
