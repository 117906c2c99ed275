//! `netstat -i -s -m -Q -w`.

use core::net::IpAddr;

use ipnet::IpNet;

use super::table::Table;
use crate::api::{
    Counters, DropCount, Interface, InterfaceCounters, Netisr, OffloadScope, OffloadedFlow, Pool,
};

const PACKETS: &[&str] =
    &["Name", "Mtu", "Network", "Address", "Ipkts", "Ierrs", "Idrop", "Opkts", "Oerrs", "Odrop"];
const BYTES: &[&str] = &[
    "Name", "Mtu", "Network", "Address", "Ipkts", "Ierrs", "Idrop", "Ibytes", "Opkts", "Oerrs", "Odrop",
    "Obytes",
];

/// The table of interfaces: a line for the link, which counts, and one for each address.
pub(crate) fn interfaces(interfaces: &[Interface], bytes: bool) -> String {
    let head = if bytes { BYTES } else { PACKETS };
    let mut table = Table::new(head, &[1, 4, 5, 6, 7, 8, 9, 10, 11]);
    for interface in interfaces {
        let mac = interface.mac.map(|mac| mac.to_string()).unwrap_or_default();
        let front =
            [interface.name.clone(), interface.mtu.to_string(), format!("<Link#{}>", interface.index), mac];
        table.row(front.into_iter().chain(counted(&interface.counters, bytes)));
        for address in &interface.addresses {
            let net = IpNet::new(address.address, address.prefix_len).map(|net| net.trunc().to_string());
            let front =
                [interface.name.clone(), "-".into(), net.unwrap_or_default(), address.address.to_string()];
            table.row(front.into_iter().chain((4..head.len()).map(|_| "-".to_owned())));
        }
    }
    table.text()
}

const QUEUES: &[&str] = &[
    "Name",
    "CPU",
    "Queue",
    "Pkts",
    "Bytes",
    "Flows",
    "Maxpkts",
    "Maxbytes",
    "Inflight",
    "Limit",
    "Odrop",
    "Marks",
    "Pushback",
    "Opkts",
    "Flushes",
    "Doorbells",
];

/// The output queues: a line for each CPU's, and on an interface's first one what it counted.
pub(crate) fn queues(interfaces: &[Interface]) -> String {
    let mut table = Table::new(QUEUES, &[1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    for interface in interfaces {
        let c = &interface.counters;
        let counted = [c.tx_drops, c.tx_marks, c.tx_pushed_back, c.tx_packets, c.tx_flushes, c.doorbells]
            .map(|n| n.to_string());
        for (at, queue) in interface.queues.iter().enumerate() {
            let q = queue;
            let names = [interface.name.clone(), q.cpu.to_string(), q.discipline.clone()];
            let numbers = [q.packets, q.bytes, q.flows, q.packets_max, q.bytes_max, q.in_flight];
            let limit = q.byte_limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
            let numbers = numbers.map(|number| number.to_string()).into_iter().chain([limit]);
            let counted = counted.iter().map(|count| if at == 0 { count.clone() } else { "-".to_owned() });
            table.row(names.into_iter().chain(numbers).chain(counted));
        }
    }
    table.text()
}

fn counted(counters: &InterfaceCounters, bytes: bool) -> Vec<String> {
    let c = counters;
    let cells = [
        (true, c.rx_packets),
        (true, c.rx_errors),
        (true, c.rx_drops),
        (bytes, c.rx_bytes),
        (true, c.tx_packets),
        (true, c.tx_errors),
        (true, c.tx_drops),
        (bytes, c.tx_bytes),
    ];
    cells.iter().filter(|(shown, _)| *shown).map(|(_, count)| count.to_string()).collect()
}

/// Every counter that is not zero, or every one, by protocol, and every reason for which a packet died.
pub(crate) fn counters(all: &Counters, zeros: bool) -> String {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for counter in all.counters.iter().filter(|counter| zeros || counter.count > 0) {
        let line = format!("\t{} {}\n", counter.count, counter.sentence);
        push(&mut sections, section(&counter.node), line);
    }
    for drop in all.drops.iter().filter(|drop| zeros || drop.count > 0) {
        let line = format!("\t{} {}: {}\n", drop.count, drop.reason, drop.sentence);
        push(&mut sections, "drops", line);
    }
    sections.iter().map(|(name, lines)| format!("{name}:\n{lines}")).collect()
}

/// Keeps the counters and drop reasons of one protocol. Those of stages that several protocols share are of each.
pub(crate) fn keep(all: &mut Counters, protocol: &str) {
    let (stages, reasons): (&[&str], &[&str]) = match protocol {
        "ip" => (&["ip", "ip4", "reass", "forward"], &["no_protocol"]),
        "ip6" => (&["ip", "ip6", "reass", "forward"], &["no_protocol"]),
        "udp" => (&["udp"], &["no_port"]),
        "tcp" => (&["tcp"], &["no_port"]),
        "icmp6" => (&["icmp6", "icmp"], &[]),
        other => (&[other], &[]),
    };
    all.counters.retain(|counter| stages.contains(&counter.node.as_str()));
    let is_of = |drop: &DropCount| {
        stages.contains(&drop.node.as_str()) || reasons.contains(&drop.reason.as_str()) || protocol == "drops"
    };
    all.drops.retain(is_of);
}

/// Returns the name of a stage's section: IPv4 is `ip`, as in BSD.
fn section(stage: &str) -> &str {
    if stage == "ip4" { "ip" } else { stage }
}

fn push<'a>(sections: &mut Vec<(&'a str, String)>, name: &'a str, line: String) {
    match sections.iter_mut().find(|(known, _)| *known == name) {
        Some((_, lines)) => lines.push_str(&line),
        None => sections.push((name, line)),
    }
}

