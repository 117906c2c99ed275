//! Files of captured frames.

use std::path::{Path, PathBuf};

use pantala::{Interface, Stack};

use super::again_and_again;

/// Link address of the sender.
const ASKS: [u8; 6] = [2, 0, 0, 0, 0, 9];
const COUNT: u64 = 50;

/// An ARP request for 192.0.2.1 from 192.0.2.9.
fn who_has() -> Vec<u8> {
    let ether = [&[0xff; 6][..], &ASKS, &[8, 6]].concat();
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &ASKS, &[192, 0, 2, 9], &[0; 6], &[192, 0, 2, 1]].concat();
    [ether, arp].concat()
}

/// A capture of the same frame, again and again.
fn write(to: &Path, frame: &[u8]) {
    let head = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1];
    let len = u32::try_from(frame.len()).unwrap();
    let record = [0, 0, len, len].map(u32::to_le_bytes).concat();
    let records = [record, frame.to_vec()].concat().repeat(COUNT.try_into().unwrap());
    std::fs::write(to, [head.map(u32::to_le_bytes).concat(), records].concat()).unwrap();
}

/// The frames of a capture, which ends with one.
fn read(from: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(from).unwrap();
    let (mut rest, mut frames) = (&bytes[24..], Vec::new());
    while let [_, _, _, _, _, _, _, _, a, b, c, d, _, _, _, _, behind @ ..] = rest {
        let len = u32::from_le_bytes([*a, *b, *c, *d]).try_into().unwrap();
        frames.push(behind[..len].to_vec());
        rest = &behind[len..];
    }
    assert!(rest.is_empty());
    frames
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("pt-devices-{}-{name}.pcap", std::process::id()))
}

fn a_stack_between_two_captures_reads_one_to_its_end_and_leaves_the_other_whole() {
    let [input, output] = ["in", "out"].map(file);
    write(&input, &who_has());
    again_and_again(|time| {
        let device = format!("pcap:{},{}", input.display(), output.display());
        let wire = Interface::new(device).name("wire").address("192.0.2.1/24");
        let stack = Stack::builder().threads(1).interface(wire).start().unwrap();
        let counters = || stack.admin().interfaces().unwrap()[0].counters;
        // It asks whether its address is another's, which takes a moment: once is enough.
        while counters().rx_packets < COUNT || (time == 0 && counters().tx_packets == 0) {
            std::thread::yield_now();
        }
        let (received, sent) = (counters().rx_packets, counters().tx_packets);
        stack.stop().unwrap();
        assert_eq!(received, COUNT);
        assert!(u64::try_from(read(&output).len()).unwrap() >= sent);
    });
    [input, output].iter().for_each(|file| std::fs::remove_file(file).unwrap());
}

harness::tests![; alone: a_stack_between_two_captures_reads_one_to_its_end_and_leaves_the_other_whole];
