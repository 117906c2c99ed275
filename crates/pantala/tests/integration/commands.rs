//! Every command, from the command line over a real Unix socket to a stack of a few vectors, and back as text.

mod changes;
mod connections;
mod drill;
mod failures;
mod fake;
mod firewall;
mod show;
mod metrics;
mod openapi;
mod pings;
mod pktgen;
mod sockets;
mod sysctls;
mod server;

harness::modules![
    changes,
    connections,
    drill,
    failures,
    firewall,
    show,
    metrics,
    openapi,
    pings,
    pktgen,
    sockets,
    sysctls
];
