use proptest::prelude::*;

use super::*;

/// Pieces of which good and nearly good values are made.
const PIECES: &[&str] = &[
    "1",
    "64",
    "1518",
    "65535",
    "65536",
    "0",
    ".",
    "-",
    ",",
    ":",
    "/",
    "%",
    "pps",
    "kpps",
    "mpps",
    "gbit",
    "bit",
    "ms",
    "s",
    "m",
    "imix",
    "max",
    "192.0.2.1",
    "2001:db8::1",
    "::",
    "/24",
    "/64",
    "999999999999999999",
    "é",
    " ",
    "e3",
    "+",
];

const OPTIONS: &[&str] = &[
    "-i",
    "--rx",
    "--sink",
    "--src",
    "--dst",
    "--sport",
    "--dport",
    "--proto",
    "--tcp-flags",
    "--flows",
    "--pick",
    "--seed",
    "--ttl",
    "--tos",
    "--size",
    "--rate",
    "--line",
    "--burst",
    "--count",
    "--time",
    "--wait",
    "--loss-limit",
    "--addr",
    "--rx-addr",
    "--gateway",
    "--dst-mac",
    "--cpus",
    "--rings",
    "--",
    "-x",
    "",
];

const VALUES: &[&str] = &[
    "tap:g0",
    "af_xdp:eth0",
    "pcap:a,b",
    "pcap:a",
    "eth0",
    "192.0.2.1",
    "192.0.2.2/24",
    "192.0.2.10-192.0.2.20",
    "2001:db8::1/64",
    "9",
    "1024-65535",
    "udp",
    "tcp",
    "syn,ack",
    "1",
    "0",
    "random",
    "64",
    "imix",
    "1mpps",
    "30%",
    "10gbit",
    "10s",
    "0.1%",
    "02:00:00:00:00:01",
    "0,1",
    "-1",
    "",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_understood_or_explained(text in ".{0,24}") {
        words(text.as_bytes());
    }

    #[test]
    fn any_pieces_are_understood_or_explained(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..6)) {
        words(pieces.concat().as_bytes());
    }

    #[test]
    fn any_command_line_is_understood_or_explained(
        line in proptest::collection::vec((proptest::sample::select(OPTIONS), proptest::sample::select(VALUES)), 0..10),
        wild in ".{0,12}",
    ) {
        let mut words: Vec<&str> = line.iter().flat_map(|(option, value)| [*option, *value]).collect();
        arguments(&words);
        words.insert(0, "--sink");
        words.push(&wild);
        arguments(&words);
    }

    #[test]
    fn any_bytes_are_counted_once(data in proptest::collection::vec(any::<u8>(), 0..600)) {
        frames(&data);
    }

    /// Good frames, of which some bytes are changed.
    #[test]
    fn changed_frames_are_counted_once(changes in proptest::collection::vec((0_usize..98, any::<u8>()), 0..8), v4 in any::<bool>()) {
        use crate::pktgen::frame::{Headers, Template, Transport};
        let mac = wire::ether::Mac([2, 0, 0, 0, 0, 1]);
        let headers = Headers { is_v4: v4, transport: Transport::Udp, src_mac: mac, dst_mac: mac, ttl: 64, tos: 0 };
        let dst = Addrs::parse(if v4 { "192.0.2.1" } else { "2001:db8::1" }).unwrap();
        let port = Ports { first: 9, last: 9 };
        let ranges = crate::pktgen::flows::Ranges { src: dst, dst, sport: port, dport: port };
        let flow = ranges.flows(1, crate::pktgen::flows::Pick::Step, 0)[0];
        let mut frame = [0; 98];
        Template::new(&headers, 5).write(&flow, 0, 0, 0, &mut frame);
        for (at, byte) in changes {
            frame[at] ^= byte;
        }
        let data = [&[98_u8][..], &frame, &frame].concat();
        frames(&data[1..]);
        frames(&data);
    }
}
