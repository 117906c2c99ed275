//! The place of a variable's value among what is typed.

use core::time::Duration;

use super::table::WINDOW_MAX;
use crate::host::pcb::PortAlgorithm;
use crate::host::tcp::congestion::Algorithm;
use crate::host::tcp::settings::{Ecn, Extensions};

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// It is off or on: 0 or 1.
    Switch,
    /// Nothing but itself, or it is a word.
    None,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
}

/// Where a value is.
pub(super) enum Slot<'a> {
    Switch(&'a mut bool),
    Count(&'a mut u8),
    Port(&'a mut u16),
    Number(&'a mut u32),
    Bytes(&'a mut u32),
    /// Bytes; more than a window can say are as many as it can.
    Window(&'a mut u32),
    Places(&'a mut usize),
    Size(&'a mut usize),
    Time(&'a mut Duration),
    /// 0 is none.
    Perhaps(&'a mut Option<Duration>),
    Ecn(&'a mut Ecn),
    Extensions(&'a mut Extensions),
    Algorithm(&'a mut Algorithm),
    PortAlgorithm(&'a mut PortAlgorithm),
    /// A read-only value.
    Fixed(i64),
}

/// In the order of their numbers.
const ECN: [Ecn; 3] = [Ecn::Off, Ecn::Active, Ecn::Passive];
const EXTENSIONS: [Extensions; 4] =
    [Extensions::Off, Extensions::Both, Extensions::Scale, Extensions::Stamps];
const ALGORITHMS: [Algorithm; 2] = [Algorithm::NewReno, Algorithm::Cubic];
const ALGORITHM_WORDS: &[&str] = &["newreno", "cubic"];
const PORT_ALGORITHMS: [PortAlgorithm; 4] =
    [PortAlgorithm::Random, PortAlgorithm::Hash, PortAlgorithm::DoubleHash, PortAlgorithm::RandomIncrements];
const PORT_ALGORITHM_WORDS: &[&str] = &["random", "hash", "double_hash", "random_increments"];

impl Slot<'_> {
    pub(super) fn read(&self) -> i64 {
        match self {
            Self::Switch(is_on) => i64::from(**is_on),
            Self::Count(count) => i64::from(**count),
            Self::Port(port) => i64::from(**port),
            Self::Number(number) | Self::Bytes(number) | Self::Window(number) => i64::from(**number),
            Self::Size(size) | Self::Places(size) => i64::try_from(**size).unwrap_or(i64::MAX),
            Self::Time(time) => i64::try_from(time.as_millis()).unwrap_or(i64::MAX),
            Self::Perhaps(time) => i64::try_from(time.unwrap_or_default().as_millis()).unwrap_or(i64::MAX),
            Self::Ecn(ecn) => place(&ECN, ecn),
            Self::Extensions(extensions) => place(&EXTENSIONS, extensions),
            Self::Algorithm(algorithm) => place(&ALGORITHMS, algorithm),
            Self::PortAlgorithm(algorithm) => place(&PORT_ALGORITHMS, algorithm),
            Self::Fixed(value) => *value,
        }
    }

    /// Values are within the range of their variable; another one would be cut to what there is room for.
    pub(super) fn write(self, value: i64) {
        let value = u64::try_from(value).unwrap_or(0);
        let at = usize::try_from(value).unwrap_or(usize::MAX);
        match self {
            Self::Switch(is_on) => *is_on = value != 0,
            Self::Port(port) => *port = u16::try_from(value).unwrap_or(u16::MAX),
            Self::Count(count) => *count = u8::try_from(value).unwrap_or(u8::MAX),
            Self::Number(number) | Self::Bytes(number) => *number = u32::try_from(value).unwrap_or(u32::MAX),
            Self::Window(bytes) => {
                *bytes = u32::try_from(value.min(WINDOW_MAX.unsigned_abs())).unwrap_or(u32::MAX);
            }
            Self::Size(size) | Self::Places(size) => *size = at,
            Self::Time(time) => *time = Duration::from_millis(value),
            Self::Perhaps(time) => *time = (value > 0).then(|| Duration::from_millis(value)),
            Self::Ecn(ecn) => *ecn = ECN.get(at).copied().unwrap_or(*ecn),
            Self::Extensions(is) => *is = EXTENSIONS.get(at).copied().unwrap_or(*is),
            Self::Algorithm(algorithm) => *algorithm = ALGORITHMS.get(at).copied().unwrap_or(*algorithm),
            Self::PortAlgorithm(algorithm) => {
                *algorithm = PORT_ALGORITHMS.get(at).copied().unwrap_or(*algorithm)
            }
            Self::Fixed(_) => {}
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self {
            Self::Switch(_) => Unit::Switch,
            Self::Bytes(_) | Self::Window(_) | Self::Size(_) => Unit::Bytes,
            Self::Time(_) | Self::Perhaps(_) => Unit::Milliseconds,
            Self::Count(_) | Self::Port(_) | Self::Number(_) | Self::Places(_) => Unit::None,
            Self::Ecn(_) | Self::Extensions(_) | Self::Fixed(_) => Unit::None,
            Self::Algorithm(_) | Self::PortAlgorithm(_) => Unit::None,
        }
    }

    pub(super) fn words(&self) -> &'static [&'static str] {
        match self {
            Self::Algorithm(_) => ALGORITHM_WORDS,
            Self::PortAlgorithm(_) => PORT_ALGORITHM_WORDS,
            _ => &[],
        }
    }
}

fn place<T: PartialEq>(all: &[T], one: &T) -> i64 {
    all.iter().position(|other| other == one).and_then(|at| i64::try_from(at).ok()).unwrap_or(0)
}
