//! Every command, from the command line over a real Unix socket to a stack of a few vectors, and back as text.

mod changes;
mod connections;
mod drill;
mod failures;
mod fake;
mod firewall;
mod looks;
mod metrics;
mod pings;
mod pktgen;
mod sockets;
mod sysctls;
mod world;

harness::modules![
    changes,
    connections,
    drill,
    failures,
    firewall,
    looks,
    metrics,
    pings,
    pktgen,
    sockets,
    sysctls
];
