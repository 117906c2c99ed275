//! The machines of a port but that of its role: migration, information, state, topology change, transmission.

use super::roles::{message, times};
use super::*;

impl Tree {
    /// Bridge detection (§17.25), and port protocol migration (§17.24).
    pub(super) fn migrate(&mut self, at: usize) -> bool {
        let is_rapid = self.is_rapid();
        let port = &mut self.ports[at];
        if !port.port_enabled {
            port.edge_delay_while = MIGRATE_TIME;
            (port.rcvd_rstp, port.rcvd_stp, port.msg) = (false, false, None);
            if port.oper_edge != port.settings.is_edge {
                port.oper_edge = port.settings.is_edge;
                return true;
            }
        }
        let hears_no_bridge = port.edge_delay_while == 0 && port.settings.may_be_edge;
        if !port.oper_edge && port.port_enabled && hears_no_bridge && port.send_rstp && port.proposing {
            port.oper_edge = true;
            return true;
        }
        let next = match port.migration {
            Migration::CheckingRstp if !port.port_enabled => {
                port.mdelay_while = MIGRATE_TIME;
                return false;
            }
            Migration::CheckingRstp if port.mdelay_while == 0 => Migration::Sensing,
            Migration::SelectingStp if port.mdelay_while == 0 || !port.port_enabled => Migration::Sensing,
            Migration::Sensing if !port.port_enabled => Migration::CheckingRstp,
            Migration::Sensing if is_rapid && !port.send_rstp && port.rcvd_rstp => Migration::CheckingRstp,
            Migration::Sensing if port.send_rstp && port.rcvd_stp => Migration::SelectingStp,
            _ => return false,
        };
        port.migration = next;
        match next {
            Migration::CheckingRstp => (port.send_rstp, port.mdelay_while) = (is_rapid, MIGRATE_TIME),
            Migration::SelectingStp => (port.send_rstp, port.mdelay_while) = (false, MIGRATE_TIME),
            Migration::Sensing => (port.rcvd_rstp, port.rcvd_stp) = (false, false),
        }
        true
    }

    /// Port information (§17.27).
    pub(super) fn inform(&mut self, at: usize) -> bool {
        let is_rapid = self.is_rapid();
        let port = &mut self.ports[at];
        if !port.port_enabled && port.info_is != InfoIs::Disabled {
            (port.proposing, port.proposed, port.agree, port.agreed) = (false, false, false, false);
            (port.msg, port.rcvd_info_while) = (None, 0);
            (port.info_is, port.reselect, port.selected) = (InfoIs::Disabled, true, false);
            port.information = Information::Disabled;
            return true;
        }
        match port.information {
            Information::Disabled => {
                port.msg = None;
                port.port_enabled && port.age()
            }
            _ if port.selected && port.updt_info => port.update(),
            Information::Aged => false,
            Information::Current if port.updt_info => false,
            Information::Current => match port.msg.take() {
                Some(bpdu) => port.hear(&bpdu, is_rapid),
                None => port.info_is == InfoIs::Received && port.rcvd_info_while == 0 && port.age(),
            },
        }
    }

    /// Port state transition (§17.30).
    pub(super) fn settle_state(&mut self, at: usize) -> bool {
        let port = &mut self.ports[at];
        let before = port.state();
        (port.learning, port.forwarding) = match (before, port.learn, port.forward) {
            (State::Discarding, true, _) => (true, false),
            (State::Learning, true, true) => (true, true),
            (State::Learning, false, _) | (State::Forwarding, _, false) => (false, false),
            _ => return false,
        };
        let now = port.state();
        self.effects.push(Effect::State(at, now));
        true
    }

