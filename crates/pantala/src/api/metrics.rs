//! `/metrics`: the counters as Prometheus text.
//!
//! Base units, `_total` on what only grows, and no label that a packet could choose. Nothing is asked of the netisrs: the
//! counters are theirs, and the gauges are what each of them wrote down last.

use core::fmt::{self, Write};

use super::firewall::firewall_metrics;
use super::stack::{Stack, Web};
use super::types::{
    Counters, Error, HttpListener, Interface, InterfaceCounters, InterfaceFlag, IpfixStatus, MemifFaults,
    MemifInfo, MemifState, Netisr, OutputQueue, Pool, Programs, RouteSource, RouteSourceState, SflowStatus,
};
use crate::serve::Hit;

/// All metrics of a stack.
pub(crate) fn text(stack: &mut dyn Stack) -> Result<String, Error> {
    let mut page = Page::default();
    let all = stack.snapshot()?;
    interfaces(&mut page, &all.interfaces);
    queues(&mut page, &all.interfaces);
    memifs(&mut page, &all.interfaces);
    xdp_programs(&mut page, &all.interfaces);
    counters(&mut page, &all.counters, &all.netisrs);
    cpus(&mut page, &all.netisrs);
    pools(&mut page, &all.pools);
    firewall_metrics(&mut page, &all.firewall);
    webs(&mut page, &stack.webs());
    route_sources(&mut page, &stack.route_sources()?);
    http(&mut page, stack.http().as_ref());
    ipfix(&mut page, stack.ipfix().as_ref());
    sflow(&mut page, stack.sflow().as_ref());
    programs(&mut page, stack.programs()?.as_ref());
    Ok(page.0)
}

type PerRing = (&'static str, &'static str, fn(&InterfaceCounters) -> u64);

const PER_RING: &[PerRing] = &[
    ("pantala_if_rx_packets_total", "Frames received.", |c| c.rx_packets),
    ("pantala_if_rx_bytes_total", "Bytes received.", |c| c.rx_bytes),
    ("pantala_if_rx_errors_total", "Frames received with errors.", |c| c.rx_errors),
    ("pantala_if_rx_drops_total", "Frames dropped because a receive ring was full.", |c| c.rx_drops),
    ("pantala_if_tx_packets_total", "Frames sent.", |c| c.tx_packets),
    ("pantala_if_tx_bytes_total", "Bytes sent.", |c| c.tx_bytes),
    ("pantala_if_tx_errors_total", "Frames that the device refused.", |c| c.tx_errors),
    ("pantala_if_tx_drops_total", "Frames dropped because an output queue was full.", |c| c.tx_drops),
    ("pantala_if_doorbells_total", "Notifications of the device.", |c| c.doorbells),
];

type PerCpu = (&'static str, &'static str, fn(&Netisr) -> u64);

const PER_CPU: &[PerCpu] = &[
    ("pantala_cpu_turns_total", "Turns of the netisr.", |n| n.turns),
    ("pantala_cpu_busy_turns_total", "Turns that found work.", |n| n.busy_turns),
    ("pantala_cpu_packets_total", "Packets taken from rings and other CPUs.", |n| n.packets),
    ("pantala_cpu_handoffs_in_total", "Packets handed off by other CPUs.", |n| n.handoffs_in),
    ("pantala_cpu_handoffs_out_total", "Packets handed off to other CPUs.", |n| n.handoffs_out),
    ("pantala_cpu_messages_total", "Messages processed.", |n| n.messages),
    ("pantala_cpu_sleeps_total", "Times the netisr went to sleep.", |n| n.sleeps),
    ("pantala_cpu_wakeups_total", "Times another thread woke the netisr.", |n| n.wakeups),
];

fn interfaces(page: &mut Page, interfaces: &[Interface]) {
    page.head("pantala_if_up", "gauge", "Whether the interface is up and running.");
    for interface in interfaces {
        let up = interface.is(InterfaceFlag::Up) && interface.is(InterfaceFlag::Running);
        page.value("pantala_if_up", &[("if", &interface.name)], u64::from(up));
    }
    for (name, help, read) in PER_RING {
        page.head(name, "counter", help);
        for interface in interfaces {
            for ring in &interface.rings {
                let labels: Labels<'_> =
                    &[("if", &interface.name), ("cpu", &ring.cpu), ("queue", &ring.ring)];
                page.value(name, labels, read(&ring.counters));
            }
        }
    }
}

