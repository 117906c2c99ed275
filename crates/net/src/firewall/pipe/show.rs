//! What a person may want to know of pipes.

use super::key::Key;
use super::queue::Count;

/// A pipe, or that of one flow of it, as it is on one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeState {
    /// Its number.
    pub number: u16,
    /// What its packets have in common, if each flow has a pipe of its own.
    pub key: Key,
    /// Bit/s; 0 for no limit.
    pub bandwidth: u64,
    /// Packets in the delay line, or being sent.
    pub flying: usize,
    /// The queues that lead to it; its own is the first.
    pub queues: Vec<QueueState>,
}

/// A queue of a pipe, as it is on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// Its number; 0 for what was sent to the pipe itself.
    pub number: u16,
    /// What its packets have in common, if each flow has a queue of its own.
    pub key: Key,
    /// Its weight.
    pub weight: u32,
    /// What has gone through it.
    pub count: Count,
    /// Packets that wait.
    pub packets: usize,
    /// Their bytes.
    pub bytes: usize,
}
