//! `netstat -O`: flows that drivers forward.

use net::fib::Prefix;
use net::flow::offload::{Ends, Scope};
use net::flow::offloader::Listed;

use super::super::control::Control;
use crate::api::{Error, OffloadScope, OffloadedEnds, OffloadedFlow};

impl Control {
    /// Lists so many flows of each CPU.
    pub(super) fn list_offloaded(&self, limit: usize) -> Result<Vec<OffloadedFlow>, Error> {
        let listed = self.cpus.call_all(move |netisr| netisr.offloaded(limit))?;
        let of_cpus = (0..).zip(listed);
        Ok(of_cpus.flat_map(|(cpu, flows)| flows.into_iter().map(move |flow| self.row(cpu, &flow))).collect())
    }

    fn row(&self, cpu: u32, listed: &Listed) -> OffloadedFlow {
        let Listed { flow, forwarded } = listed;
        let name =
            |index| self.interface_by_index(index).map(|own| own.config.name.clone()).unwrap_or_default();
        let [a, b, c, d, e, f, ..] = flow.link;
        let (scope, prefix_len) = match flow.scope {
            Scope::Flow => (OffloadScope::Flow, Prefix::host(flow.before.dst).prefix_len()),
            Scope::Destination(bits) => (OffloadScope::Destination, bits),
        };
        OffloadedFlow {
            cpu,
            scope,
            prefix_len,
            protocol: flow.protocol,
            before: ends(&flow.before),
            after: ends(&flow.after),
            input: name(flow.rcvif),
            output: name(flow.outif),
            next_hop: crate::Mac(wire::ether::Mac([a, b, c, d, e, f])),
            packets: forwarded.packets,
            bytes: forwarded.bytes,
        }
    }
}

const fn ends(ends: &Ends) -> OffloadedEnds {
    let Ends { src, dst, src_port, dst_port } = *ends;
    OffloadedEnds { src, src_port, dst, dst_port }
}
