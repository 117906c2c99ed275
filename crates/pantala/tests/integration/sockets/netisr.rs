//! Applications on netisrs, for bodies that block: a body's request is a job that its application does on its own CPU, and a waiting
//! body is woken by the application's events, and by nothing else.

mod agent;
mod datagrams;
mod streams;

use crate::sockets::socket_api::Stacks;

pub(crate) use self::agent::Agents;
pub(crate) use self::datagrams::Dgram;
pub(crate) use self::streams::{Listener, Stream};

/// Two stacks, with programs on all CPUs of both.
pub(crate) struct Netisrs {
    /// The stacks with their addresses.
    pub(crate) stacks: Stacks,
    pub(crate) server: Agents,
    pub(crate) client: Agents,
}

impl Netisrs {
    pub(crate) fn new() -> Self {
        Self::of(Stacks::new())
    }

    pub(crate) fn of(stacks: Stacks) -> Self {
        let [server, client] = [0, 1].map(|at: usize| Agents::begin(&stacks.stacks[at]));
        Self { stacks, server, client }
    }
}
