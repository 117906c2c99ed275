//! Spanning trees of bridges: units in and out, and the states of ports on all CPUs.
//!
//! One CPU *owns* the tree of a bridge: that of the bridge's number, which owns its learnt addresses, too. It alone runs the
//! [protocol](crate::link::stp). Units come to it from the CPUs that receive them; states of ports go from it to all,
//! so that a frame needs no lock to know whether it may pass. A port of which a CPU has heard nothing yet is blocked.
//!
//! # Spec
//! IEEE 802.1D-2004 §7.12, clauses 9 and 17.

use std::collections::BTreeMap;

use pkt::{Flags, Pkt};
use wire::bpdu::{self, Bpdu, BridgeId};
use wire::ether::{EtherType, HEADER_LEN, Header, MIN_FRAME_LEN};

use crate::base::count::Count;
use crate::base::drop::{DropReason, Fate};
use crate::base::time::{Duration, Instant};
use crate::ip::snoop_io;
use crate::link::bridge::Port;
use crate::link::fdb;
use crate::link::logical::Kind;
use crate::link::stp::{Effect, PortSettings, PortStatus, Settings, State, Tree};
use crate::link::tables::{IfIndex, Tables};
use crate::out::ifq;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::timers::Timer;

/// Units that a CPU takes in one turn, of all bridges.
pub const UNITS_MAX: u16 = 64;
const SECOND: Duration = Duration::from_secs(1);

/// A message between CPUs about spanning trees.
#[derive(Clone, Copy, Debug)]
pub enum Msg {
    /// To the owner: a port has received a unit.
    Heard {
        /// The port.
        port: IfIndex,
        /// The unit.
        bpdu: Bpdu,
    },
    /// From the owner: a port is in this state.
    State {
        /// The port.
        port: IfIndex,
        /// The state.
        state: State,
    },
}

/// A CPU's copy of the states of ports, and the trees that it owns.
#[derive(Default)]
pub(crate) struct Trees {
    /// By interface.
    states: Vec<State>,
    /// By bridge.
    owned: BTreeMap<IfIndex, Owned>,
    /// Time at which the timer fires.
    armed: Option<Instant>,
    /// The turn in which units were last taken, and how many in it.
    taken: (Instant, u16),
}

/// A tree, and what it was made of.
struct Owned {
    tree: Tree,
    id: BridgeId,
    settings: Settings,
    ports: Vec<(IfIndex, PortSettings)>,
}

/// The status of a bridge in its spanning tree.
#[derive(Clone, Debug)]
pub struct Status {
    /// The bridge.
    pub bridge: IfIndex,
    /// Its identifier.
    pub id: BridgeId,
    /// The root of the tree.
    pub root: BridgeId,
    /// Cost of the path to it.
    pub cost: u32,
    /// The port that leads there; `None` at the root itself.
    pub root_port: Option<IfIndex>,
    /// Its ports.
    pub ports: Vec<(IfIndex, PortStatus)>,
}

/// Returns the state of a port of a bridge with a spanning tree.
pub(crate) fn state(cpu: &Cpu, port: IfIndex) -> State {
    let states = cpu.trees.as_ref().map_or(&[][..], |trees| &trees.states);
    states.get(usize::from(port)).copied().unwrap_or_default()
}

/// Takes a frame to the group of bridges, which begins with its Ethernet header.
///
/// Reads  the frame, `pkt.rcvif`.
/// Drops  [`DropReason::BpduMalformed`], [`DropReason::BpduLimit`].
///
/// # Spec
/// IEEE 802.1D-2004 §9.3.4.
pub(crate) fn input(cpu: &mut Cpu, pkt: Pkt, port: Port) {
    let fate = take(cpu, &pkt, port);
    cpu.finish(pkt, fate);
}

fn take(cpu: &mut Cpu, pkt: &Pkt, port: Port) -> Fate {
    let [.., len_hi, len_lo] = *pkt.window(0).first_chunk().unwrap_or(&[0; HEADER_LEN]);
    let len = usize::from(u16::from_be_bytes([len_hi, len_lo]));
    let payload = pkt.head().get(HEADER_LEN..HEADER_LEN + len).ok_or(DropReason::BpduMalformed)?;
    let bpdu = Bpdu::parse(payload).map_err(|_| DropReason::BpduMalformed)?;
    let now = cpu.now;
    let trees = cpu.trees.get_or_insert_default();
    if trees.taken.0 != now {
        trees.taken = (now, 0);
    }
    trees.taken.1 += 1;
    if trees.taken.1 > UNITS_MAX {
        return Err(DropReason::BpduLimit);
    }
    let owner = fdb::owner_of(cpu, port.bridge);
    tell(cpu, owner, Msg::Heard { port: pkt.rcvif, bpdu });
    Ok(Count::BpdusConsumed)
}

