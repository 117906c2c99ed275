//! The rapid spanning tree protocol, as a function of units, seconds and the state of ports.
//!
//! A [`Tree`] is one bridge's part in it. Its owner says which ports are up, hands over the units that they receive and
//! tells when a second has passed; the tree answers with [`Effect`]s: units to send, states of ports, addresses to forget.
//! Names of variables, machines and procedures are those of the standard, so that both can be read side by side.
//!
//! # Spec
//! IEEE 802.1D-2004 clause 17.

mod machines;
mod roles;
mod transitions;

use wire::bpdu::{Bpdu, BridgeId, Config, Flags, Role as Said, Times, Vector};

/// Ticks of a second in the timer values of units.
const SECOND: u16 = 256;
/// `MigrateTime`, seconds (table 17-1).
const MIGRATE_TIME: u16 = 3;
/// Rounds of the machines in one step at the most; they need a few for each port.
const ROUNDS_MAX: usize = 1000;

/// The settings of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its priority, a multiple of 4096.
    pub priority: u16,
    /// It speaks STP alone.
    pub is_stp: bool,
    /// `BridgeHelloTime`, seconds.
    pub hello: u8,
    /// `BridgeMaxAge`, seconds.
    pub max_age: u8,
    /// `BridgeForwardDelay`, seconds.
    pub forward_delay: u8,
    /// `TransmitHoldCount`.
    pub hold_count: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self { priority: 0x8000, is_stp: false, hello: 2, max_age: 20, forward_delay: 15, hold_count: 6 }
    }
}

impl Settings {
    /// Whether the times fit each other: information must reach the far end of the tree before ports forward.
    ///
    /// # Spec
    /// IEEE 802.1D-2004 §17.14.
    #[must_use]
    pub const fn are_consistent(&self) -> bool {
        let (hello, max_age, delay) = (self.hello as u16, self.max_age as u16, self.forward_delay as u16);
        hello >= 1 && delay >= 1 && 2 * (delay - 1) >= max_age && max_age >= 2 * (hello + 1)
    }
}

/// The settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Its priority, a multiple of 16.
    pub priority: u8,
    /// Cost of the path over it.
    pub cost: u32,
    /// No bridge is behind it.
    pub is_edge: bool,
    /// Whether it becomes an edge port by itself where no bridge is heard.
    pub may_be_edge: bool,
    /// Exactly one other bridge can be behind it.
    pub is_point_to_point: bool,
}

/// Path cost of a link of 1 Gb/s (table 17-3).
pub const COST: u32 = 20_000;

impl Default for PortSettings {
    fn default() -> Self {
        Self { priority: 0x80, cost: COST, is_edge: false, may_be_edge: true, is_point_to_point: true }
    }
}

/// The role of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It is down.
    #[default]
    Disabled,
    /// It leads to the root.
    Root,
    /// The bridge is the best one on its link.
    Designated,
    /// Another way to the root.
    Alternate,
    /// Another port of this bridge is designated on its link.
    Backup,
}

/// The state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Frames are neither forwarded nor learnt from.
    #[default]
    Discarding,
    /// Sources of frames are learnt, and frames are not forwarded.
    Learning,
    /// Frames are forwarded.
    Forwarding,
}

/// An effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a unit by a port.
    Send(usize, Bpdu),
    /// A port is in this state from now on.
    State(usize, State),
    /// Forget the stations behind a port.
    Flush(usize),
}

/// The status of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Its role.
    pub role: Role,
    /// Its state.
    pub state: State,
    /// Its own identifier.
    pub id: u16,
    /// Cost of the path over it.
    pub cost: u32,
    /// The best information on its link.
    pub designated: Vector,
    /// Whether it is an edge port now.
    pub is_edge: bool,
    /// Whether one other bridge can be behind it.
    pub is_point_to_point: bool,
    /// Whether it speaks the rapid protocol: its peer does, or has not been heard.
    pub is_rapid: bool,
}

/// Where a port's information is from (`infoIs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InfoIs {
    #[default]
    Disabled,
    Aged,
    Mine,
    Received,
}

