//! Readings of a stack, and the rates between two of them: what `pantala top` and the dashboard show.

use core::hash::Hash;
use core::net::SocketAddr;
use std::collections::HashMap;

use std::time::Instant;

use serde::Serialize;

use super::{
    Counters, FirewallRule, FirewallState, Interface, InterfaceCounters, InterfaceFlag, Netisr, Pool,
    TcpConnection, Version,
};

/// A reading. Tables that were not asked for are `None`.
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) version: Version,
    pub(crate) netisrs: Vec<Netisr>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) counters: Counters,
    pub(crate) rules: Option<Vec<FirewallRule>>,
    pub(crate) states: Option<Vec<FirewallState>>,
    pub(crate) connections: Option<Vec<TcpConnection>>,
    /// A table had more rows than were read.
    pub(crate) cut: bool,
}

/// The difference of two readings. Rates are per second.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct Rates {
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) interval_s: f64,
    pub(crate) cpus: Vec<CpuRates>,
    pub(crate) interfaces: Vec<InterfaceRates>,
    pub(crate) drops: Vec<DropRates>,
    pub(crate) flows: Vec<FlowRates>,
    pub(crate) rules: Vec<RuleRates>,
    pub(crate) connections: Vec<ConnectionRates>,
    /// A table had more rows than were read.
    pub(crate) cut: bool,
}

#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct CpuRates {
    pub(crate) cpu: u32,
    /// Share of the time in turns that found work.
    pub(crate) busy_percent: f64,
    pub(crate) turns: f64,
    pub(crate) packets: f64,
    /// Packets in each turn that found work.
    pub(crate) packets_per_turn: f64,
    pub(crate) handoffs_in: f64,
    pub(crate) handoffs_out: f64,
    pub(crate) wakeups: f64,
    pub(crate) buffers_free: u64,
    pub(crate) buffers: u64,
}

#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct InterfaceRates {
    pub(crate) name: String,
    pub(crate) up: bool,
    pub(crate) rx_packets: f64,
    pub(crate) rx_bytes: f64,
    pub(crate) tx_packets: f64,
    pub(crate) tx_bytes: f64,
    /// Frames lost on the way in or out.
    pub(crate) drops: f64,
    /// Packets in output queues now.
    pub(crate) queued: u64,
}

#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct DropRates {
    pub(crate) reason: String,
    pub(crate) node: String,
    pub(crate) sentence: String,
    pub(crate) packets: f64,
    pub(crate) total: u64,
}

#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub(crate) struct FlowRates {
    pub(crate) proto: u8,
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    pub(crate) cpu: u32,
    pub(crate) rule: u16,
    pub(crate) packets: f64,
    pub(crate) bytes: f64,
    pub(crate) bytes_total: u64,
}

#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub(crate) struct RuleRates {
    pub(crate) number: u16,
    pub(crate) rule: String,
    pub(crate) packets: f64,
    pub(crate) bytes: f64,
    pub(crate) packets_total: u64,
}

#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub(crate) struct ConnectionRates {
    pub(crate) local: SocketAddr,
    pub(crate) foreign: SocketAddr,
    pub(crate) state: &'static str,
    pub(crate) cpu: u32,
    pub(crate) rtt_us: Option<u64>,
    pub(crate) cwnd: u32,
    pub(crate) retrans: u64,
    /// Bytes received in order.
    pub(crate) rx_bytes: f64,
    /// Bytes acknowledged by the peer.
    pub(crate) tx_bytes: f64,
}

impl Rates {
    /// Counts what happened from `earlier` to `now`.
    pub(crate) fn between(earlier: &Sample, now: &Sample) -> Self {
        let per = Per { seconds: now.at.duration_since(earlier.at).as_secs_f64().max(1e-3) };
        Self {
            pid: now.version.pid,
            version: now.version.version.clone(),
            interval_s: per.seconds,
            cpus: per.cpus(&earlier.netisrs, now),
            interfaces: per.interfaces(&earlier.interfaces, &now.interfaces),
            drops: per.drops(&earlier.counters, &now.counters),
            flows: now.states.as_ref().map_or_else(Vec::new, |rows| per.flows(earlier, rows)),
            rules: now.rules.as_ref().map_or_else(Vec::new, |rows| per.rules(earlier, rows)),
            connections: now
                .connections
                .as_ref()
                .map_or_else(Vec::new, |rows| per.connections(earlier, rows)),
            cut: now.cut,
        }
    }
}

/// Turns counts into rates.
struct Per {
    seconds: f64,
}

impl Per {
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    fn second(&self, now: u64, earlier: u64) -> f64 {
        now.saturating_sub(earlier) as f64 / self.seconds
    }

    fn cpus(&self, earlier: &[Netisr], now: &Sample) -> Vec<CpuRates> {
        let pools: HashMap<u32, &Pool> = now.pools.iter().map(|pool| (pool.cpu, pool)).collect();
        let row = |netisr: &Netisr| {
            let before = earlier.iter().find(|one| one.cpu == netisr.cpu).cloned().unwrap_or_default();
            let pool = pools.get(&netisr.cpu);
            let busy_turns = self.second(netisr.busy_turns, before.busy_turns);
            let packets = self.second(netisr.packets, before.packets);
            CpuRates {
                cpu: netisr.cpu,
                busy_percent: (self.second(netisr.busy_ns, before.busy_ns) / 1e7).min(100.0),
                turns: self.second(netisr.turns, before.turns),
                packets,
                packets_per_turn: if busy_turns > 0.0 { packets / busy_turns } else { 0.0 },
                handoffs_in: self.second(netisr.handoffs_in, before.handoffs_in),
                handoffs_out: self.second(netisr.handoffs_out, before.handoffs_out),
                wakeups: self.second(netisr.wakeups, before.wakeups),
                buffers_free: pool.map_or(0, |pool| pool.free),
                buffers: pool.map_or(0, |pool| pool.buffers),
            }
        };
        now.netisrs.iter().map(row).collect()
    }

