//! The configuration of pipes and queues: written by the control thread, read by all CPUs.

use core::hash::Hasher;
use core::time::Duration;
use std::sync::Arc;

use ipfw::command::{self, Aqm, FlowMask, PipeConfig, QueueConfig, QueueLimit, Scheduler};

use super::clock::BANDWIDTH_MAX;
use super::key::Key;
use super::red;
use super::shared_rate::Accounts;
use crate::base::secret::Secret;
use crate::out::ifq::codel;

/// Pipes, and queues, that there may be.
pub const PIPES_MAX: usize = 4096;
/// Packets that wait in a queue if nothing is said, and at the most.
const SLOTS: u32 = 50;
const SLOTS_MAX: u32 = 100;
/// Bytes that wait in a queue at the most.
const BYTES_MAX: u32 = 1 << 20;
/// Buckets for flows: how many if nothing is said, and how many there may be.
const BUCKETS: u32 = 64;
const BUCKETS_MAX: u32 = 65_536;
/// Flows of a pipe or queue for each of its buckets.
const CHAIN_MAX: u32 = 16;
/// Packets and flows of an `fq_codel` at the most.
const FQ_PACKETS_MAX: u32 = 20_480;
const FQ_FLOWS_MAX: u32 = 65_536;
/// The longest delay: what rules can say.
const DELAY_MAX: Duration = Duration::from_millis(ipfw::limit::DELAY_MAX_MS as u64);
/// While no more than this waits, CoDel drops nothing, bytes.
const FULL_PACKET: usize = 1500;

/// Pipes and queues: a snapshot that all CPUs share.
///
/// The control side clones it, changes the clone, and hands that to all CPUs ([`super::Pipes::configure`]); pipes that
/// are not changed stay the same, with their accounts.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Keys flows.
    key: u128,
    pipes: Vec<Arc<Pipe>>,
    queues: Vec<Arc<Queue>>,
    /// By number: the position in `pipes` and one, or 0.
    pipe_at: Vec<u16>,
    /// Position of each queue.
    queue_at: Vec<u16>,
}

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The number is 0.
    Number,
    /// There are [`PIPES_MAX`] already.
    TooMany,
    /// A queue that leads to no pipe.
    NoPipe,
}

/// A pipe.
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    pub(super) number: u16,
    /// Bit/s; 0 for no limit.
    pub(super) bandwidth: u64,
    pub(super) delay: Duration,
    /// Bytes that pass at once after it was idle.
    pub(super) burst: u64,
    /// Whether one CPU does it for all.
    pub(super) is_exact: bool,
    /// Reordering.
    pub(super) reorder: Reorder,
    /// Chance that a packet comes twice, of 2³².
    pub(super) duplicate: u32,
    /// Each flow has a pipe of its own.
    pub(super) flows: Flows,
    pub(super) turns: Turns,
    /// Whether [`Self::turns`] was asked for; else it follows from whether queues lead here.
    is_asked: bool,
    /// The pipe's own queue.
    pub(super) spec: Spec,
    pub(super) accounts: Arc<Accounts>,
}

/// A queue that leads to a pipe.
#[derive(Debug, PartialEq)]
pub(super) struct Queue {
    pub(super) number: u16,
    pub(super) pipe: u16,
    /// Each flow has a queue of its own.
    pub(super) flows: Flows,
    pub(super) spec: Spec,
}

/// The classification of flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flows {
    pub(super) mask: FlowMask,
    /// Whether all packets are of one flow: what is asked of every packet.
    pub(super) is_one: bool,
    /// Flows at the most; more share.
    pub(super) max: usize,
}

/// The scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Turns {
    Fifo,
    Wf2q,
    Rr,
    FqCodel { law: codel::Law, quantum: u32, packets_max: usize, flows: usize, ecn: bool },
}

/// The reordering of packets by holding some back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reorder {
    /// Share, of 2³².
    pub(super) share: u32,
    /// Packets that overtake one at the most, and packets that are held back at once.
    pub(super) by: u32,
}

/// The limits and losses of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spec {
    pub(super) weight: u32,
    pub(super) limit: QueueLimit,
    /// Loss, of 2³².
    pub(super) loss: u32,
    pub(super) is_silent: bool,
    pub(super) control: Control,
}

/// The active queue management.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Control {
    None,
    Red(red::Law),
    Codel { law: codel::Law, ecn: bool },
}

impl Config {
    /// Makes an empty configuration. Knowledge of `key` would allow collisions of flows.
    #[must_use]
    pub fn new(key: u128) -> Self {
        Self { key, ..Self::default() }
    }

