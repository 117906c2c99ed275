//! Packets of both families, with lengths that are right and all else as it comes.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::choices::Dice;

/// Ports that rules ask for, and one beside each.
pub(super) const PORTS: [u16; 12] = [0, 21, 22, 53, 80, 81, 443, 1023, 1024, 8080, 49152, 65535];
const PROTOCOLS: [u8; 8] = [6, 17, 6, 1, 58, 132, 136, 47];

/// An address near those of the interfaces.
pub(super) fn addr4(dice: &mut Dice<'_>) -> Ipv4Addr {
    Ipv4Addr::new(dice.of(&[10, 10, 10, 192]), 0, 1 + dice.byte() % 4, dice.of(&[1, 2, 3, 9, 255]))
}

pub(super) fn addr6(dice: &mut Dice<'_>) -> Ipv6Addr {
    let link = 1 + dice.small(4);
    let host = dice.of(&[1, 2, 3, 0x100, 0xffff]);
    if dice.one_in(8) {
        return Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host);
    }
    Ipv6Addr::new(0x2001, 0xdb8, link, 0, 0, dice.of(&[0, 0, 7]), 0, host)
}

/// A link address, one of few.
pub(super) fn mac(dice: &mut Dice<'_>) -> [u8; 6] {
    [2, 0, dice.of(&[0, 0, 0x5e]), dice.of(&[0, 0, 9]), 0, dice.of(&[1, 2, 3])]
}

/// A packet of either family; as long as it says, and valid as far as input looks.
pub(super) fn packet(dice: &mut Dice<'_>) -> Vec<u8> {
    let proto = dice.of(&PROTOCOLS);
    let mut payload = payload(dice, proto);
    if dice.one_in(12) {
        payload.truncate(dice.below(24));
    }
    if dice.one_in(2) { ip4(dice, proto, &payload) } else { ip6(dice, proto, &payload) }
}

fn ip4(dice: &mut Dice<'_>, proto: u8, payload: &[u8]) -> Vec<u8> {
    let options: &[u8] = dice.of(&[
        &[],
        &[],
        &[],
        &[7, 7, 4, 0, 0, 0, 0, 0],
        &[131, 7, 4, 10, 0, 0, 1, 1],
        &[68, 8, 5, 0, 0, 0, 0, 0, 137, 7, 4, 1, 2, 3, 4, 0],
    ]);
    let len = u16::try_from(20 + options.len() + payload.len()).unwrap_or(0);
    let fragment = dice.of(&[0u16, 0, 0, 0x4000, 0x2000, 1, 0x2001, 185, 0x8000, 0x6000]);
    let header_words = u8::try_from(options.len() / 4).unwrap_or(0);
    let mut packet = vec![0x45 + header_words, dice.of(&[0, 0, 0xb8, 0x10, 0x60, 3])];
    packet.extend(len.to_be_bytes());
    packet.extend(dice.of(&[1u16, 7, 500]).to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([dice.of(&[64, 1, 255]), proto, 0, 0]);
    packet.extend(addr4(dice).octets());
    packet.extend(addr4(dice).octets());
    packet.extend_from_slice(options);
    packet.extend_from_slice(payload);
    packet
}

fn ip6(dice: &mut Dice<'_>, proto: u8, payload: &[u8]) -> Vec<u8> {
    let (first, body) = extensions(dice, proto, payload);
    let class = dice.of(&[0u8, 0, 0xb8, 0x10]);
    let label = dice.of(&[0u8, 0, 5, 9]);
    let mut packet = vec![0x60 | class >> 4, class << 4, 0, label];
    packet.extend(u16::try_from(body.len()).unwrap_or(0).to_be_bytes());
    packet.extend([first, dice.of(&[64, 1, 255])]);
    packet.extend(addr6(dice).octets());
    packet.extend(addr6(dice).octets());
    packet.extend(body);
    packet
}

/// Headers in front of the payload, and the number of the first.
fn extensions(dice: &mut Dice<'_>, proto: u8, payload: &[u8]) -> (u8, Vec<u8>) {
    let (mut first, mut body) = (proto, payload.to_vec());
    let count = if dice.one_in(3) { 1 + dice.below(3) } else { 0 };
    for _ in 0..if dice.one_in(60) { 10 } else { count } {
        let kind = dice.of(&[0u8, 43, 44, 44, 51, 60, 60]);
        let mut header = vec![first, 0, 0, 0, 0, 0, 0, 0];
        match kind {
            44 => {
                let word = dice.of(&[0u16, 1, 8, 9, 1 << 3, 200 << 3, 0x7f8 | 1]);
                header[2..4].copy_from_slice(&word.to_be_bytes());
            }
            51 => {
                header[1] = 1;
                header.extend([0; 4]);
            }
            43 => header[2] = dice.of(&[0, 2, 4]),
            _ => header[1] = if dice.one_in(40) { 30 } else { 0 },
        }
        header.extend(body);
        (first, body) = (kind, header);
    }
    (first, body)
}

fn payload(dice: &mut Dice<'_>, proto: u8) -> Vec<u8> {
    let data = dice.of(&[0usize, 0, 1, 9, 100]);
    let mut bytes = Vec::new();
    match proto {
        6 => bytes = tcp(dice),
        1 | 58 => {
            bytes.extend([dice.of(&[0u8, 3, 8, 11, 63, 64, 128, 135, 255]), dice.of(&[0u8, 1, 4]), 0, 0])
        }
        _ => {
            bytes.extend(dice.of(&PORTS).to_be_bytes());
            bytes.extend(dice.of(&PORTS).to_be_bytes());
            bytes.extend([0; 8]);
        }
    }
    bytes.extend(core::iter::repeat_n(0x5a, data));
    bytes
}

fn tcp(dice: &mut Dice<'_>) -> Vec<u8> {
    let options: &[u8] = dice.of(&[
        &[],
        &[],
        &[2, 4, 5, 0xb4],
        &[2, 4, 1, 0, 1, 3, 3, 7],
        &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        &[4, 2, 1, 0],
    ]);
    let mut segment = Vec::new();
    segment.extend(dice.of(&PORTS).to_be_bytes());
    segment.extend(dice.of(&PORTS).to_be_bytes());
    segment.extend(dice.of(&[1u32, 2, 0xffff_ffff]).to_be_bytes());
    segment.extend(dice.of(&[1u32, 2, 3]).to_be_bytes());
    let flags = if dice.one_in(4) { dice.byte() } else { dice.of(&[2, 0x10, 0x12, 4, 0x18, 0x11]) };
    segment.extend([0x50 + u8::try_from(options.len() * 4).unwrap_or(0), flags]);
    segment.extend(dice.of(&[0u16, 100, 65535]).to_be_bytes());
    segment.extend([0; 4]);
    segment.extend_from_slice(options);
    segment
}