    fn interfaces(&self, earlier: &[Interface], now: &[Interface]) -> Vec<InterfaceRates> {
        let row = |interface: &Interface| {
            let before = earlier.iter().find(|one| one.name == interface.name);
            let before = before.map_or_else(InterfaceCounters::default, |one| one.counters);
            let passed = interface.counters.since(&before);
            let lost = passed.rx_drops + passed.rx_errors + passed.tx_drops + passed.tx_errors;
            InterfaceRates {
                name: interface.name.clone(),
                up: interface.is(InterfaceFlag::Up) && interface.link.active,
                rx_packets: self.second(passed.rx_packets, 0),
                rx_bytes: self.second(passed.rx_bytes, 0),
                tx_packets: self.second(passed.tx_packets, 0),
                tx_bytes: self.second(passed.tx_bytes, 0),
                drops: self.second(lost, 0),
                queued: interface.queues.iter().map(|queue| queue.packets).sum(),
            }
        };
        now.iter().map(row).collect()
    }

    /// Reasons that any packet was ever dropped for.
    fn drops(&self, earlier: &Counters, now: &Counters) -> Vec<DropRates> {
        let before = index(&earlier.drops, |drop| drop.reason.clone());
        let counted = now.drops.iter().filter(|drop| drop.count > 0);
        let row = |drop: &super::DropCount| DropRates {
            reason: drop.reason.clone(),
            node: drop.node.clone(),
            sentence: drop.sentence.clone(),
            packets: self.second(drop.count, before.get(&drop.reason).map_or(0, |one| one.count)),
            total: drop.count,
        };
        counted.map(row).collect()
    }

    fn flows(&self, earlier: &Sample, now: &[FirewallState]) -> Vec<FlowRates> {
        let before = earlier.states.as_ref().map(|rows| index(rows, flow_key));
        let row = |state: &FirewallState| {
            let [packets, bytes] = self.since(
                before.as_ref().map(|rows| rows.get(&flow_key(state)).map(|one| [one.packets, one.bytes])),
                [state.packets, state.bytes],
            );
            FlowRates {
                proto: state.proto,
                src: SocketAddr::new(state.src, state.src_port),
                dst: SocketAddr::new(state.dst, state.dst_port),
                cpu: state.cpu,
                rule: state.rule,
                packets,
                bytes,
                bytes_total: state.bytes,
            }
        };
        now.iter().map(row).collect()
    }

    fn rules(&self, earlier: &Sample, now: &[FirewallRule]) -> Vec<RuleRates> {
        let key = |rule: &FirewallRule| (rule.number, rule.rule.clone());
        let before = earlier.rules.as_ref().map(|rows| index(rows, key));
        let row = |rule: &FirewallRule| {
            let [packets, bytes] = self.since(
                before.as_ref().map(|rows| rows.get(&key(rule)).map(|one| [one.packets, one.bytes])),
                [rule.packets, rule.bytes],
            );
            RuleRates {
                number: rule.number,
                rule: rule.rule.clone(),
                packets,
                bytes,
                packets_total: rule.packets,
            }
        };
        now.iter().map(row).collect()
    }

    fn connections(&self, earlier: &Sample, now: &[TcpConnection]) -> Vec<ConnectionRates> {
        let before = earlier.connections.as_ref().map(|rows| index(rows, ends));
        let row = |connection: &TcpConnection| {
            let info = connection.info.as_deref().cloned().unwrap_or_default();
            let counted = |one: &&TcpConnection| {
                one.info.as_ref().map_or([0; 2], |info| [info.bytes_received, info.bytes_acked])
            };
            let [rx_bytes, tx_bytes] = self.since(
                before.as_ref().map(|rows| rows.get(&ends(connection)).map(counted)),
                [info.bytes_received, info.bytes_acked],
            );
            let (local, foreign) = ends(connection);
            ConnectionRates {
                local,
                foreign,
                state: connection.state.word(),
                cpu: connection.cpu,
                rtt_us: info.rtt_us,
                cwnd: info.cwnd,
                retrans: info.retrans,
                rx_bytes,
                tx_bytes,
            }
        };
        now.iter().map(row).collect()
    }

    /// Rates of a row. Without a table before, nothing is known of it; a row that is new in its table counts from 0.
    fn since(&self, before: Option<Option<[u64; 2]>>, now: [u64; 2]) -> [f64; 2] {
        match before {
            None => [0.0; 2],
            Some(row) => {
                let [first, second] = row.unwrap_or_default();
                [self.second(now[0], first), self.second(now[1], second)]
            }
        }
    }
}

fn index<T, K: Eq + Hash>(rows: &[T], key: impl Fn(&T) -> K) -> HashMap<K, &T> {
    rows.iter().map(|row| (key(row), row)).collect()
}

fn flow_key(state: &FirewallState) -> (u8, SocketAddr, SocketAddr, u32) {
    let (src, dst) = (SocketAddr::new(state.src, state.src_port), SocketAddr::new(state.dst, state.dst_port));
    (state.proto, src, dst, state.cpu)
}

fn ends(connection: &TcpConnection) -> (SocketAddr, SocketAddr) {
    let ends = &connection.ends;
    (SocketAddr::new(ends.local, ends.local_port), SocketAddr::new(ends.foreign, ends.foreign_port))
}