    /// Makes a pipe, or gives one another shape. What is not said is as if the pipe were new.
    ///
    /// # Errors
    ///
    /// See [`ConfigError`]; nothing is changed then.
    pub fn set_pipe(&mut self, number: u16, config: &PipeConfig) -> Result<(), ConfigError> {
        let mut pipe = Pipe::of(number, config);
        if let Some(old) = self.pipe(number).filter(|old| old.may_share_accounts(&pipe)) {
            pipe.accounts = Arc::clone(&old.accounts);
        }
        put(&mut self.pipes, &mut self.pipe_at, number, Arc::new(pipe))?;
        self.link();
        Ok(())
    }

    /// Makes a queue, or gives one another shape. The pipe that it leads to may come later; until then packets for
    /// the queue are dropped ([`crate::base::drop::DropReason::PipeGone`]).
    ///
    /// # Errors
    ///
    /// See [`ConfigError`]; nothing is changed then.
    pub fn set_queue(&mut self, number: u16, config: &QueueConfig) -> Result<(), ConfigError> {
        let pipe = config.pipe.ok_or(ConfigError::NoPipe)?;
        let queue = Queue { number, pipe, flows: Flows::of(config), spec: Spec::of(config) };
        put(&mut self.queues, &mut self.queue_at, number, Arc::new(queue))?;
        self.link();
        Ok(())
    }

    /// Ends a pipe or queue; what waits in it is dropped. False if there is none with this number.
    pub fn delete(&mut self, number: u16, is_queue: bool) -> bool {
        let is_gone = if is_queue {
            take(&mut self.queues, &mut self.queue_at, number)
        } else {
            take(&mut self.pipes, &mut self.pipe_at, number)
        };
        self.link();
        is_gone
    }

    /// A pipe takes turns by weight if queues lead to it, unless something else was asked for.
    fn link(&mut self) {
        let mut is_shared = vec![false; self.pipes.len()];
        let led_to = self.queues.iter().filter_map(|queue| position(&self.pipe_at, queue.pipe));
        led_to.for_each(|at| is_shared[at] = true);
        for (pipe, is_shared) in self.pipes.iter_mut().zip(is_shared) {
            let wanted = if is_shared { Turns::Wf2q } else { Turns::Fifo };
            if !pipe.is_asked && pipe.turns != wanted {
                *pipe = Arc::new(Pipe { turns: wanted, ..pipe.copy() });
            }
        }
    }

    /// Returns the same pipes with accounts of their own, each done by the CPU that a packet is on, and without chance.
    pub(in super::super) fn apart(&self) -> Self {
        let apart = |pipe: &Arc<Pipe>| {
            let accounts = if pipe.flows.is_one { 0 } else { pipe.flows.max };
            let accounts = Arc::new(Accounts::new(accounts));
            Arc::new(Pipe { is_exact: false, duplicate: 0, accounts, ..(**pipe).clone() })
        };
        Self { pipes: self.pipes.iter().map(apart).collect(), ..self.clone() }
    }

    /// The pipe of this number.
    pub(super) fn pipe(&self, number: u16) -> Option<&Arc<Pipe>> {
        self.pipe_at(self.pipe_position(number)?)
    }

    /// Where among the pipes the one of this number is.
    pub(super) fn pipe_position(&self, number: u16) -> Option<usize> {
        position(&self.pipe_at, number)
    }

    /// The pipe at a position.
    pub(super) fn pipe_at(&self, position: usize) -> Option<&Arc<Pipe>> {
        self.pipes.get(position)
    }

    /// The queue of this number.
    pub(super) fn queue(&self, number: u16) -> Option<&Arc<Queue>> {
        self.queues.get(position(&self.queue_at, number)?)
    }

    /// Returns the number of pipes.
    pub(super) fn pipes(&self) -> usize {
        self.pipes.len()
    }

    /// Returns a secret hash that is the same on all CPUs: of a pipe, or a queue of a lane, and the
    /// key of a flow.
    pub(super) fn hash(&self, of: (u32, u16), key: &Key) -> u64 {
        let mut hasher = Secret::new(self.key).hasher();
        hasher.write_u64(u64::from(of.0) << 16 | u64::from(of.1));
        // Nearly all have no key, and to write it costs more than all else.
        if *key != Key::default() {
            hasher.write(&key.to_bytes());
        }
        hasher.finish()
    }
}

fn position(positions: &[u16], number: u16) -> Option<usize> {
    usize::from(*positions.get(usize::from(number))?).checked_sub(1)
}

fn put<T>(all: &mut Vec<T>, positions: &mut Vec<u16>, number: u16, new: T) -> Result<(), ConfigError> {
    if number == 0 {
        return Err(ConfigError::Number);
    }
    if let Some(at) = position(positions, number) {
        all[at] = new;
        return Ok(());
    }
    if all.len() >= PIPES_MAX {
        return Err(ConfigError::TooMany);
    }
    all.push(new);
    positions.resize(positions.len().max(usize::from(number) + 1), 0);
    positions[usize::from(number)] = u16::try_from(all.len()).unwrap_or(0);
    Ok(())
}

