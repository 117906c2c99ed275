//! Settings of an interface's output queue.

use core::time::Duration;

/// The output queue of an interface whose ring pushes back; for each CPU that has a ring of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// Queue discipline.
    pub discipline: Discipline,
    /// Packets that wait at the most. A queue never holds more than a quarter of its CPU's buffers.
    pub packets_max: usize,
    /// Their bytes at the most.
    pub bytes_max: usize,
    /// Waiting for less than this is no reason to drop ([`Discipline::FqCodel`]).
    pub target: Duration,
    /// So long must packets have waited for longer before one is dropped ([`Discipline::FqCodel`]).
    pub interval: Duration,
}

/// The queue discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out; the oldest is dropped for the newest.
    Fifo,
    /// Flows take turns, those that come seldom go first, and those that build a queue are told early (RFC 8290).
    #[default]
    FqCodel,
}

impl QueueSpec {
    /// First in, first out: 1024 packets, 2 MiB.
    pub const FIFO: Self =
        Self { discipline: Discipline::Fifo, packets_max: 1024, bytes_max: 2 << 20, ..Self::FQ_CODEL };

    /// As RFC 8290 recommends for the Internet.
    //= https://www.rfc-editor.org/rfc/rfc8290#section-5.2
    pub const FQ_CODEL: Self = Self {
        discipline: Discipline::FqCodel,
        packets_max: 10_240,
        bytes_max: 32 << 20,
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
    };

    /// The usual values for a discipline.
    #[must_use]
    pub const fn of(discipline: Discipline) -> Self {
        match discipline {
            Discipline::Fifo => Self::FIFO,
            Discipline::FqCodel => Self::FQ_CODEL,
        }
    }
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self::of(Discipline::default())
    }
}

impl Discipline {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Fifo, Self::FqCodel];

    /// Its name, in the configuration and in `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::FqCodel => "fq_codel",
        }
    }
}
