//! The rows of the measured tables that are shown in pictures and in the table of ratios.

/// A bar chart.
pub struct Plot {
    /// Of its file, without the ending.
    pub name: &'static str,
    pub title: &'static str,
    /// Text at the axis, with the unit.
    pub axis: &'static str,
    /// Units of the axis in a million: 1 for millions, 1000 for thousands.
    pub per_million: f64,
    pub groups: &'static [Shelf],
}

/// The bars of one contest.
pub struct Shelf {
    pub contest: &'static str,
    pub label: &'static str,
    pub bars: &'static [Shown],
}

/// A row of a contest.
pub struct Shown {
    pub row: &'static str,
    pub label: &'static str,
}

/// A ratio of the measured tables.
pub struct Ratio {
    pub what: &'static str,
    pub beside: &'static str,
    pub contest: &'static str,
    pub finding: &'static str,
}

const fn bar(row: &'static str, label: &'static str) -> Shown {
    Shown { row, label }
}

const fn ratio(
    what: &'static str,
    beside: &'static str,
    contest: &'static str,
    finding: &'static str,
) -> Ratio {
    Ratio { what, beside, contest, finding }
}

const L3FWD: Shown = bar("l3fwd LPM native", "DPDK l3fwd");
const IP4: Shown = bar("pantala IPv4, 256 at once", "pantala");
const IP6: Shown = bar("pantala IPv6, 256 at once", "pantala");
const OURS: Shown = bar("pantala", "pantala");
const WEB: &[Shown] = &[
    bar("pantala over TAP", "pantala serve, TAP"),
    bar("pantala over AF_XDP", "pantala serve, AF_XDP"),
    bar("nginx over veth", "nginx, kernel, veth"),
];
const VETH: &[Shown] = &[
    OURS,
    bar("bare AF_XDP rings", "AF_XDP rings alone"),
    bar("kernel", "kernel"),
    bar("kernel, stateful rule", "kernel, conntrack rule"),
    bar("kernel, masquerade", "kernel, masquerade"),
    bar("XDP, kernel's tables", "XDP program"),
];
const RULES: &[Shown] = &[
    bar("pantala, stateful rule", "pantala, keep-state"),
    bar("kernel, stateful rule", "nftables, conntrack"),
    bar("pantala, 10 rules", "pantala, 10 rules"),
    bar("kernel, 10 rules", "nftables, 10 rules"),
    bar("pantala, 1000 rules", "pantala, 1000 rules"),
    bar("kernel, 1000 rules", "nftables, 1000 rules"),
];

pub const PLOTS: &[Plot] = &[
    Plot {
        name: "forwarding",
        title: "Forwarding on one CPU, 64-byte packets in memory",
        axis: "million packets per second; median and quartiles of the rounds",
        per_million: 1.0,
        groups: &[
            Shelf { contest: "null/ip4-2", label: "IPv4, 2 routes", bars: &[IP4, L3FWD] },
            Shelf { contest: "null/ip6-2", label: "IPv6, 2 routes", bars: &[IP6, L3FWD] },
            Shelf { contest: "null/ip4-64k", label: "IPv4, 65,536 routes", bars: &[IP4, L3FWD] },
            Shelf { contest: "null/ip6-64k", label: "IPv6, 65,536 routes", bars: &[IP6, L3FWD] },
            Shelf {
                contest: "null/ip4-1m-random",
                label: "IPv4, 1,048,576 routes, 262,144 random destinations",
                bars: &[IP4, bar("l3fwd FIB native, scattered", "DPDK l3fwd, rte_fib")],
            },
        ],
    },
    Plot {
        name: "routes",
        title: "Route lookups on one CPU, random destinations, 64 at once",
        axis: "million lookups per second; median and quartiles of the rounds",
        per_million: 1.0,
        groups: &[
            Shelf {
                contest: "scale/ip4-64k",
                label: "IPv4, 65,536 routes",
                bars: &[OURS, bar("DPDK rte_lpm", "DPDK rte_lpm"), bar("DPDK rte_fib", "DPDK rte_fib")],
            },
            Shelf {
                contest: "scale/ip4-internet",
                label: "IPv4, 1,000,000 routes",
                bars: &[OURS, bar("DPDK rte_fib", "DPDK rte_fib")],
            },
            Shelf {
                contest: "scale/ip6-internet",
                label: "IPv6, 250,000 routes",
                bars: &[OURS, bar("DPDK rte_lpm6", "DPDK rte_lpm6"), bar("DPDK rte_fib6", "DPDK rte_fib6")],
            },
        ],
    },
    Plot {
        name: "veth",
        title: "Forwarding over veth, generator, router and sink on one CPU",
        axis: "million packets per second; median and quartiles of the rounds",
        per_million: 1.0,
        groups: &[
            Shelf { contest: "veth/one-ip4", label: "IPv4", bars: VETH },
            Shelf { contest: "veth/one-ip6", label: "IPv6", bars: VETH },
        ],
    },
    Plot {
        name: "firewall",
        title: "Firewall over veth, 4096 flows, generator, router and sink on one CPU",
        axis: "million packets per second; median and quartiles of the rounds",
        per_million: 1.0,
        groups: &[
            Shelf { contest: "firewall/one-ip4", label: "IPv4", bars: RULES },
            Shelf {
                contest: "firewall/one-ip4",
                label: "IPv4, address translation",
                bars: &[
                    bar("pantala, NAT", "pantala, nat"),
                    bar("kernel, masquerade", "nftables, masquerade"),
                ],
            },
            Shelf { contest: "firewall/one-ip6", label: "IPv6", bars: RULES },
        ],
    },
    Plot {
        name: "connections",
        title: "TCP connections of one question and one answer, both ends on one CPU, in memory",
        axis: "thousand connections per second; median and quartiles of the rounds",
        per_million: 1000.0,
        groups: &[
            Shelf {
                contest: "short/16",
                label: "16 at a time",
                bars: &[bar("pantala, 16 at a time", "pantala"), bar("smoltcp", "smoltcp")],
            },
            Shelf {
                contest: "short/256",
                label: "256 at a time",
                bars: &[bar("pantala, 256 at a time", "pantala"), bar("smoltcp", "smoltcp")],
            },
            Shelf {
                contest: "short/many",
                label: "1000 and 16,000 at a time",
                bars: &[
                    bar("pantala, 1000 at a time", "pantala, 1000"),
                    bar("pantala, 16000 at a time", "pantala, 16,000"),
                ],
            },
        ],
    },
    Plot {
        name: "web",
        title: "Web server, objects of 1 KB, one CPU for the server, one for wrk",
        axis: "thousand requests per second; median and quartiles of the rounds",
        per_million: 1000.0,
        groups: &[
            Shelf {
                contest: "served/close-16",
                label: "16 at a time, a connection for each request",
                bars: WEB,
            },
            Shelf {
                contest: "served/close-64",
                label: "64 at a time, a connection for each request",
                bars: WEB,
            },
            Shelf {
                contest: "served/close-1000",
                label: "1000 at a time, a connection for each request",
                bars: WEB,
            },
            Shelf { contest: "served/ask-64", label: "64 connections, kept alive", bars: WEB },
        ],
    },
];

