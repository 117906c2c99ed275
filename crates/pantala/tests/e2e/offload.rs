//! Work that Linux leaves to its devices: checksums and segmentation.

use crate::lab::{Attach, Lab, Link};
use crate::socket::stream_arrives;

const STREAM: u64 = 20_000_000;

fn streamed(test: &str, kinds: [Attach; 2]) -> Option<Lab> {
    let lab = Lab::start(&format!("offload::{test}"), &kinds.map(Link::new))?;
    let (a, b) = lab.pair();
    lab.both(|family| assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), STREAM).unwrap()));
    Some(lab)
}

fn partial_checksums_of_a_veth_are_completed() {
    let test = "partial_checksums_of_a_veth_are_completed";
    let Some(lab) = streamed(test, [Attach::Native; 2]) else { return };
    let [seen, completed] = ["csum_partial_in", "csum_completed"].map(|name| lab.pantala().counter(name));
    assert!(seen > 10_000, "{seen} partial checksums seen");
    assert!(completed > 10_000, "{completed} partial checksums completed");
}

fn super_packets_cross_from_tap_to_tap_whole() {
    let test = "super_packets_cross_from_tap_to_tap_whole";
    let Some(lab) = streamed(test, [Attach::Tap; 2]) else { return };
    assert!(lab.pantala().counter("gso_in") > 100);
    assert_eq!(lab.pantala().counter("gso_segmented"), 0);
    let counters = lab.pantala().interface(&lab.hosts[0].ifname()).counters;
    let mean = counters.rx_bytes / counters.rx_packets;
    assert!(mean > 5_000, "the mean frame has {mean} bytes");
}

fn super_packets_are_segmented_for_a_device_that_cannot() {
    let test = "super_packets_are_segmented_for_a_device_that_cannot";
    let Some(lab) = streamed(test, [Attach::Tap, Attach::Native]) else { return };
    assert!(lab.pantala().counter("gso_segmented") > 100);
    assert!(lab.pantala().counter("gso_segments_made") > 2 * STREAM / 1500);
    let counters = lab.pantala().interface(&lab.hosts[1].ifname()).counters;
    assert!(counters.tx_bytes / counters.tx_packets <= 1514, "{counters:?}");
}

harness::tests![
    partial_checksums_of_a_veth_are_completed,
    super_packets_cross_from_tap_to_tap_whole,
    super_packets_are_segmented_for_a_device_that_cannot,
];
