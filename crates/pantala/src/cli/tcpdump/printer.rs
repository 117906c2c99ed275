//! Captured packets as pcapng, as JSON, and as lines of text where tcpdump is not installed.

use std::io::Write;

use serde::Serialize;
use wire::ether::{EtherType, HEADER_LEN};
use wire::pcap;

use super::{Captured, Failure, Output};
use crate::firewall::log;

/// pcapng, as it came.
pub(super) struct Binary;

impl Output for Binary {
    fn head(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        out.extend_from_slice(block);
        Ok(())
    }

    fn packet(&mut self, captured: &Captured<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        out.extend_from_slice(captured.block);
        Ok(())
    }
}

/// A JSON value a line.
pub(super) struct JsonLines;

#[derive(Serialize)]
struct Line<'l> {
    at_ns: u64,
    interface: &'l str,
    /// `in`, `out` or `drop`.
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'l str>,
    length: u32,
    /// Hexadecimal.
    bytes: String,
}

impl Output for JsonLines {
    fn head(&mut self, _block: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }

    fn packet(&mut self, captured: &Captured<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let line = Line {
            at_ns: captured.packet.at_ns,
            interface: captured.interface,
            place: captured.direction().to_lowercase(),
            reason: captured.reason(),
            length: captured.packet.len,
            bytes: captured.packet.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        serde_json::to_writer(&mut *out, &line).map_err(|why| Failure::Failed(why.to_string()))?;
        out.push(b'\n');
        Ok(())
    }
}

/// A line of text for each packet.
pub(super) struct Plain;

impl Output for Plain {
    fn head(&mut self, _block: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }

    fn packet(&mut self, captured: &Captured<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let packet = &captured.packet;
        let (seconds, micros) = (packet.at_ns / 1_000_000_000, packet.at_ns % 1_000_000_000 / 1000);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let reason = captured.reason().map(|reason| format!(" [{reason}]")).unwrap_or_default();
        let written = writeln!(
            out,
            "{hour:02}:{minute:02}:{second:02}.{micros:06} {} {:4} {}, length {}{reason}",
            captured.interface,
            captured.direction(),
            text(captured.link_type, packet.bytes),
            packet.len
        );
        Ok(written?)
    }
}

/// A frame, or a packet without one, in short.
fn text(link_type: u16, bytes: &[u8]) -> String {
    match link_type {
        pcap::RAW => log::packet(bytes),
        _ => frame_text(bytes),
    }
}

fn frame_text(frame: &[u8]) -> String {
    let mut at = HEADER_LEN;
    let mut tags = String::new();
    loop {
        let Some(ethertype) = frame.get(at - 2..at).and_then(|two| two.first_chunk()) else {
            return "short frame".to_owned();
        };
        match EtherType(u16::from_be_bytes(*ethertype)) {
            EtherType::VLAN | EtherType::QINQ if frame.len() >= at + 4 => {
                let tag = u16::from_be_bytes([frame[at], frame[at + 1]]) & 0xfff;
                tags += &format!("vlan {tag} ");
                at += 4;
            }
            EtherType::IPV4 | EtherType::IPV6 => return tags + &log::packet(&frame[at..]),
            EtherType::ARP => return tags + "ARP",
            EtherType(other) => return format!("{tags}ethertype {other:#06x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::pcap::{Direction, Packet};

    use super::*;

    fn line(frame: &[u8], direction: Option<Direction>, comment: &str) -> String {
        line_of(pcap::ETHERNET, frame, direction, comment)
    }

    fn line_of(link_type: u16, frame: &[u8], direction: Option<Direction>, comment: &str) -> String {
        let len = u32::try_from(frame.len()).unwrap();
        let packet = Packet { interface: 0, at_ns: 3_723_000_004_000, len, bytes: frame, direction, comment };
        let mut out = Vec::new();
        Plain.packet(&Captured { block: &[], packet, link_type, interface: "lan" }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn frame(behind: &[u8]) -> Vec<u8> {
        [&[2; 12], behind].concat()
    }

    #[test]
    fn a_line_says_interface_place_and_reason() {
        let arp = frame(&[8, 6, 0, 1]);
        assert_eq!(line(&arp, Some(Direction::In), ""), "01:02:03.000004 lan In   ARP, length 16\n");
        assert_eq!(
            line(&arp, None, "dropped: no route (x)"),
            "01:02:03.000004 lan Drop ARP, length 16 [no route (x)]\n"
        );
    }

    #[test]
    fn tags_and_unknown_types_are_named_and_any_bytes_have_a_line() {
        let tagged = frame(&[0x81, 0, 0x60, 7, 0x88, 0xb5, 0]);
        assert!(line(&tagged, Some(Direction::Out), "").contains("Out  vlan 7 ethertype 0x88b5"));
        let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 99, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        let bare = line_of(pcap::RAW, &packet, None, "");
        assert_eq!(bare, line(&frame(&[&[8, 0], &packet[..]].concat()), None, "").replace("34", "20"));
        let ip = frame(&[0x81, 0, 0, 7, 0x86, 0xdd, 0x60]);
        for end in 0..ip.len() {
            assert!(line(&ip[..end], None, "").ends_with('\n'));
        }
    }
}
