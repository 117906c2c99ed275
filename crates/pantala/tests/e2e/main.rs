//! Real Linux hosts in network namespaces, and the real binary between them.
//!
//! Each test builds a [`lab`]: hosts, links and a `pantala up` of its own, all of which vanish with the value. What
//! cannot run here is ignored, and says why. On failure, what pantala said and counted is printed.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]
#![expect(clippy::print_stdout, reason = "what pantala said is shown with the test that failed")]

mod frr;
mod lab;
mod need;
mod pantala;
mod raw;
mod socket;
mod wait;

mod any_programs;
mod attacks;
mod autoconf;
mod bridge;
mod crossing;
mod crossing_families;
mod crowd_programs;
mod datagram_programs;
mod device_programs;
mod error_programs;
mod errors;
mod fibs;
mod full_table;
mod firewall;
mod flow_offload;
mod forking_programs;
mod go_programs;
mod group_programs;
mod interface_programs;
mod interop;
mod iperf;
mod ipfix;
mod sflow;
mod lifecycle;
mod load;
mod memif;
mod monitor;
mod neighbours;
mod office;
mod offload;
mod option_programs;
mod order;
mod local_delivery;
mod pipes;
mod pktgen;
mod pmtu;
mod polling;
mod program_failures;
mod program_listing;
mod programs;
mod reload;
mod rfc2544;
mod rings;
mod route_sources;
mod routing_daemons;
mod routes;
mod segment_programs;
mod server_programs;
mod translation;
mod spanning;
mod tun;
mod tunnels;
mod twins;
mod vxlan;
mod web;
mod why;
mod xdp;
mod bad_configuration;

harness::main![
    any_programs,
    attacks,
    autoconf,
    bridge,
    crossing::af_xdp_native_with_one_ring,
    crossing::af_xdp_native_with_two_rings,
    crossing::af_xdp_generic_with_one_ring,
    crossing::af_xdp_generic_with_two_rings,
    crossing::tap_with_one_ring,
    crossing::tap_with_two_rings,
    crossing::from_af_xdp_to_tap_with_one_ring,
    crossing::from_af_xdp_to_tap_with_two_rings,
    crossing_families,
    crowd_programs,
    datagram_programs,
    device_programs,
    error_programs,
    errors,
    fibs,
    firewall,
    flow_offload,
    forking_programs,
    full_table,
    go_programs,
    group_programs,
    interface_programs,
    interop::bulk,
    interop::crowd,
    interop::ends,
    interop::goodput,
    interop::groups,
    interop::querier,
    interop::silence,
    interop::sizes,
    iperf,
    ipfix,
    sflow,
    lifecycle,
    load,
    memif,
    monitor,
    neighbours,
    office,
    office::floods,
    offload,
    option_programs,
    order,
    local_delivery,
    pipes,
    pktgen,
    pmtu,
    polling,
    program_failures,
    program_listing,
    programs,
    reload,
    rfc2544,
    rings,
    route_sources,
    routing_daemons,
    routes,
    segment_programs,
    server_programs,
    translation,
    spanning,
    tun,
    tunnels,
    twins,
    twins::killed,
    vxlan,
    web,
    why,
    xdp,
    bad_configuration,
];
