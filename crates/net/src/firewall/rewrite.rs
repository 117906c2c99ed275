//! Changes that rules make to packets besides addresses and ports.

use pkt::Pkt;
use wire::checksum::update_u16;

use crate::ip::l4;
use crate::link::mss;

/// `setdscp`: gives a packet this code point (6 bits); the two bits of ECN stay.
//= https://www.rfc-editor.org/rfc/rfc2474#section-3
pub(super) fn set_dscp(pkt: &mut Pkt, dscp: u8) {
    let is_ip4 = l4::is_ip4(pkt);
    let [first, second, rest @ ..] = pkt.window_mut(0);
    let old = u16::from_be_bytes([*first, *second]);
    if is_ip4 {
        *second = dscp << 2 | *second & 3;
        // Version, length and type of service are the first word that the checksum covers.
        let [_, _, _, _, _, _, _, _, hi, lo, ..] = rest;
        let new = u16::from_be_bytes([*first, *second]);
        [*hi, *lo] = update_u16(u16::from_be_bytes([*hi, *lo]), old, new).to_be_bytes();
    } else {
        const POINT: u16 = 0x0fc0;
        [*first, *second] = (old & !POINT | u16::from(dscp) << 6 & POINT).to_be_bytes();
    }
}

/// `tcp-setmss`: lowers the maximum segment size that a SYN tells. A packet that is none, or tells less, or nothing,
/// stays as it is.
pub(super) fn lower_mss(pkt: &mut Pkt, mss: u16) {
    let l4 = usize::from(pkt.l4);
    mss::lower(pkt, l4, mss);
}

#[cfg(test)]
mod tests {
    use wire::tcp::{Flags as TcpFlags, Header, Options};

    use super::*;
    use crate::testkit::{Bench, addr4, addr6, build};
    use core::net::IpAddr;

    fn ends() -> [(IpAddr, IpAddr); 2] {
        [(addr4(1, 2).into(), addr4(2, 2).into()), (addr6(1, 2).into(), addr6(2, 2).into())]
    }

    /// A SYN with these option bytes, whose checksum is right.
    fn syn((src, dst): (IpAddr, IpAddr), options: &[u8]) -> Vec<u8> {
        let flags = TcpFlags::SYN;
        let options = Options::parse(options).map_or(Options::NONE, |options| options);
        let header =
            Header { src_port: 1, dst_port: 2, seq: 3, ack: 0, flags, window: 9, urgent: 0, options };
        build::tcp(src, dst, &header, &[])
    }

    /// The packet after `change`, as a packet of the stack.
    fn after(packet: &[u8], change: impl FnOnce(&mut Pkt)) -> Vec<u8> {
        let mut bench = Bench::new(1);
        let cpu = bench.cpu();
        let mut pkt = cpu.pool.take().unwrap();
        pkt.append(packet.len()).unwrap().copy_from_slice(packet);
        (pkt.l4, pkt.proto) = (if packet[0] >> 4 == 4 { 20 } else { 40 }, 6);
        change(&mut pkt);
        let bytes = pkt.head().to_vec();
        cpu.pool.give(pkt);
        bytes
    }

    fn is_right(packet: &[u8]) -> bool {
        let sliced = etherparse::PacketHeaders::from_ip_slice(packet).unwrap();
        let etherparse::TransportHeader::Tcp(tcp) = sliced.transport.unwrap() else { return false };
        match sliced.net.unwrap() {
            etherparse::NetHeaders::Ipv4(ip, _) => {
                ip.header_checksum == ip.calc_header_checksum()
                    && tcp.checksum == tcp.calc_checksum_ipv4(&ip, &[]).unwrap()
            }
            etherparse::NetHeaders::Ipv6(ip, _) => tcp.checksum == tcp.calc_checksum_ipv6(&ip, &[]).unwrap(),
            etherparse::NetHeaders::Arp(_) => false,
        }
    }

    #[test]
    fn a_code_point_is_set_and_ecn_stays_as_it_was() {
        for ends in ends() {
            let mut packet = syn(ends, &[]);
            packet[1] |= if ends.0.is_ipv4() { 1 } else { 1 << 4 };
            if ends.0.is_ipv4() {
                build::fix_ip4_checksum(&mut packet);
            }
            let bytes = after(&packet, |pkt| set_dscp(pkt, 46));
            let class = u16::from_be_bytes([bytes[0], bytes[1]]);
            let tos = if ends.0.is_ipv4() { class & 0xff } else { class >> 4 & 0xff };
            assert_eq!(tos, 46 << 2 | 1);
            assert!(is_right(&bytes), "{ends:?}");
        }
    }

    #[test]
    fn the_segment_size_of_a_syn_is_lowered_and_never_raised() {
        for ends in ends() {
            let packet = syn(ends, &[2, 4, 5, 180]);
            let at = if ends.0.is_ipv4() { 42 } else { 62 };
            let lowered = after(&packet, |pkt| lower_mss(pkt, 1300));
            assert_eq!(lowered[at..at + 2], 1300_u16.to_be_bytes());
            assert!(is_right(&lowered), "{ends:?}");
            assert_eq!(after(&packet, |pkt| lower_mss(pkt, 1460)), packet, "as it was");
        }
    }

    #[test]
    fn an_option_at_an_odd_place_keeps_the_checksum_right() {
        for ends in ends() {
            // Room for options, filled by hand: a no-op first moves the value to an odd place.
            let mut packet = syn(ends, &[2, 4, 5, 180, 3, 3, 7, 0]);
            let (l4, to) = if ends.0.is_ipv4() { (20, 44) } else { (40, 64) };
            assert_eq!(packet[l4 + 12] >> 4, 7, "seven words of header");
            let options = [1, 2, 4, 5, 180, 1, 1, 0];
            let before = u16::from_be_bytes([packet[l4 + 16], packet[l4 + 17]]);
            let old: Vec<u8> = packet[l4 + 20..l4 + 28].to_vec();
            packet[l4 + 20..l4 + 28].copy_from_slice(&options);
            let words = |bytes: &[u8]| -> Vec<u16> {
                bytes.chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect()
            };
            let sum = words(&old).into_iter().zip(words(&options));
            let sum = sum.fold(before, |sum, (old, new)| update_u16(sum, old, new));
            packet[l4 + 16..l4 + 18].copy_from_slice(&sum.to_be_bytes());
            assert!(is_right(&packet), "the test's own packet, {to}");
            let lowered = after(&packet, |pkt| lower_mss(pkt, 536));
            assert_eq!(lowered[l4 + 23..l4 + 25], 536_u16.to_be_bytes());
            assert!(is_right(&lowered), "{ends:?}");
        }
    }

    #[test]
    fn options_that_make_no_sense_are_left_alone() {
        for options in [&[2, 3, 5, 180][..], &[5, 0, 2, 4], &[5, 1, 2, 4], &[8, 40, 0, 0]] {
            let mut packet = syn(ends()[0], &[2, 4, 5, 180]);
            packet[40..44].copy_from_slice(options);
            assert_eq!(after(&packet, |pkt| lower_mss(pkt, 536)), packet);
        }
    }
}