type PerQueue = (&'static str, &'static str, fn(&OutputQueue) -> u64);

const PER_QUEUE: &[PerQueue] = &[
    ("pantala_ifq_packets", "Packets in the output queue.", |q| q.packets),
    ("pantala_ifq_bytes", "Bytes in the output queue.", |q| q.bytes),
    ("pantala_ifq_flows", "Flows in the output queue.", |q| q.flows),
    ("pantala_ifq_byte_limit", "Byte limit of the transmit ring (BQL); 0 without a limit.", |q| {
        q.byte_limit.unwrap_or(0)
    }),
    ("pantala_ifq_in_flight_bytes", "Bytes in the transmit ring when frames were last added.", |q| {
        q.in_flight
    }),
];

type PerInterface = (&'static str, &'static str, fn(&InterfaceCounters) -> u64);

const PER_INTERFACE: &[PerInterface] = &[
    ("pantala_ifq_drops_total", "Frames dropped on their way to the device.", |c| c.tx_drops),
    ("pantala_ifq_marks_total", "Frames marked instead of dropped (ECN).", |c| c.tx_marks),
    ("pantala_ifq_pushed_back_total", "Times that a ring did not accept all frames.", |c| c.tx_pushed_back),
    ("pantala_ifq_flushes_total", "Times that a netisr passed frames to the device.", |c| c.tx_flushes),
];

fn queues(page: &mut Page, interfaces: &[Interface]) {
    for (name, help, read) in PER_QUEUE {
        page.head(name, "gauge", help);
        for interface in interfaces {
            for queue in &interface.queues {
                let labels: Labels<'_> = &[("if", &interface.name), ("cpu", &queue.cpu)];
                page.value(name, labels, read(queue));
            }
        }
    }
    for (name, help, read) in PER_INTERFACE {
        page.head(name, "counter", help);
        for interface in interfaces {
            page.value(name, &[("if", &interface.name)], read(&interface.counters));
        }
    }
}