/// Handles a message from another CPU.
pub(crate) fn message(cpu: &mut Cpu, msg: Msg) {
    match msg {
        Msg::Heard { port, bpdu } => {
            let Some(of) = cpu.tables.ifnet(port).filter(|ifnet| ifnet.up).and_then(|ifnet| ifnet.port)
            else {
                return;
            };
            step(cpu, of.bridge, |owned| {
                if let Some(at) = owned.ports.iter().position(|(of, _)| *of == port) {
                    owned.tree.receive(at, bpdu);
                }
            });
        }
        Msg::State { port, state } => {
            let (at, trees) = (usize::from(port), cpu.trees.get_or_insert_default());
            if trees.states.len() <= at {
                trees.states.resize(at + 1, State::default());
            }
            trees.states[at] = state;
        }
    }
}

/// The timer of the trees that this CPU owns: a second has passed.
pub(crate) fn timer(cpu: &mut Cpu) {
    let now = cpu.now;
    let Some(trees) = cpu.trees.as_mut().filter(|trees| trees.armed.is_some_and(|at| at <= now)) else {
        return;
    };
    trees.armed = None;
    let bridges: Vec<IfIndex> = trees.owned.keys().copied().collect();
    for bridge in bridges {
        step(cpu, bridge, |owned| owned.tree.tick());
    }
    arm(cpu);
}

fn arm(cpu: &mut Cpu) {
    let Cpu { trees, now, timers, .. } = cpu;
    let Some(trees) = trees.as_mut().filter(|trees| !trees.owned.is_empty() && trees.armed.is_none()) else {
        return;
    };
    let at = *now + SECOND;
    trees.armed = Some(at);
    timers.set(at, Timer::Stp);
}

/// Lets trees follow other tables: of new bridges, of other ports, of ports that have come up or gone down.
pub(crate) fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    if cpu.trees.is_none() && !tables.ifnets().any(|ifnet| stp_of(ifnet.kind).is_some()) {
        return;
    }
    let trees = cpu.trees.get_or_insert_default();
    for (state, index) in trees.states.iter_mut().zip(0..) {
        if tables.ifnet(index).and_then(|ifnet| ifnet.port).is_none_or(|port| port.stp.is_none()) {
            *state = State::Discarding;
        }
    }
    let mut gone: Vec<IfIndex> = trees.owned.keys().copied().collect();
    for bridge in tables.ifnets().filter(|bridge| bridge.up) {
        let Some(settings) = stp_of(bridge.kind).filter(|_| fdb::owner_of(cpu, bridge.index) == cpu.id)
        else {
            continue;
        };
        gone.retain(|gone| *gone != bridge.index);
        let id = BridgeId { priority: settings.priority, mac: bridge.mac };
        keep(cpu, &tables, bridge.index, id, settings);
    }
    for bridge in gone {
        let owned = cpu.trees.as_mut().and_then(|trees| trees.owned.remove(&bridge));
        owned.into_iter().for_each(|owned| block(cpu, &owned));
    }
    arm(cpu);
}

/// Keeps the tree of a bridge, or makes another one if its settings or ports are others.
fn keep(cpu: &mut Cpu, tables: &Tables, bridge: IfIndex, id: BridgeId, settings: Settings) {
    let ports = tables.logical.bridges.ports(bridge).iter();
    let ports = ports.filter_map(|(_, port)| Some((*port, tables.ifnet(*port)?.port?.stp?)));
    let ports: Vec<_> = ports.collect();
    let trees = cpu.trees.get_or_insert_default();
    let is_kept = |owned: &Owned| owned.id == id && owned.settings == settings && owned.ports == ports;
    if !trees.owned.get(&bridge).is_some_and(is_kept) {
        let of_ports: Vec<_> = ports.iter().map(|(_, settings)| *settings).collect();
        let tree = Tree::new(id.mac, settings, &of_ports);
        let new = Owned { tree, id, settings, ports };
        let old = trees.owned.remove(&bridge);
        old.iter().chain([&new]).for_each(|owned| block(cpu, owned));
        cpu.trees.get_or_insert_default().owned.insert(bridge, new);
    }
    step(cpu, bridge, |owned| {
        for (at, (port, _)) in owned.ports.iter().enumerate() {
            owned.tree.enable(at, tables.ifnet(*port).is_some_and(|port| port.up));
        }
    });
}

