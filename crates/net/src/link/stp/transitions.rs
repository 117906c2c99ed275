//! The port role transitions machine (§17.29).

use super::{Port, Role, Tree};

/// Conditions on all ports at once.
#[derive(Clone, Copy)]
struct All {
    /// `allSynced`.
    synced: bool,
    /// `reRooted`: no other port was the root port lately.
    re_rooted: bool,
    is_rapid: bool,
}

/// The result of a transition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The machine rests.
    Rests,
    /// It has moved.
    Moved,
    /// `setSyncTree`.
    SyncTree,
    /// `setReRootTree`.
    ReRootTree,
}

impl Tree {
    /// One transition of a port's machine, if there is one.
    pub(super) fn transit(&mut self, at: usize) -> bool {
        let is_synced = |port: &Port| {
            port.selected && port.role == port.selected_role && (port.synced || port.role == Role::Root)
        };
        let others = self.ports.iter().enumerate().filter(|(other, _)| *other != at);
        let all = All {
            synced: self.ports.iter().all(is_synced),
            re_rooted: others.map(|(_, port)| port.rr_while).all(|left| left == 0),
            is_rapid: self.is_rapid(),
        };
        let port = &mut self.ports[at];
        if !port.selected || port.updt_info {
            return false;
        }
        let step = match port.selected_role {
            selected if port.role != selected => port.take_role(selected),
            Role::Disabled => port.rest_disabled(),
            Role::Root => port.go_on_as_root(all),
            Role::Designated => port.go_on_as_designated(),
            Role::Alternate | Role::Backup => port.go_on_as_alternate(all),
        };
        match step {
            Step::Rests => return false,
            Step::Moved => {}
            Step::SyncTree => self.ports.iter_mut().for_each(|port| port.sync = true),
            Step::ReRootTree => self.ports.iter_mut().for_each(|port| port.re_root = true),
        }
        true
    }
}

impl Port {
    /// `DISABLE_PORT`, `ROOT_PORT`, `DESIGNATED_PORT`, `BLOCK_PORT`.
    const fn take_role(&mut self, role: Role) -> Step {
        match role {
            Role::Root => self.rr_while = self.fwd_delay(),
            Role::Designated => {}
            Role::Disabled | Role::Alternate | Role::Backup => (self.learn, self.forward) = (false, false),
        }
        self.role = role;
        Step::Moved
    }

    /// `DISABLED_PORT`.
    fn rest_disabled(&mut self) -> Step {
        if self.learning || self.forwarding {
            return Step::Rests;
        }
        let is_at_rest = self.fd_while == self.max_age() && !self.sync && !self.re_root && self.synced;
        (self.fd_while, self.synced, self.rr_while) = (self.max_age(), true, 0);
        (self.sync, self.re_root) = (false, false);
        if is_at_rest { Step::Rests } else { Step::Moved }
    }

    fn go_on_as_root(&mut self, all: All) -> Step {
        // ROOT_PORT
        self.rr_while = self.fwd_delay();
        if self.proposed && !self.agree {
            self.proposed = false;
            return Step::SyncTree;
        }
        if all.synced && !self.agree || self.proposed && self.agree {
            (self.proposed, self.sync, self.agree, self.new_info) = (false, false, true, true);
            return Step::Moved;
        }
        if !self.forward && !self.re_root {
            return Step::ReRootTree;
        }
        let may_go_on = self.fd_while == 0 || all.re_rooted && self.rb_while == 0 && all.is_rapid;
        if may_go_on && !self.learn {
            (self.fd_while, self.learn) = (self.forward_delay(), true);
            return Step::Moved;
        }
        if may_go_on && !self.forward {
            (self.fd_while, self.forward) = (0, true);
            return Step::Moved;
        }
        if self.re_root && self.forward {
            self.re_root = false;
            return Step::Moved;
        }
        Step::Rests
    }

    fn go_on_as_designated(&mut self) -> Step {
        if !self.forward && !self.agreed && !self.proposing && !self.oper_edge {
            // DESIGNATED_PROPOSE
            (self.proposing, self.edge_delay_while, self.new_info) = (true, self.edge_delay(), true);
            return Step::Moved;
        }
        let becomes_synced = !self.learning && !self.forwarding || self.agreed || self.oper_edge;
        if becomes_synced && !self.synced || self.sync && self.synced {
            (self.rr_while, self.synced, self.sync) = (0, true, false);
            return Step::Moved;
        }
        if self.rr_while == 0 && self.re_root {
            self.re_root = false;
            return Step::Moved;
        }
        let must_discard = self.sync && !self.synced || self.re_root && self.rr_while != 0 || self.disputed;
        if must_discard && !self.oper_edge && (self.learn || self.forward) {
            (self.learn, self.forward, self.disputed) = (false, false, false);
            self.fd_while = self.forward_delay();
            return Step::Moved;
        }
        let may_go_on = (self.fd_while == 0 || self.agreed || self.oper_edge)
            && (self.rr_while == 0 || !self.re_root)
            && !self.sync;
        if may_go_on && !self.learn {
            (self.learn, self.fd_while) = (true, self.forward_delay());
            return Step::Moved;
        }
        if may_go_on && !self.forward {
            (self.forward, self.fd_while, self.agreed) = (true, 0, self.send_rstp);
            return Step::Moved;
        }
        Step::Rests
    }

    fn go_on_as_alternate(&mut self, all: All) -> Step {
        if self.learning || self.forwarding {
            return Step::Rests;
        }
        if self.proposed && !self.agree {
            self.proposed = false;
            return Step::SyncTree;
        }
        if all.synced && !self.agree || self.proposed && self.agree {
            (self.proposed, self.agree, self.new_info) = (false, true, true);
            return Step::Moved;
        }
        if self.role == Role::Backup {
            self.rb_while = 2 * self.hello_time();
        }
        // ALTERNATE_PORT
        let is_at_rest = !self.sync && !self.re_root && self.synced;
        self.fd_while = self.forward_delay();
        (self.synced, self.rr_while, self.sync, self.re_root) = (true, 0, false, false);
        if is_at_rest { Step::Rests } else { Step::Moved }
    }
}
