//! Devices beside a real kernel, in namespaces of their own; and memif beside itself, misbehaving ends, and DPDK.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and one that can says what it measured"
)]

mod af_xdp;
mod capture;
mod flood;
mod memif;
mod netlink;
mod netns;
mod offload;
mod steering;
mod support;
mod tap;
mod tap_ring;
mod user_namespace;
mod xdp;
mod xsk;

harness::main![
    af_xdp,
    capture,
    flood,
    memif,
    netlink,
    netns,
    offload,
    steering,
    tap,
    tap_ring,
    user_namespace,
    xdp,
    xsk
];