/// Blocks the ports of a tree on all CPUs.
fn block(cpu: &mut Cpu, owned: &Owned) {
    for (port, _) in &owned.ports {
        tell_all(cpu, Msg::State { port: *port, state: State::Discarding });
    }
}

/// One step of a tree that this CPU owns, and its effects.
fn step(cpu: &mut Cpu, bridge: IfIndex, step: impl FnOnce(&mut Owned)) {
    let Some(owned) = cpu.trees.as_mut().and_then(|trees| trees.owned.get_mut(&bridge)) else { return };
    step(owned);
    let Owned { tree, ports, .. } = owned;
    let index = |at: usize| ports.get(at).map(|(port, _)| *port);
    let effects: Vec<_> = tree
        .effects()
        .filter_map(|effect| {
            let (Effect::Send(at, _) | Effect::State(at, _) | Effect::Flush(at)) = effect;
            Some((index(at)?, effect))
        })
        .collect();
    for (port, effect) in effects {
        match effect {
            Effect::Send(_, bpdu) => output(cpu, port, bpdu),
            Effect::State(_, state) => tell_all(cpu, Msg::State { port, state }),
            Effect::Flush(_) => {
                cpu.count(Count::StpFlushes);
                fdb::flush_port(cpu, bridge, port);
                snoop_io::topology_changed(cpu, bridge);
            }
        }
    }
}

/// Sends a unit by a port. Without a free buffer the next one follows within the hello time.
fn output(cpu: &mut Cpu, port: IfIndex, bpdu: Bpdu) {
    let Some(ifnet) = cpu.tables.ifnet(port) else { return };
    let (mut unit, src) = ([0; MIN_FRAME_LEN - HEADER_LEN], ifnet.mac);
    let Ok(len) = bpdu.emit(&mut unit) else { return };
    // A frame of 802.3 says how long it is, in place of a type.
    let ethertype = EtherType(u16::try_from(len).unwrap_or_default());
    let Some(mut pkt) = cpu.pool.take() else { return cpu.count(Count::BpdusNoBuffer) };
    cpu.count(Count::BpdusSent);
    pkt.outif = port;
    pkt.flags.set(Flags::LOCAL.with(Flags::PRIORITY));
    let header = Header { dst: bpdu::GROUP, src, ethertype }.to_bytes();
    let written = pkt.append(unit.len()).map(|bytes| bytes.copy_from_slice(&unit));
    if written.and_then(|()| pkt.prepend_array(&header)).is_err() {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
    ifq::output(cpu, pkt);
}

/// Returns the status of the trees that this CPU owns. All CPUs together have those of the stack.
#[must_use]
pub fn status(cpu: &Cpu) -> Vec<Status> {
    let owned = cpu.trees.iter().flat_map(|trees| &trees.owned);
    let status = |(bridge, Owned { tree, ports, .. }): (&IfIndex, &Owned)| {
        let (root, cost, root_port) = tree.root();
        let port = |(at, (port, _)): (usize, &(IfIndex, PortSettings))| Some((*port, tree.port(at)?));
        Status {
            bridge: *bridge,
            id: tree.id(),
            root,
            cost,
            root_port: root_port.and_then(|at| ports.get(at)).map(|(port, _)| *port),
            ports: ports.iter().enumerate().filter_map(port).collect(),
        }
    };
    owned.map(status).collect()
}

const fn stp_of(kind: Kind) -> Option<Settings> {
    if let Kind::Bridge(bridge) = kind { bridge.stp } else { None }
}

fn tell(cpu: &mut Cpu, to: CpuId, msg: Msg) {
    if to == cpu.id { message(cpu, msg) } else { cpu.peers.send(to, crate::turn::msg::Msg::Stp(msg)) }
}

fn tell_all(cpu: &mut Cpu, msg: Msg) {
    for other in (0..cpu.placement.cpus()).map(CpuId) {
        tell(cpu, other, msg);
    }
}

#[cfg(test)]
mod tests;