fn take<T>(all: &mut Vec<T>, positions: &mut [u16], number: u16) -> bool {
    let Some(at) = position(positions, number) else { return false };
    all.remove(at);
    positions[usize::from(number)] = 0;
    for position in positions {
        *position -= u16::from(usize::from(*position) > at);
    }
    true
}

impl Pipe {
    fn of(number: u16, config: &PipeConfig) -> Self {
        let turns = config.scheduler.map_or(Turns::Fifo, Turns::of);
        let mut flows = Flows::of(&config.queue);
        if let Turns::FqCodel { flows: inner, .. } = turns {
            // Flows of flows: all together no more than one of them may have.
            flows.max = flows.max.min(FQ_FLOWS_MAX as usize / inner);
        }
        let accounts = if flows.is_one { 0 } else { flows.max };
        Self {
            number,
            bandwidth: config.bandwidth.unwrap_or(0).min(BANDWIDTH_MAX),
            delay: Duration::from_millis(config.delay_ms.unwrap_or(0).into()).min(DELAY_MAX),
            burst: config.burst.unwrap_or(0),
            is_exact: config.exact,
            reorder: Reorder::of(config.reorder),
            duplicate: config.duplicate.unwrap_or(0),
            flows,
            turns,
            is_asked: config.scheduler.is_some(),
            spec: Spec::of(&config.queue),
            accounts: Arc::new(Accounts::new(accounts)),
        }
    }

    fn copy(&self) -> Self {
        Self { accounts: Arc::clone(&self.accounts), ..*self }
    }

    /// Whether time that was sold for this one counts for another.
    fn may_share_accounts(&self, new: &Self) -> bool {
        self.bandwidth == new.bandwidth && self.flows == new.flows
    }
}

impl Reorder {
    fn of(config: Option<command::Reorder>) -> Self {
        let command::Reorder { share, by } = config.unwrap_or(command::Reorder { share: 0, by: 1 });
        Self { share, by: u32::from(by.clamp(1, ipfw::limit::REORDER_MAX)) }
    }
}

impl Flows {
    fn of(config: &QueueConfig) -> Self {
        let buckets = config.buckets.unwrap_or(BUCKETS).clamp(1, BUCKETS_MAX);
        let is_one = config.mask == FlowMask::default();
        Self { mask: config.mask, is_one, max: (buckets * CHAIN_MAX) as usize }
    }
}

impl Turns {
    fn of(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::Fifo => Self::Fifo,
            Scheduler::Wf2q => Self::Wf2q,
            Scheduler::Rr => Self::Rr,
            Scheduler::FqCodel { target_us, interval_us, quantum, limit, flows, ecn } => Self::FqCodel {
                law: law(target_us, interval_us),
                quantum,
                packets_max: limit.clamp(1, FQ_PACKETS_MAX) as usize,
                flows: flows.clamp(1, FQ_FLOWS_MAX) as usize,
                ecn,
            },
        }
    }
}

impl Spec {
    fn of(config: &QueueConfig) -> Self {
        let limit = match config.limit {
            Some(QueueLimit::Packets(n @ 1..=SLOTS_MAX)) => QueueLimit::Packets(n),
            Some(QueueLimit::Bytes(n)) => QueueLimit::Bytes(n.clamp(1, BYTES_MAX)),
            _ => QueueLimit::Packets(SLOTS),
        };
        Self {
            weight: u32::from(config.weight.unwrap_or(1).clamp(1, 100)),
            limit,
            loss: config.loss.unwrap_or(0),
            is_silent: config.noerror,
            control: config.aqm.as_ref().map_or(Control::None, Control::of),
        }
    }
}

impl Control {
    fn of(aqm: &Aqm) -> Self {
        match *aqm {
            Aqm::Codel { target_us, interval_us, ecn } => {
                Self::Codel { law: law(target_us, interval_us), ecn }
            }
            Aqm::Red { .. } => red::Law::of(aqm).map_or(Self::None, Self::Red),
        }
    }
}

fn law(target_us: u32, interval_us: u32) -> codel::Law {
    let micros = |us: u32| Duration::from_micros(us.into());
    codel::Law { target: micros(target_us), interval: micros(interval_us.max(1)), mtu: FULL_PACKET }
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number => f.write_str("0 is not a number of a pipe or queue"),
            Self::TooMany => write!(f, "limit reached ({PIPES_MAX} pipes or queues)"),
            Self::NoPipe => f.write_str("the queue leads to no pipe"),
        }
    }
}

impl core::error::Error for ConfigError {}
