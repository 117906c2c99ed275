//! `ipfw pipe show`, `ipfw queue show`.

use ipfw::command::{QueueConfig, QueueLimit};
use net::firewall::pipe::{Key, Listed, Total};
use net::firewall::state::End;

use super::states::address;
use crate::api::{
    Error, FirewallFlow, FirewallFlows, FirewallPipe, FirewallQueue, FirewallShape, FirewallShapes,
};
use crate::daemon::control::Control;
use crate::daemon::report::Report;

/// Slots of a queue that was not told how many.
const SLOTS: QueueLimit = QueueLimit::Packets(50);

impl Control {
    pub(super) fn shapes_by(&self, reports: &[Report]) -> FirewallShapes {
        let firewalls = reports.iter().filter_map(|report| report.firewall.as_ref());
        let all: Vec<Total> = firewalls.flat_map(|firewall| &firewall.shapes).copied().collect();
        let shapes = &self.firewall.config.shapes;
        let led_to = |number| shapes.queues().any(|(_, config)| config.pipe == Some(number));
        let pipes = shapes.pipes().map(|(number, config)| FirewallPipe {
            number,
            config: config.to_string().trim_start().to_owned(),
            bandwidth: config.bandwidth.unwrap_or(0),
            delay_ms: config.delay_ms.unwrap_or(0),
            burst: config.burst.unwrap_or(0),
            exact: config.exact,
            reorder: chance(config.reorder.map(|reorder| reorder.share)),
            reorder_by: config.reorder.map_or(0, |reorder| reorder.by),
            duplicate: chance(config.duplicate),
            scheduler: match config.scheduler {
                Some(scheduler) => scheduler.to_string(),
                None if led_to(number) => "wf2q+".to_owned(),
                None => "fifo".to_owned(),
            },
            own: shape(&config.queue, (number, 0), &all),
        });
        let queues = shapes.queues().map(|(number, config)| FirewallQueue {
            number,
            pipe: config.pipe.unwrap_or(0),
            config: config.to_string().trim_start().to_owned(),
            own: shape(config, (0, number), &all),
        });
        FirewallShapes { pipes: pipes.collect(), queues: queues.collect() }
    }

    pub(super) fn page_of_flows(&self, after: Option<&str>, limit: usize) -> Result<FirewallFlows, Error> {
        let page = self.page(after, limit, |firewall, from, room, _| {
            firewall.pipes().page(from, u32::try_from(room).unwrap_or(u32::MAX))
        })?;
        let flows = page.rows.iter().map(|(cpu, listed)| flow(*cpu, listed)).collect();
        Ok(FirewallFlows { flows, next: page.next })
    }
}

/// A share of 2³² as people say it.
fn chance(share: Option<u32>) -> f64 {
    f64::from(share.unwrap_or(0)) / f64::from(u32::MAX)
}

/// A queue with what went through it on all CPUs: one of a number, or the pipe's own.
fn shape(config: &QueueConfig, (pipe, queue): (u16, u16), all: &[Total]) -> FirewallShape {
    let of = |total: &&Total| (total.pipe, total.queue) == (pipe, queue);
    let sum = |read: fn(&Total) -> u64| all.iter().filter(of).map(read).sum::<u64>();
    FirewallShape {
        limit: config.limit.unwrap_or(SLOTS).to_string(),
        weight: config.weight.unwrap_or(1),
        loss: chance(config.loss),
        mask: config.mask.to_string().trim_start().to_owned(),
        aqm: config.aqm.as_ref().map(ToString::to_string),
        flows: sum(|total| total.flows as u64),
        packets: sum(|total| total.count.packets),
        bytes: sum(|total| total.count.bytes),
        drops: sum(|total| total.count.drops),
        waiting_packets: sum(|total| total.packets as u64),
        waiting_bytes: sum(|total| total.bytes as u64),
    }
}

/// A queue on one CPU. The mask of the pipe and that of the queue name each what they name.
fn flow(cpu: u32, listed: &Listed) -> FirewallFlow {
    let Listed { pipe, flow: of_pipe, flying, queue } = *listed;
    let key = if queue.number != 0 && queue.key != Key::default() { queue.key } else { of_pipe };
    let has_ip4 = key.is_ip4 || (key.src | key.dst) == 0;
    let end = |addr, port| address(End { addr, port }, has_ip4);
    FirewallFlow {
        pipe,
        queue: queue.number,
        cpu,
        overflow: key.is_overflow,
        proto: key.proto,
        src: end(key.src, key.src_port),
        src_port: key.src_port,
        dst: end(key.dst, key.dst_port),
        dst_port: key.dst_port,
        flow_label: key.flow_label,
        packets: queue.count.packets,
        bytes: queue.count.bytes,
        drops: queue.count.drops,
        waiting_packets: queue.packets as u64,
        waiting_bytes: queue.bytes as u64,
        flying: flying as u64,
    }
}
