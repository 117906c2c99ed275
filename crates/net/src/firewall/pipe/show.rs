//! Status of pipes for users.

use super::key::Key;
use super::queue::Count;

/// A pipe, or that of one flow of it, as it is on one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeState {
    /// Its number.
    pub number: u16,
    /// Flow key of its packets, if each flow has a pipe of its own.
    pub key: Key,
    /// Bit/s; 0 for no limit.
    pub bandwidth: u64,
    /// Packets in the delay line, or being sent.
    pub flying: usize,
    /// The queues that lead to it; its own is the first.
    pub queues: Vec<QueueState>,
}

/// A queue with the pipe that it leads to, as a page has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The pipe's number.
    pub pipe: u16,
    /// Flow key of the pipe's packets, if each flow has a pipe of its own.
    pub flow: Key,
    /// Packets in the pipe's delay line, or being sent: with the pipe's own queue alone.
    pub flying: usize,
    /// The queue.
    pub queue: QueueState,
}

/// Totals of a pipe itself, or of a queue, on one CPU: its flows together, removed ones among
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// The number of the queue; 0 for the pipe itself.
    pub queue: u16,
    /// The number of the pipe; of a queue 0.
    pub pipe: u16,
    /// Counters.
    pub count: Count,
    /// Packets that wait.
    pub packets: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Flows that have a place of their own.
    pub flows: usize,
}

/// A queue of a pipe, as it is on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// Its number; 0 for what was sent to the pipe itself.
    pub number: u16,
    /// Flow key of its packets, if each flow has a queue of its own.
    pub key: Key,
    /// Its weight.
    pub weight: u32,
    /// Counters.
    pub count: Count,
    /// Packets that wait.
    pub packets: usize,
    /// Their bytes.
    pub bytes: usize,
}
