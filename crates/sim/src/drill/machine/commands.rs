//! Commands that are meant for this machine, and not for the one that it runs on.

use super::super::linux;
use super::super::orders::{self, Subject};
use super::super::shell::{self, Order};
use super::{Handle, Machine};

impl Machine {
    /// Does what a script's command says, one on each line, as far as [`run`](crate::drill::run) knows it: `None` if it knows
    /// no line of it. Until its address is used, the machine becomes another one, if scripts for Linux want it to.
    pub fn command(&mut self, text: &str) -> Option<Result<(), String>> {
        let orders = match shell::read_all(text) {
            Ok(orders) => orders,
            Err(wrong) => return shell::knows_some(text).then_some(Err(wrong)),
        };
        self.set_up(orders.contains(&Order::Linux), linux::cuts_no_more(text));
        Some(orders.into_iter().try_for_each(|order| self.obey(order)))
    }

    fn set_up(&mut self, is_linux: bool, cuts_no_more: bool) {
        let scene = &mut self.scene;
        let changes = is_linux && !scene.is_linux || cuts_no_more && scene.cuts;
        if changes && !self.is_settled {
            scene.is_linux |= is_linux;
            scene.cuts &= !cuts_no_more;
            self.rebuild();
        }
    }

    fn obey(&mut self, order: Order) -> Result<(), String> {
        let (local, remote) = (self.scene.local(), self.scene.remote());
        let Self { lab, sysctls, sockets, .. } = self;
        let streams = sockets.values().filter_map(|handle| match handle {
            Handle::Stream(socket) => Some(&**socket),
            Handle::Datagram(_) => None,
        });
        orders::obey(order, Subject { lab, sysctls, local, remote }, streams)
    }
}