    /// Topology change (§17.31). What it flushes is flushed at once.
    pub(super) fn change_topology(&mut self, at: usize) -> bool {
        let (root_times, port) = (self.root_times, &mut self.ports[at]);
        let is_active_role = matches!(port.role, Role::Root | Role::Designated);
        let hears = port.rcvd_tc || port.rcvd_tcn || port.rcvd_tc_ack || port.tc_prop;
        match port.change {
            Change::Inactive if port.learn => {
                port.change = Change::Learning;
                port.forget_changes();
            }
            Change::Learning if is_active_role && port.forward && !port.oper_edge => {
                port.change = Change::Active;
                port.new_tc_while(&root_times);
                port.new_info = true;
                self.set_tc_prop(at);
            }
            Change::Learning if hears => port.forget_changes(),
            Change::Learning if !is_active_role && !port.learn && !port.learning => {
                port.change = Change::Inactive;
                (port.tc_while, port.tc_ack) = (0, false);
                self.effects.push(Effect::Flush(at));
            }
            Change::Active if !is_active_role || port.oper_edge => {
                port.change = Change::Learning;
                port.forget_changes();
            }
            Change::Active if port.rcvd_tcn || port.rcvd_tc => {
                if port.rcvd_tcn {
                    port.new_tc_while(&root_times);
                }
                // The acknowledgment is of a notification.
                port.tc_ack |= port.rcvd_tcn && port.role == Role::Designated;
                (port.rcvd_tc, port.rcvd_tcn) = (false, false);
                self.set_tc_prop(at);
            }
            Change::Active if port.tc_prop => {
                port.new_tc_while(&root_times);
                port.tc_prop = false;
                self.effects.push(Effect::Flush(at));
            }
            Change::Active if port.rcvd_tc_ack => (port.tc_while, port.rcvd_tc_ack) = (0, false),
            _ => return false,
        }
        true
    }

    /// `setTcPropTree`.
    fn set_tc_prop(&mut self, by: usize) {
        self.ports
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| *at != by)
            .for_each(|(_, port)| port.tc_prop = true);
    }

    /// Port transmit (§17.26).
    pub(super) fn transmit(&mut self, at: usize) -> bool {
        let hold_count = self.settings.hold_count;
        let port = &mut self.ports[at];
        if !port.selected || port.updt_info {
            return false;
        }
        if port.hello_when == 0 {
            port.hello_when = port.hello_time();
            let is_due = port.role == Role::Designated || port.role == Role::Root && port.tc_while != 0;
            port.new_info |= is_due;
            return true;
        }
        let bpdu = match port.role {
            _ if !port.new_info || port.tx_count >= hold_count || !port.port_enabled => return false,
            _ if port.send_rstp => Bpdu::Rst(port.rst()),
            Role::Designated => Bpdu::Config(port.config()),
            Role::Root => Bpdu::Tcn,
            _ => return false,
        };
        (port.new_info, port.hello_when) = (false, port.hello_time());
        port.tx_count += 1;
        if !matches!(bpdu, Bpdu::Tcn) {
            port.tc_ack = false;
        }
        self.effects.push(Effect::Send(at, bpdu));
        true
    }
}

impl Port {
    /// AGED of the port information machine.
    const fn age(&mut self) -> bool {
        (self.info_is, self.reselect, self.selected) = (InfoIs::Aged, true, false);
        self.information = Information::Aged;
        true
    }

    /// UPDATE of the port information machine.
    fn update(&mut self) -> bool {
        (self.proposing, self.proposed) = (false, false);
        // `betterorsameinfo(Mine)`.
        let is_kept = self.info_is == InfoIs::Mine && self.port_priority <= self.designated_priority;
        self.agreed &= is_kept;
        self.synced &= self.agreed;
        (self.port_priority, self.port_times) = (self.designated_priority, self.designated_times);
        (self.updt_info, self.info_is, self.new_info) = (false, InfoIs::Mine, true);
        self.information = Information::Current;
        true
    }

