//! Packets cross pantala: every kind of device, one ring and two, both families.

use crate::lab::{Attach, Lab, Link};
use crate::socket::{Ping, datagram_arrives, ping, stream_arrives};

/// Length of one transfer.
const STREAM: u64 = 100_000_000;

/// Makes the tests of one pair of links.
macro_rules! crossing {
    ($($name:ident: $from:ident, $to:ident, $rings:literal;)*) => {$(
        pub(crate) mod $name {
            use super::*;

            fn lab(test: &str) -> Option<Lab> {
                let link = |attach| Link::new(attach).rings($rings);
                let test = format!("crossing::{}::{test}", stringify!($name));
                Lab::start(&test, &[link(Attach::$from), link(Attach::$to)])
            }

            fn echo_and_datagrams_cross() {
                let Some(lab) = lab("echo_and_datagrams_cross") else { return };
                echo_crosses(&lab);
                datagrams_in_fragments_cross(&lab);
            }

            fn a_stream_of_100_mb_arrives_as_it_was_sent() {
                let Some(lab) = lab("a_stream_of_100_mb_arrives_as_it_was_sent") else { return };
                streams_cross(&lab);
            }

            harness::tests![echo_and_datagrams_cross, a_stream_of_100_mb_arrives_as_it_was_sent];
        }
    )*};
}

crossing! {
    af_xdp_native_with_one_ring: Native, Native, 1;
    af_xdp_native_with_two_rings: Native, Native, 2;
    af_xdp_generic_with_one_ring: Generic, Generic, 1;
    af_xdp_generic_with_two_rings: Generic, Generic, 2;
    tap_with_one_ring: Tap, Tap, 1;
    tap_with_two_rings: Tap, Tap, 2;
    from_af_xdp_to_tap_with_one_ring: Native, Tap, 1;
    from_af_xdp_to_tap_with_two_rings: Native, Tap, 2;
}

fn echo_crosses(lab: &Lab) {
    let (a, b) = lab.pair();
    lab.both(|family| {
        assert_eq!(ping(&a.netns, b.addr(family), 20), 20, "there and back");
        assert_eq!(ping(&b.netns, a.addr(family), 20), 20, "the other way");
        for len in [0, 1, 1000, 1452] {
            assert!(Ping::open(&a.netns, b.addr(family)).ask(1, len), "{len} bytes of data");
        }
    });
    let [v4, v6] = ["ip4_forwarded", "ip6_forwarded"].map(|name| lab.pantala().counter(name));
    assert!(v4 >= 88 && v6 >= 88, "forwarded: {v4} by IPv4, {v6} by IPv6");
}

fn datagrams_in_fragments_cross(lab: &Lab) {
    let (a, b) = lab.pair();
    lab.both(|family| {
        for len in [4_000, 16_000, 60_000] {
            let there = datagram_arrives(&a.netns, &b.netns, b.addr(family), len);
            let back = datagram_arrives(&b.netns, &a.netns, a.addr(family), len);
            assert!(there && back, "{len} bytes: there {there}, back {back}");
        }
    });
}

fn streams_cross(lab: &Lab) {
    let (a, b) = lab.pair();
    lab.both(|family| {
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), STREAM).unwrap(), "there");
        assert!(stream_arrives(&b.netns, &a.netns, a.addr(family), STREAM / 10).unwrap(), "back");
    });
}