type PerMemif = (&'static str, &'static str, &'static str, fn(&MemifInfo) -> u64);

const PER_MEMIF: &[PerMemif] = &[
    ("pantala_memif_connected", "gauge", "Whether a peer is connected.", |memif| {
        u64::from(memif.state == MemifState::Connected)
    }),
    ("pantala_memif_connects_total", "counter", "Connections of peers.", |memif| memif.connects),
    ("pantala_memif_ends_total", "counter", "Peers refused or disconnected.", |memif| memif.ends),
    ("pantala_memif_failed_connects_total", "counter", "Failed connection attempts of a slave.", |memif| {
        memif.failed_connects
    }),
];

/// The other programs at the ends of shared memory, and what they did wrong.
fn xdp_programs(page: &mut Page, interfaces: &[Interface]) {
    const NAME: &str = "pantala_if_xdp_frames_total";
    let all = interfaces
        .iter()
        .filter_map(|interface| Some((&*interface.name, interface.device.as_ref()?.xdp.as_ref()?)));
    let all: Vec<_> = all.collect();
    if all.is_empty() {
        return;
    }
    page.head(NAME, "counter", "Frames by the verdict of the interface's XDP program.");
    for (interface, xdp) in all {
        let verdicts = [
            ("pass", xdp.passed),
            ("drop", xdp.dropped),
            ("tx", xdp.sent_back),
            ("redirect", xdp.redirected),
            ("aborted", xdp.aborted),
        ];
        for (verdict, count) in verdicts {
            page.value(NAME, &[("if", &interface), ("verdict", &verdict)], count);
        }
    }
}

fn memifs(page: &mut Page, interfaces: &[Interface]) {
    let memif = |interface: &Interface| interface.device.as_ref()?.memif.clone();
    let all: Vec<(&str, MemifInfo)> =
        interfaces.iter().filter_map(|interface| Some((&*interface.name, memif(interface)?))).collect();
    for (name, kind, help, read) in PER_MEMIF {
        page.head(name, kind, help);
        for (interface, memif) in &all {
            page.value(name, &[("if", interface)], read(memif));
        }
    }
    let name = "pantala_memif_faults_total";
    page.head(name, "counter", "Frames dropped and connections closed because of invalid data in the rings.");
    for (interface, memif) in &all {
        let MemifFaults { bad_descriptor, bad_length, bad_chain, index_jump, bad_buffer } = memif.faults;
        for (fault, count) in [
            ("bad_descriptor", bad_descriptor),
            ("bad_length", bad_length),
            ("bad_chain", bad_chain),
            ("index_jump", index_jump),
            ("bad_buffer", bad_buffer),
        ] {
            page.value(name, &[("if", interface), ("fault", &fault)], count);
        }
    }
}

fn counters(page: &mut Page, all: &Counters, netisrs: &[Netisr]) {
    for counter in &all.counters {
        let name = format!("pantala_{}_total", counter.name);
        page.head(&name, "counter", &format!("{}.", counter.sentence));
        for (netisr, count) in netisrs.iter().zip(&counter.per_cpu) {
            page.value(&name, &[("cpu", &netisr.cpu)], *count);
        }
    }
    page.head("pantala_drop_total", "counter", "Packets dropped, by reason.");
    for drop in &all.drops {
        for (netisr, count) in netisrs.iter().zip(&drop.per_cpu) {
            let labels: Labels<'_> = &[("reason", &drop.reason), ("node", &drop.node), ("cpu", &netisr.cpu)];
            page.value("pantala_drop_total", labels, *count);
        }
    }
}

fn cpus(page: &mut Page, netisrs: &[Netisr]) {
    for (name, help, read) in PER_CPU {
        page.head(name, "counter", help);
        for netisr in netisrs {
            page.value(name, &[("cpu", &netisr.cpu)], read(netisr));
        }
    }
    let name = "pantala_cpu_busy_seconds_total";
    page.head(name, "counter", "Time spent in turns that found work.");
    for netisr in netisrs {
        page.value(name, &[("cpu", &netisr.cpu)], seconds(netisr.busy_ns));
    }
}

fn pools(page: &mut Page, pools: &[Pool]) {
    type PerPool = (&'static str, &'static str, &'static str, fn(&Pool) -> u64);
    let metrics: [PerPool; 3] = [
        ("pantala_pool_buffers", "gauge", "Packet buffers owned.", |p| p.buffers),
        ("pantala_pool_free_buffers", "gauge", "Free packet buffers.", |p| p.free),
        ("pantala_pool_denied_total", "counter", "Requests for a buffer while none was free.", |p| p.denied),
    ];
    for (name, kind, help, read) in metrics {
        page.head(name, kind, help);
        for pool in pools {
            page.value(name, &[("cpu", &pool.cpu)], read(pool));
        }
    }
}

fn webs(page: &mut Page, webs: &[Web<'_>]) {
    for hit in Hit::ALL.into_iter().filter(|_| !webs.is_empty()) {
        let (name, help) = hit.name();
        let name = format!("pantala_web_{name}_total");
        page.head(&name, "counter", help);
        for web in webs {
            page.value(&name, &[("at", &web.at)], (web.count)(hit));
        }
    }
}

type PerSource = (&'static str, &'static str, &'static str, fn(&RouteSource) -> u64);

const PER_SOURCE: &[PerSource] = &[
    (
        "pantala_route_source_up",
        "gauge",
        "Whether the source of routes is connected, or followed.",
        |source| u64::from(matches!(source.state, RouteSourceState::Connected | RouteSourceState::Following)),
    ),
    ("pantala_route_source_routes", "gauge", "Routes of the source.", |s| s.routes),
    ("pantala_route_source_stale_routes", "gauge", "Routes that were not told again yet.", |s| s.stale),
    ("pantala_route_source_idle_prefixes", "gauge", "Prefixes whose routes lead nowhere here.", |s| s.idle),
    ("pantala_route_source_messages_total", "counter", "Messages about routes and next hops.", |s| {
        s.messages
    }),
    ("pantala_route_source_malformed_total", "counter", "Messages that could not be read.", |s| s.malformed),
    ("pantala_route_source_refused_total", "counter", "Routes and next hops without room.", |s| s.refused),
    ("pantala_route_source_swept_total", "counter", "Stale routes removed.", |s| s.swept),
    ("pantala_route_source_resyncs_total", "counter", "Sessions, or listings.", |s| s.resyncs),
    ("pantala_route_source_overruns_total", "counter", "Times that the kernel lost messages.", |s| {
        s.overruns
    }),
];

fn route_sources(page: &mut Page, sources: &[RouteSource]) {
    for (name, kind, help, read) in PER_SOURCE.iter().filter(|_| !sources.is_empty()) {
        page.head(name, kind, help);
        for source in sources {
            page.value(name, &[("source", &source.name)], read(source));
        }
    }
}

/// Events at the HTTP listener, if there is one.
fn http(page: &mut Page, listener: Option<&HttpListener>) {
    let name = "pantala_http_events_total";
    for (at, counter) in listener.iter().flat_map(|listener| &listener.counters).enumerate() {
        if at == 0 {
            page.head(name, "counter", "Events at the HTTP listener.");
        }
        page.value(name, &[("event", &counter.name)], counter.count);
    }
}

type PerIpfix = (&'static str, &'static str, &'static str, fn(&IpfixStatus) -> u64);

const IPFIX: &[PerIpfix] = &[
    ("pantala_ipfix_flows", "gauge", "Flows that are followed for IPFIX.", |all| all.flows),
    ("pantala_ipfix_records_total", "counter", "Records sent to the collector.", |all| all.records),
    ("pantala_ipfix_messages_total", "counter", "Messages sent to the collector.", |all| all.messages),
    ("pantala_ipfix_lost_total", "counter", "Records that could not be sent.", |all| all.lost),
    (
        "pantala_ipfix_passed_over_total",
        "counter",
        "States passed over in a look, for too many flows.",
        |all| all.passed_over,
    ),
];

fn ipfix(page: &mut Page, status: Option<&IpfixStatus>) {
    let Some(status) = status else { return };
    for (name, kind, help, read) in IPFIX {
        page.head(name, kind, help);
        page.value(name, &[], read(status));
    }
}

type PerSflow = (&'static str, &'static str, fn(&SflowStatus) -> u64);

const SFLOW: &[PerSflow] = &[
    ("pantala_sflow_flow_samples_total", "Samples of frames sent to the collector.", |all| all.flow_samples),
    ("pantala_sflow_counter_samples_total", "Samples of counters sent to the collector.", |all| {
        all.counter_samples
    }),
    ("pantala_sflow_datagrams_total", "Datagrams sent to the collector.", |all| all.datagrams),
    ("pantala_sflow_lost_total", "Samples that could not be sent.", |all| all.lost),
    ("pantala_sflow_dropped_total", "Chosen frames for which there was no room.", |all| all.dropped),
];

fn sflow(page: &mut Page, status: Option<&SflowStatus>) {
    let Some(status) = status else { return };
    for (name, help, read) in SFLOW {
        page.head(name, "counter", help);
        page.value(name, &[], read(status));
    }
}

type PerPrograms = (&'static str, &'static str, &'static str, fn(&Programs) -> u64);

const PROGRAMS: &[PerPrograms] = &[
    ("pantala_programs", "gauge", "Processes that have sockets of the stack.", |all| {
        all.programs.len() as u64
    }),
    ("pantala_program_sockets", "gauge", "Sockets of unmodified programs.", |all| {
        all.programs.iter().map(|program| program.sockets).sum()
    }),
    ("pantala_program_queued_bytes", "gauge", "Bytes that wait in Unix sockets of programs.", |all| {
        all.programs.iter().map(|program| program.queued_bytes).sum()
    }),
    ("pantala_program_sockets_limit", "gauge", "Sockets that a user may have.", |all| all.sockets_max),
    ("pantala_program_requests_total", "counter", "Requests of programs.", |all| all.counters.requests),
    ("pantala_program_refused_total", "counter", "Requests refused by a user's rights or limits.", |all| {
        all.counters.refused
    }),
    ("pantala_program_transfers_total", "counter", "Reads and writes that moved data.", |all| {
        all.counters.transfers
    }),
    ("pantala_program_sent_bytes_total", "counter", "Bytes from programs to the network.", |all| {
        all.counters.sent_bytes
    }),
    ("pantala_program_received_bytes_total", "counter", "Bytes from the network to programs.", |all| {
        all.counters.received_bytes
    }),
];

/// Unmodified programs, if they are served.
fn programs(page: &mut Page, programs: Option<&Programs>) {
    for (name, kind, help, read) in PROGRAMS {
        let Some(all) = programs else { return };
        page.head(name, kind, help);
        page.value(name, &[], read(all));
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact for 104 days of nanoseconds, and then to 2 ns")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(in crate::api) type Labels<'a> = &'a [(&'a str, &'a dyn fmt::Display)];

#[derive(Default)]
pub(in crate::api) struct Page(String);

// Writing to a String does not fail.
impl Page {
    pub(in crate::api) fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}\n", help.replace('\\', "\\\\"));
    }

    pub(in crate::api) fn value(&mut self, name: &str, labels: Labels<'_>, value: impl fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(&value.to_string()))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