/// The packet buffers: sums, then a line for each CPU.
pub(crate) fn pools(pools: &[Pool]) -> String {
    let sum = |read: fn(&Pool) -> u64| pools.iter().map(read).sum::<u64>();
    let (all, free, rings) = (sum(|p| p.buffers), sum(|p| p.free), sum(|p| p.in_rings));
    let used = all.saturating_sub(free).saturating_sub(rings);
    let bytes = pools.first().map_or(0, |pool| pool.buffer_bytes);
    let mut table = Table::new(&["CPU", "Buffers", "Free", "Rings", "Used", "Denied"], &[0, 1, 2, 3, 4, 5]);
    for p in pools {
        let used = p.buffers.saturating_sub(p.free).saturating_sub(p.in_rings);
        let cells = [p.cpu.into(), p.buffers, p.free, p.in_rings, used, p.denied];
        table.row(cells.map(|cell: u64| cell.to_string()));
    }
    format!(
        "{used}/{rings}/{free}/{all} packet buffers of {bytes} bytes in use (stack/rings/free/total)\n\
         {} requests for buffers denied\n\n{}",
        sum(|p| p.denied),
        table.text()
    )
}

const NETISR: &[&str] = &[
    "CPU",
    "Turns",
    "Busy",
    "Packets",
    "Pkts/turn",
    "HandIn",
    "HandOut",
    "Msgs",
    "Sleeps",
    "Wakeups",
    "Burst",
    "Long",
    "User%",
    "User_ms",
];

/// The netisrs: a line for each CPU.
pub(crate) fn netisrs(netisrs: &[Netisr]) -> String {
    let mut table = Table::new(NETISR, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    for n in netisrs {
        table.row([
            n.cpu.to_string(),
            n.turns.to_string(),
            n.busy_turns.to_string(),
            n.packets.to_string(),
            format!("{:.1}", n.packets_per_turn()),
            n.handoffs_in.to_string(),
            n.handoffs_out.to_string(),
            n.messages.to_string(),
            n.sleeps.to_string(),
            n.wakeups.to_string(),
            n.burst.to_string(),
            n.long_turns.to_string(),
            n.user_frac.to_string(),
            (n.user_ns / 1_000_000).to_string(),
        ]);
    }
    table.text()
}

/// `netstat -O`: flows that drivers forward, and destinations; of translated flows the ends that leave, too.
pub(crate) fn offloaded(flows: &[OffloadedFlow]) -> String {
    let head = ["Proto", "Source", "Destination", "In", "Out", "Next hop", "Packets", "Bytes", "Leaves as"];
    let mut table = Table::new(&head, &[6, 7]);
    let end = |addr: IpAddr, port: u16| format!("{addr}.{port}");
    for flow in flows {
        let (before, after) = (&flow.before, &flow.after);
        let is_flow = flow.scope == OffloadScope::Flow;
        let leaves = format!("{} > {}", end(after.src, after.src_port), end(after.dst, after.dst_port));
        table.row([
            match flow.protocol {
                _ if !is_flow => "any".to_owned(),
                6 => "tcp".to_owned(),
                _ => "udp".to_owned(),
            },
            if is_flow { end(before.src, before.src_port) } else { "*".to_owned() },
            if is_flow { end(before.dst, before.dst_port) } else { to(flow) },
            flow.input.clone(),
            flow.output.clone(),
            flow.next_hop.to_string(),
            flow.packets.to_string(),
            flow.bytes.to_string(),
            if before == after { String::new() } else { leaves },
        ]);
    }
    table.text()
}

/// The destinations of a record that is for all packets to them: a host, or a network.
fn to(flow: &OffloadedFlow) -> String {
    let dst = flow.before.dst;
    let all = if dst.is_ipv4() { 32 } else { 128 };
    if flow.prefix_len < all { format!("{dst}/{}", flow.prefix_len) } else { dst.to_string() }
}

/// The two lines above the rates of `netstat -w`.
pub(crate) fn rates_head(interface: Option<&str>) -> String {
    let title = format!("input ({}) output", interface.unwrap_or("Total"));
    let title = format!("{title:^66}");
    let names = cells(["packets", "errs", "idrops", "bytes", "packets", "errs", "odrops", "bytes"]);
    format!("{}\n{names}\n", title.trim_end())
}

/// One line below them.
pub(crate) fn rates_line(since: &InterfaceCounters) -> String {
    let c = since;
    let values = [
        c.rx_packets,
        c.rx_errors,
        c.rx_drops,
        c.rx_bytes,
        c.tx_packets,
        c.tx_errors,
        c.tx_drops,
        c.tx_bytes,
    ];
    let values = values.map(|value| value.to_string());
    format!("{}\n", cells(values.each_ref().map(String::as_str)))
}

/// Differences since the last line.
pub(crate) struct Rates {
    last: InterfaceCounters,
}

impl Rates {
    pub(crate) fn new(now: InterfaceCounters) -> Self {
        Self { last: now }
    }

    /// The difference; `now` is the next "last look".
    pub(crate) fn since(&mut self, now: InterfaceCounters) -> InterfaceCounters {
        let last = core::mem::replace(&mut self.last, now);
        now.since(&last)
    }
}

fn cells(cells: [&str; 8]) -> String {
    let [ip, ie, id, ib, op, oe, od, ob] = cells;
    format!("{ip:>10} {ie:>5} {id:>6} {ib:>10} {op:>10} {oe:>5} {od:>6} {ob:>10}")
}
