//! Packets in a file for tcpdump and wireshark (draft-ietf-opsawg-pcapng), each with its line of log as a comment.

use crate::api::FirewallLogRecord;

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Packets begin with their network header: LINKTYPE_RAW.
const RAW: u16 = 101;
/// Options of blocks.
const END: u16 = 0;
const COMMENT: u16 = 1;
const RESOLUTION: u16 = 9;
/// Times are in units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Returns the blocks before all packets.
pub(super) fn head() -> Vec<u8> {
    let mut section = BYTE_ORDER.to_le_bytes().to_vec();
    // Version 1.0, of unknown length.
    section.extend([1, 0, 0, 0]);
    section.extend(u64::MAX.to_le_bytes());
    let mut interface = RAW.to_le_bytes().to_vec();
    interface.extend([0; 2]);
    // Packets are as long as they are.
    interface.extend(0_u32.to_le_bytes());
    option(&mut interface, RESOLUTION, &[NANOSECONDS]);
    option(&mut interface, END, &[]);
    [block(SECTION, &section), block(INTERFACE, &interface)].concat()
}

/// A packet, as far as the log has it.
pub(super) fn packet(record: &FirewallLogRecord) -> Vec<u8> {
    let bytes = unhex(&record.snap);
    let [low, high] = [record.at_ns & u64::from(u32::MAX), record.at_ns >> 32];
    let mut body = Vec::new();
    let captured = bytes.len() as u64;
    for word in [0, high, low, captured, u64::from(record.length)] {
        body.extend(u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes());
    }
    body.extend(&bytes);
    pad(&mut body);
    option(&mut body, COMMENT, record.text.as_bytes());
    option(&mut body, END, &[]);
    block(PACKET, &body)
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    const AROUND: usize = 12;
    let length = u32::try_from(body.len() + AROUND).unwrap_or(u32::MAX).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    to.extend(code.to_le_bytes());
    to.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    to.extend(value);
    pad(to);
}

/// Everything begins at a multiple of four bytes.
fn pad(to: &mut Vec<u8>) {
    to.resize(to.len().next_multiple_of(4), 0);
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map_while(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_say_their_length_at_both_ends_and_end_at_words() {
        let record = FirewallLogRecord {
            at_ns: (7 << 32) + 9,
            cpu: 0,
            rule: 100,
            action: "Deny".into(),
            out: false,
            interface: Some("em0".into()),
            length: 60,
            text: "ipfw: 100 Deny".into(),
            snap: "450000".into(),
        };
        let file = [head(), packet(&record)].concat();
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < file.len() {
            let length = word(at + 4) as usize;
            assert_eq!((length % 4, word(at + length - 4) as usize), (0, length));
            kinds.push(word(at));
            at += length;
        }
        assert_eq!(kinds, [SECTION, INTERFACE, PACKET]);
        let packet = file.len() - usize::try_from(word(file.len() - 4)).unwrap();
        let words: Vec<u32> = (2..7).map(|n| word(packet + 4 * n)).collect();
        assert_eq!(words, [0, 7, 9, 3, 60]);
        assert_eq!(&file[packet + 28..packet + 32], [0x45, 0, 0, 0]);
    }
}