    /// RECEIVE of the port information machine, and what follows.
    fn hear(&mut self, bpdu: &Bpdu, is_rapid: bool) -> bool {
        let info = self.rcv_info(bpdu);
        let Some((config, _)) = message(bpdu) else { return true };
        let is_rst = matches!(bpdu, Bpdu::Rst(_));
        let has = |flag| is_rst && config.flags.has(flag);
        match info {
            Info::SuperiorDesignated => {
                (self.agreed, self.proposing) = (false, false);
                self.record_proposal(has(Flags::PROPOSAL));
                self.set_tc_flags(config.flags);
                // `betterorsameinfo(Received)`.
                self.agree &= self.info_is == InfoIs::Received && config.vector <= self.port_priority;
                (self.port_priority, self.port_times) = (config.vector, times(config));
                self.updt_rcvd_info_while();
                (self.info_is, self.reselect, self.selected) = (InfoIs::Received, true, false);
            }
            Info::RepeatedDesignated => {
                self.record_proposal(has(Flags::PROPOSAL));
                self.set_tc_flags(config.flags);
                self.updt_rcvd_info_while();
            }
            Info::InferiorDesignated => {
                // `recordDispute`.
                if has(Flags::LEARNING) {
                    (self.disputed, self.agreed) = (true, false);
                }
            }
            Info::InferiorRootAlternate => {
                // `recordAgreement`.
                let agrees = is_rapid && self.settings.is_point_to_point && has(Flags::AGREEMENT);
                self.agreed = agrees;
                self.proposing &= !agrees;
                self.set_tc_flags(config.flags);
            }
            Info::Other => {}
        }
        true
    }

    const fn record_proposal(&mut self, is_proposal: bool) {
        self.proposed |= is_proposal && self.settings.is_point_to_point;
    }

    const fn set_tc_flags(&mut self, flags: Flags) {
        self.rcvd_tc |= flags.has(Flags::TC);
        self.rcvd_tc_ack |= flags.has(Flags::TCA);
    }

    /// `updtRcvdInfoWhile` (§17.21.23): three hello times, if the information is not too old.
    const fn updt_rcvd_info_while(&mut self) {
        let age = self.port_times.message_age.saturating_add(SECOND);
        let hello = self.port_times.hello / SECOND;
        self.rcvd_info_while = if age <= self.port_times.max_age { 3 * hello } else { 0 };
    }

    const fn forget_changes(&mut self) {
        (self.rcvd_tc, self.rcvd_tcn, self.rcvd_tc_ack, self.tc_prop) = (false, false, false, false);
    }

    /// `newTcWhile` (§17.21.7).
    const fn new_tc_while(&mut self, root_times: &Times) {
        if self.tc_while != 0 {
            return;
        }
        if self.send_rstp {
            self.tc_while = self.hello_time() + 1;
            self.new_info = true;
        } else {
            self.tc_while = root_times.max_age / SECOND + root_times.forward_delay / SECOND;
        }
    }

    /// `txRstp` (§17.21.20).
    fn rst(&self) -> Config {
        let said = match self.role {
            Role::Disabled => Said::Unknown,
            Role::Root => Said::Root,
            Role::Designated => Said::Designated,
            Role::Alternate | Role::Backup => Said::AlternateOrBackup,
        };
        let flags = [
            (self.agree, Flags::AGREEMENT),
            (self.proposing, Flags::PROPOSAL),
            (self.tc_while != 0, Flags::TC),
            (self.learning, Flags::LEARNING),
            (self.forwarding, Flags::FORWARDING),
        ];
        self.said(&flags, said)
    }

    /// `txConfig` (§17.21.19).
    fn config(&self) -> Config {
        self.said(&[(self.tc_while != 0, Flags::TC), (self.tc_ack, Flags::TCA)], Said::Unknown)
    }

    fn said(&self, flags: &[(bool, u8)], role: Said) -> Config {
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        Config {
            flags: Flags(flags).with_role(role),
            vector: self.designated_priority,
            times: self.designated_times,
        }
    }
}
