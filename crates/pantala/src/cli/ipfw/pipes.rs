//! `pipe show`, `queue show`.

use std::collections::BTreeMap;

use crate::api::client::escaped;
use crate::api::{FirewallFlow, FirewallFlows, FirewallShapes};
use crate::cli::{Failure, Session};
use crate::show;

/// Flows that are asked for at once.
const PAGE: usize = 1000;

/// Options of showing pipes.
#[derive(Clone, Copy)]
pub(super) struct Pipes {
    /// Only this one.
    pub(super) number: Option<u16>,
    /// Queues, and not pipes.
    pub(super) queues: bool,
    /// `-v`: flows of each CPU, and not their sums.
    pub(super) verbose: bool,
}

impl Pipes {
    pub(super) fn show(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut shapes: FirewallShapes = session.client.get("/v1/firewall/pipes")?;
        if let Some(number) = self.number {
            shapes.pipes.retain(|pipe| pipe.number == number);
            shapes.queues.retain(|queue| queue.number == number);
            let (is_there, what) = if self.queues {
                (!shapes.queues.is_empty(), "queue")
            } else {
                (!shapes.pipes.is_empty(), "pipe")
            };
            if !is_there {
                return Err(Failure::Failed(format!("ipfw: there is no {what} {number}")));
            }
        }
        let flows = self.flows(session)?;
        let of = |pipe: u16, queue: u16| {
            let mine = |flow: &&FirewallFlow| flow.queue == queue && (queue != 0 || flow.pipe == pipe);
            flows.iter().filter(mine).cloned().collect::<Vec<_>>()
        };
        if self.queues {
            let all: Vec<_> = shapes.queues.iter().map(|queue| (queue, of(0, queue.number))).collect();
            let json: Vec<_> = all.iter().map(|(queue, flows)| merged(queue, flows)).collect();
            return session.show(&json, |_| {
                all.iter().map(|(queue, flows)| show::ipfw::pipe::queue(queue, flows, self.verbose)).collect()
            });
        }
        let all: Vec<_> = shapes.pipes.iter().map(|pipe| (pipe, of(pipe.number, 0))).collect();
        let json: Vec<_> = all.iter().map(|(pipe, flows)| merged(pipe, flows)).collect();
        session.show(&json, |_| {
            all.iter().map(|(pipe, flows)| show::ipfw::pipe::pipe(pipe, flows, self.verbose)).collect()
        })
    }

    /// The flows in all of them; each once, unless CPUs are told apart.
    fn flows(self, session: &Session<'_>) -> Result<Vec<FirewallFlow>, Failure> {
        let first = format!("/v1/firewall/pipes/flows?limit={PAGE}");
        let (mut path, mut all) = (first.clone(), Vec::new());
        loop {
            let page: FirewallFlows = session.client.get(&path)?;
            all.extend(page.flows);
            let Some(next) = page.next else { break };
            path = format!("{first}&after={}", escaped(&next));
        }
        Ok(if self.verbose || session.json { all } else { summed(all) })
    }
}

/// Adds up the entries that several CPUs have of the same flow.
fn summed(flows: Vec<FirewallFlow>) -> Vec<FirewallFlow> {
    let mut sums: BTreeMap<_, FirewallFlow> = BTreeMap::new();
    for flow in flows {
        let ends = (flow.proto, flow.src, flow.src_port, flow.dst, flow.dst_port, flow.flow_label);
        match sums.entry((flow.pipe, flow.queue, flow.overflow, ends)) {
            std::collections::btree_map::Entry::Vacant(place) => _ = place.insert(flow),
            std::collections::btree_map::Entry::Occupied(mut sum) => {
                let sum = sum.get_mut();
                sum.packets += flow.packets;
                sum.bytes += flow.bytes;
                sum.drops += flow.drops;
                sum.waiting_packets += flow.waiting_packets;
                sum.waiting_bytes += flow.waiting_bytes;
                sum.flying += flow.flying;
            }
        }
    }
    sums.into_values().collect()
}

/// A pipe or queue with its flows, as one value.
fn merged<T: serde::Serialize>(what: &T, flows: &[FirewallFlow]) -> serde_json::Value {
    let mut value = serde_json::json!(what);
    value["flows"] = serde_json::json!(flows);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_several_cpus_have_is_shown_once() {
        let flow = |cpu, src: &str, packets| FirewallFlow {
            pipe: 1,
            queue: 0,
            cpu,
            overflow: false,
            proto: 0,
            src: src.parse().unwrap(),
            src_port: 0,
            dst: "0.0.0.0".parse().unwrap(),
            dst_port: 0,
            flow_label: 0,
            packets,
            bytes: packets * 100,
            drops: 1,
            waiting_packets: 2,
            waiting_bytes: 200,
            flying: 1,
        };
        let sums = summed(vec![flow(0, "10.0.0.1", 5), flow(0, "10.0.0.2", 6), flow(1, "10.0.0.1", 7)]);
        let seen: Vec<_> =
            sums.iter().map(|flow| (flow.src.to_string(), flow.packets, flow.bytes, flow.drops)).collect();
        assert_eq!(seen, [("10.0.0.1".to_owned(), 12, 1200, 2), ("10.0.0.2".to_owned(), 6, 600, 1)]);
    }
}