pub const RATIOS: &[Ratio] = &[
    ratio(
        "forwarding, IPv4, 2 routes",
        "DPDK l3fwd",
        "null/ip4-2",
        "pantala IPv4, 256 at once / l3fwd LPM native",
    ),
    ratio(
        "forwarding, IPv6, 2 routes",
        "DPDK l3fwd",
        "null/ip6-2",
        "pantala IPv6, 256 at once / l3fwd LPM native",
    ),
    ratio(
        "forwarding, IPv4, 65,536 routes",
        "DPDK l3fwd",
        "null/ip4-64k",
        "pantala IPv4, 256 at once / l3fwd LPM native",
    ),
    ratio(
        "forwarding, IPv4, 1,048,576 routes",
        "DPDK l3fwd with rte_fib",
        "null/ip4-1m-random",
        "pantala IPv4, 256 at once / l3fwd FIB native, scattered",
    ),
    ratio("lookups, IPv4, 1,000,000 routes", "DPDK rte_fib", "scale/ip4-internet", "pantala / DPDK rte_fib"),
    ratio("lookups, IPv6, 250,000 routes", "DPDK rte_fib6", "scale/ip6-internet", "pantala / DPDK rte_fib6"),
    ratio("forwarding over veth, IPv4", "kernel", "veth/one-ip4", "pantala / kernel"),
    ratio("forwarding over veth, IPv4", "AF_XDP rings alone", "veth/one-ip4", "pantala / bare AF_XDP rings"),
    ratio("forwarding over veth, IPv4", "XDP program", "veth/one-ip4", "pantala / XDP, kernel's tables"),
    ratio(
        "forwarding over veth, IPv4, own CPU for the generator",
        "DPDK testpmd on AF_XDP",
        "veth/two-ip4",
        "pantala / testpmd mac, net_af_xdp",
    ),
    ratio(
        "firewall over veth, a stateful rule",
        "nftables",
        "firewall/one-ip4",
        "pantala, stateful rule / kernel, stateful rule",
    ),
    ratio(
        "firewall over veth, 1000 rules",
        "nftables",
        "firewall/one-ip4",
        "pantala, 1000 rules / kernel, 1000 rules",
    ),
    ratio(
        "address translation over veth",
        "nftables, masquerade",
        "firewall/one-ip4",
        "pantala, NAT / kernel, masquerade",
    ),
    ratio("short TCP connections, 16 at a time", "smoltcp", "short/16", "pantala, 16 at a time / smoltcp"),
    ratio("short TCP connections, 256 at a time", "smoltcp", "short/256", "pantala, 256 at a time / smoltcp"),
    ratio(
        "web server over TAP, a connection for each request",
        "nginx over veth",
        "served/close-64",
        "pantala over TAP / nginx over veth",
    ),
    ratio(
        "web server over TAP, kept connections",
        "nginx over veth",
        "served/ask-64",
        "pantala over TAP / nginx over veth",
    ),
    ratio(
        "web server over AF_XDP, kept connections",
        "nginx over veth",
        "served/ask-64",
        "pantala over AF_XDP / nginx over veth",
    ),
    ratio(
        "web server over TAP, one stream",
        "nginx over veth",
        "served/bulk",
        "pantala over TAP / nginx over veth",
    ),
];
