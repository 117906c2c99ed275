//! Super-packets and partial checksums, as virtual machines send them.

use net::driver::Caps;
use net::time::Duration;
use sim::builder::{self, Ip, SEGMENT_LEN};
use sim::cable;
use sim::host::Port;
use sim::mem::Rss;
use sim::plan::{Family, mac};
use sim::station::Content;
use wire::Protocol;

use crate::common::{Shape, pair_with};

const SECOND: Duration = Duration::from_secs(1);

/// Sends one super-packet of `len` bytes through a router whose second card can do `caps`; the lengths that arrive.
fn lengths(family: Family, protocol: Protocol, len: usize, caps: Caps) -> Vec<usize> {
    let shape = Shape { cpus: 2, rings: 2, rss: Rss::Right };
    let card = |port: Port| {
        let is_first = port.nic.mac == mac(1, 1);
        port.card(|card| card.caps = if is_first { Caps { buffers_max: 8, ..caps } } else { caps })
    };
    let mut pair = pair_with("offload", 1, shape, card, [cable::Spec::default(); 2]);
    pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
    pair.world.run_for(SECOND);
    pair.world.at(pair.b).heard.clear();
    let (ip, payload) = (Ip::new(family.addr(1, 2), family.addr(2, 2)), vec![7; len]);
    let frame = builder::super_frame([mac(1, 2), mac(1, 1)], ip, protocol, [5, 6], &payload);
    pair.world.at(pair.a).send_frame(frame);
    pair.world.run_for(SECOND);
    let len = |what| match what {
        Content::Tcp { len, .. } | Content::Udp { len, .. } => len,
        // Something else came, and no expectation is met.
        _ => usize::MAX,
    };
    let heard = pair.world.at(pair.b).heard.iter().map(|heard| len(heard.what)).collect();
    pair.world.finish();
    heard
}

#[test]
fn a_super_packet_goes_whole_to_a_card_that_cuts_and_in_segments_to_one_that_does_not() {
    let step = usize::from(SEGMENT_LEN);
    let cutting = Caps { tx_csum: true, tso: true, uso: true, buffers_max: 8 };
    let summing = Caps { tso: false, uso: false, ..cutting };
    let plain = Caps { buffers_max: 1, ..Caps::default() };
    for family in Family::BOTH {
        for protocol in [Protocol::TCP, Protocol::UDP] {
            assert_eq!(lengths(family, protocol, 5000, cutting), [5000]);
            for caps in [summing, plain] {
                assert_eq!(lengths(family, protocol, 5000, caps), [step, step, step, 5000 - 3 * step]);
            }
        }
    }
}

#[test]
fn a_super_packet_in_more_buffers_than_a_card_takes_goes_in_segments_or_buffers_that_it_takes() {
    let caps = Caps { tx_csum: true, tso: true, uso: true, buffers_max: 2 };
    for family in Family::BOTH {
        for protocol in [Protocol::TCP, Protocol::UDP] {
            assert_eq!(lengths(family, protocol, 14_000, caps).iter().sum::<usize>(), 14_000);
        }
    }
}
