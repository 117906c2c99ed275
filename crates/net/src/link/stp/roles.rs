//! The port role selection machine.

use super::{Info, InfoIs, Port, Role, SECOND, Tree, bridge_times};
use wire::bpdu::{Bpdu, Config, Role as Said, Times, Vector};

impl Tree {
    /// Port role selection (§17.28): whether there was something to select.
    pub(super) fn select_roles(&mut self) -> bool {
        if !self.ports.iter().any(|port| port.reselect) {
            return false;
        }
        self.ports.iter_mut().for_each(|port| port.reselect = false);
        self.find_root();
        self.assign_roles();
        self.ports.iter_mut().for_each(|port| port.selected = true);
        true
    }

    /// `updtRolesTree` a to d (§17.21.25): the best of what ports have heard, and of being the root itself.
    fn find_root(&mut self) {
        let own = Vector { root: self.id, cost: 0, bridge: self.id, port: 0 };
        let mut best = (own, 0);
        (self.root_port, self.root_times) = (None, bridge_times(&self.settings));
        for (at, port) in self.ports.iter().enumerate() {
            if port.info_is != InfoIs::Received || port.port_priority.bridge.mac == self.id.mac {
                continue;
            }
            let cost = port.port_priority.cost.saturating_add(port.settings.cost);
            let path = (Vector { cost, ..port.port_priority }, port.id());
            if path < best {
                best = path;
                let message_age = port.port_times.message_age.saturating_add(SECOND);
                (self.root_port, self.root_times) = (Some(at), Times { message_age, ..port.port_times });
            }
        }
        self.root_priority = best.0;
    }

    /// `updtRolesTree` e to l: what each port would say, and its role.
    fn assign_roles(&mut self) {
        let hello = bridge_times(&self.settings).hello;
        let Self { ports, root_priority, root_times, root_port, id, .. } = self;
        for (at, port) in ports.iter_mut().enumerate() {
            port.designated_priority = Vector { bridge: *id, port: port.id(), ..*root_priority };
            port.designated_times = Times { hello, ..*root_times };
            let is_better = port.designated_priority < port.port_priority;
            (port.selected_role, port.updt_info) = match port.info_is {
                InfoIs::Disabled => (Role::Disabled, port.updt_info),
                InfoIs::Aged => (Role::Designated, true),
                InfoIs::Mine => {
                    let is_same = port.port_priority == port.designated_priority
                        && port.port_times == port.designated_times;
                    (Role::Designated, port.updt_info || !is_same)
                }
                InfoIs::Received if *root_port == Some(at) => (Role::Root, false),
                InfoIs::Received if is_better => (Role::Designated, true),
                InfoIs::Received if port.port_priority.bridge.mac == id.mac => (Role::Backup, false),
                InfoIs::Received => (Role::Alternate, false),
            };
        }
    }
}

impl Port {
    /// `rcvInfo` (§17.21.8).
    pub(super) fn rcv_info(&mut self, bpdu: &Bpdu) -> Info {
        let Some((config, said)) = message(bpdu) else {
            self.rcvd_tcn = true;
            return Info::Other;
        };
        let (msg, own) = (config.vector, self.port_priority);
        match said {
            Said::Designated => {
                let is_of_same = msg.bridge.mac == own.bridge.mac && number(msg.port) == number(own.port);
                if msg < own || is_of_same && msg != own || msg == own && times(config) != self.port_times {
                    Info::SuperiorDesignated
                } else if msg == own {
                    Info::RepeatedDesignated
                } else {
                    Info::InferiorDesignated
                }
            }
            Said::Root | Said::AlternateOrBackup if msg >= own => Info::InferiorRootAlternate,
            _ => Info::Other,
        }
    }
}

/// The content of a unit and its role, which is that of a designated port in a configuration unit. `None` of a notification.
pub(super) const fn message(bpdu: &Bpdu) -> Option<(&Config, Said)> {
    match bpdu {
        Bpdu::Tcn => None,
        Bpdu::Config(config) => Some((config, Said::Designated)),
        Bpdu::Rst(config) => Some((config, config.flags.role())),
    }
}

/// `msgTimes`: the hello time is at least a second.
pub(super) fn times(config: &Config) -> Times {
    Times { hello: config.times.hello.max(SECOND), ..config.times }
}

const fn number(port: u16) -> u16 {
    port & 0x0fff
}
