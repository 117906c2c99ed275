//! Programs on netisrs, for bodies that block: what a body wants is a job that its program does on its own CPU, and who
//! waits is woken by what the program is told, and by nothing else.

mod agent;
mod datagrams;
mod streams;

use crate::face::Stacks;

pub(crate) use self::agent::Agents;

/// Two stacks, with programs on all CPUs of both.
pub(crate) struct Netisrs {
    /// Whose addresses are theirs.
    stacks: Stacks,
    server: Agents,
    client: Agents,
}

impl Netisrs {
    pub(crate) fn new() -> Self {
        let stacks = Stacks::new();
        let [server, client] = [0, 1].map(|at: usize| Agents::begin(&stacks.stacks[at]));
        Self { stacks, server, client }
    }
}