/// `rcvInfo`: what a unit is to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Info {
    SuperiorDesignated,
    RepeatedDesignated,
    InferiorDesignated,
    InferiorRootAlternate,
    Other,
}

/// State of the port protocol migration machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Migration {
    #[default]
    CheckingRstp,
    SelectingStp,
    Sensing,
}

/// State of the port information machine between two units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Information {
    #[default]
    Disabled,
    Aged,
    Current,
}

/// State of the topology change machine between two events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Change {
    #[default]
    Inactive,
    Learning,
    Active,
}

/// The variables of a port (§17.19), and the states of its machines.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    settings: PortSettings,
    number: u16,
    port_enabled: bool,
    // Timers (§17.17), seconds.
    edge_delay_while: u16,
    fd_while: u16,
    hello_when: u16,
    mdelay_while: u16,
    rb_while: u16,
    rcvd_info_while: u16,
    rr_while: u16,
    tc_while: u16,
    tx_count: u8,
    agree: bool,
    agreed: bool,
    designated_priority: Vector,
    designated_times: Times,
    disputed: bool,
    forward: bool,
    forwarding: bool,
    info_is: InfoIs,
    learn: bool,
    learning: bool,
    msg: Option<Bpdu>,
    new_info: bool,
    oper_edge: bool,
    port_priority: Vector,
    port_times: Times,
    proposed: bool,
    proposing: bool,
    rcvd_rstp: bool,
    rcvd_stp: bool,
    rcvd_tc: bool,
    rcvd_tc_ack: bool,
    rcvd_tcn: bool,
    re_root: bool,
    reselect: bool,
    role: Role,
    selected: bool,
    selected_role: Role,
    send_rstp: bool,
    sync: bool,
    synced: bool,
    tc_ack: bool,
    tc_prop: bool,
    updt_info: bool,
    migration: Migration,
    information: Information,
    change: Change,
}

/// One bridge's part in the spanning tree.
#[derive(Clone, Debug)]
pub struct Tree {
    id: BridgeId,
    settings: Settings,
    ports: Vec<Port>,
    root_priority: Vector,
    root_times: Times,
    root_port: Option<usize>,
    effects: Vec<Effect>,
}

impl Tree {
    /// A bridge with this address, whose ports are all down.
    #[must_use]
    pub fn new(mac: wire::Mac, settings: Settings, ports: &[PortSettings]) -> Self {
        let id = BridgeId { priority: settings.priority & 0xf000, mac };
        let root_priority = Vector { root: id, cost: 0, bridge: id, port: 0 };
        let mut tree = Self {
            id,
            settings,
            ports: Vec::new(),
            root_priority,
            root_times: bridge_times(&settings),
            root_port: None,
            effects: Vec::new(),
        };
        for (settings, number) in ports.iter().zip(1..) {
            tree.ports.push(Port::new(*settings, number, &tree.settings));
        }
        tree.run();
        tree
    }

    /// A port has come up, or has gone down.
    pub fn enable(&mut self, port: usize, is_up: bool) {
        if let Some(port) = self.ports.get_mut(port).filter(|port| port.port_enabled != is_up) {
            port.port_enabled = is_up;
            if is_up {
                port.oper_edge = port.settings.is_edge;
            }
            self.run();
        }
    }

    /// Takes a unit that a port has received. What is no valid unit for it is ignored: its own, and one that is too old.
    pub fn receive(&mut self, at: usize, bpdu: Bpdu) {
        let own = self.id;
        let Some(port) = self.ports.get_mut(at).filter(|port| port.port_enabled) else { return };
        let is_valid = match &bpdu {
            Bpdu::Config(config) => {
                let is_own = config.vector.bridge == own && config.vector.port == port.id();
                config.times.message_age < config.times.max_age && !is_own
            }
            Bpdu::Rst(_) | Bpdu::Tcn => true,
        };
        if !is_valid {
            return;
        }
        // The port receive machine: RECEIVE.
        match bpdu {
            Bpdu::Rst(_) => port.rcvd_rstp = true,
            Bpdu::Config(_) | Bpdu::Tcn => port.rcvd_stp = true,
        }
        port.oper_edge = false;
        port.edge_delay_while = MIGRATE_TIME;
        port.msg = Some(bpdu);
        self.run();
    }

