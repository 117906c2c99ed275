//! Packets as ipfw's log describes them: `TCP 192.0.2.1:5 198.51.100.9:80`.

use core::fmt::Write;
use core::net::IpAddr;

use wire::{Protocol, ip4, ip6, ip6_ext};

/// A packet from its network header on, as far as it is there.
pub(crate) fn packet(bytes: &[u8]) -> String {
    if let Ok(view) = ip4::View::new_quoted(bytes) {
        return v4(&view);
    }
    match ip6::View::new_quoted(bytes) {
        Ok(view) => v6(&view),
        Err(_) => "bad packet".to_owned(),
    }
}

fn v4(view: &ip4::View<'_>) -> String {
    let upper = if view.fragment_offset() == 0 { view.payload() } else { &[] };
    let mut text = ends(view.protocol(), view.src().into(), view.dst().into(), upper);
    if view.is_fragment() {
        let length = usize::from(view.total_len()).saturating_sub(view.header_len());
        fragment(&mut text, view.id().into(), length, view.fragment_offset(), view.more_fragments());
    }
    text
}

fn v6(view: &ip6::View<'_>) -> String {
    let (src, dst) = (view.src().into(), view.dst().into());
    let Ok(chain) = ip6_ext::walk(view, ip6_ext::Role::Router) else {
        return ends(view.next_header(), src, dst, &[]);
    };
    let upper = if chain.has_upper() { view.packet().get(chain.upper_at..) } else { None };
    let mut text = ends(chain.upper, src, dst, upper.unwrap_or_default());
    if let Some(at) = chain.fragment {
        let header = at.header;
        let end = usize::from(view.payload_len()) + ip6::HEADER_LEN;
        let length = end.saturating_sub(at.at + ip6_ext::Fragment::LEN);
        fragment(&mut text, header.id, length, header.offset, header.more);
    }
    text
}

/// Protocol, and both ends with what the upper layer's header says of them, if it is there.
fn ends(protocol: Protocol, src: IpAddr, dst: IpAddr, upper: &[u8]) -> String {
    let is_v6 = src.is_ipv6();
    let name = match protocol {
        Protocol::TCP => "TCP".to_owned(),
        Protocol::UDP => "UDP".to_owned(),
        Protocol::ICMP if !is_v6 => "ICMP".to_owned(),
        Protocol::ICMP6 if is_v6 => "ICMPv6".to_owned(),
        Protocol(other) => format!("P:{other}"),
    };
    let address = |address: IpAddr| if is_v6 { format!("[{address}]") } else { address.to_string() };
    let (src, dst) = (address(src), address(dst));
    match (protocol, upper) {
        (Protocol::TCP | Protocol::UDP, [s0, s1, d0, d1, ..]) => {
            let port = |high: u8, low: u8| u16::from_be_bytes([high, low]);
            format!("{name} {src}:{} {dst}:{}", port(*s0, *s1), port(*d0, *d1))
        }
        (Protocol::ICMP | Protocol::ICMP6, [kind, code, ..]) => format!("{name}:{kind}.{code} {src} {dst}"),
        _ => format!("{name} {src} {dst}"),
    }
}

fn fragment(text: &mut String, id: u32, length: usize, offset: u16, more: bool) {
    // Writing to a String does not fail.
    let _ = write!(text, " (frag {id}:{length}@{offset}{})", if more { "+" } else { "" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, fragment: [u8; 2], payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(20 + payload.len()).unwrap();
        let [high, low] = fragment;
        let header = [0x45, 0, 0, length, 0, 7, high, low, 64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 9];
        [&header[..], payload].concat()
    }

    fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        let mut header = vec![0x60, 0, 0, 0, 0, length, next, 64];
        for last in [1, 9] {
            header.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        [&header[..], payload].concat()
    }

    #[test]
    fn ends_are_named_with_what_their_protocol_says_of_them() {
        for (bytes, text) in [
            (v4(6, [0, 0], &[0, 5, 0, 80]), "TCP 192.0.2.1:5 198.51.100.9:80"),
            (v6(17, &[0, 5, 0, 53]), "UDP [2001:db8::1]:5 [2001:db8::9]:53"),
            (v4(1, [0, 0], &[8, 0, 0, 0]), "ICMP:8.0 192.0.2.1 198.51.100.9"),
            (v6(58, &[128, 0, 0, 0]), "ICMPv6:128.0 [2001:db8::1] [2001:db8::9]"),
            (v4(47, [0, 0], &[0; 4]), "P:47 192.0.2.1 198.51.100.9"),
        ] {
            assert_eq!(packet(&bytes), text);
        }
    }

    #[test]
    fn a_fragment_says_which_part_it_is_and_a_later_one_has_no_ports() {
        let first = v4(17, [0x20, 0], &[0, 5, 0, 53, 0, 0, 0, 0]);
        assert_eq!(packet(&first), "UDP 192.0.2.1:5 198.51.100.9:53 (frag 7:8@0+)");
        let later = v4(17, [0, 2], &[0, 5, 0, 53]);
        assert_eq!(packet(&later), "UDP 192.0.2.1 198.51.100.9 (frag 7:4@16)");
        let later = v6(44, &[17, 0, 0, 16, 0, 0, 0, 9, 1, 2, 3, 4]);
        assert_eq!(packet(&later), "UDP [2001:db8::1] [2001:db8::9] (frag 9:4@16)");
    }

    #[test]
    fn any_bytes_are_described_without_a_panic() {
        for bytes in [v4(6, [0, 0], &[0, 5, 0, 80]), v6(44, &[6, 0, 0, 0, 0, 0, 0, 9, 0, 5])] {
            for end in 0..bytes.len() {
                assert!(!packet(&bytes[..end]).is_empty());
            }
        }
        assert_eq!(packet(&[]), "bad packet");
    }
}