    /// A second has passed: the port timers machine.
    pub fn tick(&mut self) {
        for port in &mut self.ports {
            let timers = [
                &mut port.edge_delay_while,
                &mut port.fd_while,
                &mut port.hello_when,
                &mut port.mdelay_while,
                &mut port.rb_while,
                &mut port.rcvd_info_while,
                &mut port.rr_while,
                &mut port.tc_while,
            ];
            for timer in timers {
                *timer = timer.saturating_sub(1);
            }
            port.tx_count = port.tx_count.saturating_sub(1);
        }
        self.run();
    }

    /// Takes out what steps have asked for, in its order.
    pub fn effects(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.effects.drain(..)
    }

    /// Returns the root of the tree, the cost of the path to it, and the port that leads there.
    #[must_use]
    pub const fn root(&self) -> (BridgeId, u32, Option<usize>) {
        (self.root_priority.root, self.root_priority.cost, self.root_port)
    }

    /// Returns its own identifier.
    #[must_use]
    pub const fn id(&self) -> BridgeId {
        self.id
    }

    /// Returns what is known of a port.
    #[must_use]
    pub fn port(&self, at: usize) -> Option<PortStatus> {
        let port = self.ports.get(at)?;
        Some(PortStatus {
            role: port.role,
            state: port.state(),
            id: port.id(),
            cost: port.settings.cost,
            designated: port.port_priority,
            is_edge: port.oper_edge,
            is_point_to_point: port.settings.is_point_to_point,
            is_rapid: port.send_rstp,
        })
    }

    /// Lets the machines run until none of them moves.
    fn run(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut moves = self.select_roles();
            for at in 0..self.ports.len() {
                moves |= self.migrate(at) | self.inform(at) | self.transit(at) | self.settle_state(at);
                moves |= self.change_topology(at) | self.transmit(at);
            }
            if !moves {
                return;
            }
        }
        debug_assert!(false, "the machines come to rest");
    }

    const fn is_rapid(&self) -> bool {
        !self.settings.is_stp
    }
}

impl Port {
    fn new(settings: PortSettings, number: u16, of: &Settings) -> Self {
        Self {
            settings,
            number,
            oper_edge: settings.is_edge,
            send_rstp: !of.is_stp,
            new_info: true,
            reselect: true,
            edge_delay_while: MIGRATE_TIME,
            mdelay_while: MIGRATE_TIME,
            // INIT_PORT of the port role transitions machine.
            sync: true,
            re_root: true,
            rr_while: of.forward_delay.into(),
            fd_while: of.max_age.into(),
            ..Self::default()
        }
    }

    /// Its identifier: priority, and number.
    const fn id(&self) -> u16 {
        ((self.settings.priority & 0xf0) as u16) << 8 | self.number & 0x0fff
    }

    const fn state(&self) -> State {
        match (self.learning, self.forwarding) {
            (_, true) => State::Forwarding,
            (true, false) => State::Learning,
            (false, false) => State::Discarding,
        }
    }

    // The rapid protocol's procedures of §17.20: times in seconds.

    const fn fwd_delay(&self) -> u16 {
        self.designated_times.forward_delay / SECOND
    }

    const fn hello_time(&self) -> u16 {
        let hello = self.designated_times.hello / SECOND;
        if hello == 0 { 1 } else { hello }
    }

    const fn max_age(&self) -> u16 {
        self.designated_times.max_age / SECOND
    }

    /// `forwardDelay`.
    const fn forward_delay(&self) -> u16 {
        if self.send_rstp { self.hello_time() } else { self.fwd_delay() }
    }

    /// `EdgeDelay`.
    const fn edge_delay(&self) -> u16 {
        if self.settings.is_point_to_point { MIGRATE_TIME } else { self.max_age() }
    }
}

const fn bridge_times(settings: &Settings) -> Times {
    Times {
        message_age: 0,
        max_age: settings.max_age as u16 * SECOND,
        hello: settings.hello as u16 * SECOND,
        forward_delay: settings.forward_delay as u16 * SECOND,
    }
}

#[cfg(test)]
mod tests;
