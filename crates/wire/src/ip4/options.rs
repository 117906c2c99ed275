//! IPv4 options: read strictly, because each of them has been an attack.

use core::fmt;
use core::net::Ipv4Addr;

/// Bytes of options a header can have.
pub const OPTIONS_MAX: usize = 40;

/// Where the options start, for pointers into the header.
const START: u8 = 20;

/// Option bytes as a value, a multiple of four long.
#[derive(Clone, Copy)]
pub struct Options {
    bytes: [u8; OPTIONS_MAX],
    len: usize,
}

impl Options {
    /// No options.
    pub const NONE: Self = Self { bytes: [0; OPTIONS_MAX], len: 0 };

    /// Takes option bytes as they are and pads them with zeros to a multiple of four; `None` if there are more
    /// than [`OPTIONS_MAX`].
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut options = Self { bytes: [0; OPTIONS_MAX], len: bytes.len().next_multiple_of(4) };
        options.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(options)
    }

    /// The option bytes, padding included.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Their number.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The options one by one.
    #[must_use]
    pub fn iter(&self) -> OptionIter<'_> {
        OptionIter::new(self.as_bytes())
    }

    /// Their number in words of 32 bits, at most 10.
    #[inline]
    pub(super) fn words(&self) -> u8 {
        u8::try_from(self.len / 4).unwrap_or_default()
    }
}

impl<'a> IntoIterator for &'a Options {
    type Item = Result<Opt<'a>, OptionError>;
    type IntoIter = OptionIter<'a>;

    fn into_iter(self) -> OptionIter<'a> {
        self.iter()
    }
}

impl PartialEq for Options {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Options {}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One option. No-operation and end-of-list are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opt<'a> {
    /// Record route (type 7).
    RecordRoute(Route<'a>),
    /// Loose source and record route (131).
    LooseSourceRoute(Route<'a>),
    /// Strict source and record route (137).
    StrictSourceRoute(Route<'a>),
    /// Internet timestamp (68).
    Timestamps(Timestamps<'a>),
    /// Router alert (148, RFC 2113): 0 asks routers to look at the packet.
    RouterAlert(u16),
    /// Any other: to be ignored, and to be copied into fragments if bit 7 of its type is set.
    Unknown {
        /// Option type.
        kind: u8,
        /// Bytes behind type and length.
        data: &'a [u8],
    },
}

impl Opt<'_> {
    /// A route the sender prescribes.
    #[must_use]
    pub const fn is_source_route(&self) -> bool {
        matches!(self, Self::LooseSourceRoute(_) | Self::StrictSourceRoute(_))
    }
}

/// A list of addresses with a pointer to the next slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// Where the option starts in the header.
    pub at: u8,
    /// The pointer as it stands in the option: 4 is the first slot, more than the option's length is the end.
    pub pointer: u8,
    /// The slots.
    pub slots: &'a [[u8; 4]],
}

impl Route<'_> {
    /// Which of the [`slots`](Self::slots) is next; `None` when the list is used up or full.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        let index = usize::from(self.pointer.saturating_sub(4)) / 4;
        (index < self.slots.len()).then_some(index)
    }

    /// The address in the next slot: for a source route the next hop.
    #[must_use]
    pub fn next_hop(&self) -> Option<Ipv4Addr> {
        self.slots.get(self.next()?).map(|&octets| Ipv4Addr::from(octets))
    }

    /// Where the next slot stands in the header, to write an address there.
    #[must_use]
    pub fn next_at(&self) -> Option<usize> {
        Some(usize::from(self.at) + 3 + self.next()? * 4)
    }
}

/// The routers that add timestamps, and their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampKind {
    /// Everyone, only the time.
    TimeOnly,
    /// Everyone, address and time.
    AddressAndTime,
    /// Timestamps of the routers whose addresses the sender has filled in.
    Prespecified,
}

/// The timestamp option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps<'a> {
    /// Where the option starts in the header.
    pub at: u8,
    /// The pointer as it stands in the option: 5 is the first slot, more than the option's length is the end.
    pub pointer: u8,
    /// Hops that found no room, 0 to 15.
    pub overflow: u8,
    /// The kind of timestamps.
    pub kind: TimestampKind,
    /// The slots, all of them.
    pub data: &'a [u8],
}

/// Reads options one by one, and stops at the first error.
#[derive(Clone, Debug)]
pub struct OptionIter<'a> {
    rest: &'a [u8],
    /// Where `rest` starts in the header.
    at: u8,
}

impl<'a> OptionIter<'a> {
    /// Over the bytes between the first twenty and the end of the header.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: START }
    }

    /// Reads all of them, and answers which there are.
    ///
    /// # Errors
    /// The first [`OptionError`]; [`OptionError::Twice`] if one stands there twice that may not.
    pub fn summary(self) -> Result<Summary, OptionError> {
        let mut summary = Summary::default();
        let mut walk = self;
        while let Some((at, option)) = walk.next_at() {
            summary.note(&option?, at)?;
        }
        Ok(summary)
    }

    /// The next option and where it starts in the header.
    fn next_at(&mut self) -> Option<(u8, Result<Opt<'a>, OptionError>)> {
        while let [1, rest @ ..] = self.rest {
            self.advance(rest, 1);
        }
        let at = self.at;
        let (&kind, tail) = self.rest.split_first()?;
        if kind == 0 {
            self.rest = &[];
            return None;
        }
        let option = self.body(at, kind, tail).and_then(|(len, body)| read(at, kind, len, body));
        if option.is_err() {
            self.rest = &[];
        }
        Some((at, option))
    }

    /// Takes an option's length and what follows it.
    fn body(&mut self, at: u8, kind: u8, tail: &'a [u8]) -> Result<(u8, &'a [u8]), OptionError> {
        let pointer = at.saturating_add(1);
        let &[len, ref tail @ ..] = tail else { return Err(OptionError::NoLength { pointer: at, kind }) };
        let Some(body_len) = len.checked_sub(2) else {
            return Err(OptionError::LenShort { pointer, kind, len });
        };
        let (body, rest) = tail.split_at_checked(usize::from(body_len)).ok_or(OptionError::LenOverruns {
            pointer,
            kind,
            len,
        })?;
        self.advance(rest, len);
        Ok((len, body))
    }

    fn advance(&mut self, rest: &'a [u8], len: u8) {
        self.rest = rest;
        self.at = self.at.saturating_add(len);
    }
}

impl<'a> Iterator for OptionIter<'a> {
    type Item = Result<Opt<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_at().map(|(_, option)| option)
    }
}

impl core::iter::FusedIterator for OptionIter<'_> {}

fn read(at: u8, kind: u8, len: u8, body: &[u8]) -> Result<Opt<'_>, OptionError> {
    match kind {
        7 => route(at, kind, len, body).map(Opt::RecordRoute),
        131 => route(at, kind, len, body).map(Opt::LooseSourceRoute),
        137 => route(at, kind, len, body).map(Opt::StrictSourceRoute),
        68 => timestamps(at, len, body).map(Opt::Timestamps),
        148 => match *body {
            [high, low] => Ok(Opt::RouterAlert(u16::from_be_bytes([high, low]))),
            _ => Err(OptionError::LenWrong { pointer: at.saturating_add(1), kind, len }),
        },
        _ => Ok(Opt::Unknown { kind, data: body }),
    }
}

/// A pointer beyond the end is no error, it says that the list is full or used up; one into the end is.
//= https://www.rfc-editor.org/rfc/rfc791#section-3.1
//# If there is some room but not enough room for a full address to be
//# inserted, the original datagram is considered to be in error and is
//# discarded.
fn route(at: u8, kind: u8, len: u8, body: &[u8]) -> Result<Route<'_>, OptionError> {
    let &[pointer, ref data @ ..] = body else {
        return Err(OptionError::LenWrong { pointer: at.saturating_add(1), kind, len });
    };
    let (slots, _) = data.as_chunks::<4>();
    check_pointer(at, kind, len, pointer, 4, 4)?;
    Ok(Route { at, pointer, slots })
}

fn timestamps(at: u8, len: u8, body: &[u8]) -> Result<Timestamps<'_>, OptionError> {
    let &[pointer, flags, ref data @ ..] = body else {
        return Err(OptionError::LenWrong { pointer: at.saturating_add(1), kind: 68, len });
    };
    let (kind, slot) = match flags & 0x0f {
        0 => (TimestampKind::TimeOnly, 4),
        1 => (TimestampKind::AddressAndTime, 8),
        3 => (TimestampKind::Prespecified, 8),
        flag => return Err(OptionError::TimestampFlag { pointer: at.saturating_add(3), flag }),
    };
    check_pointer(at, 68, len, pointer, 5, slot)?;
    Ok(Timestamps { at, pointer, overflow: flags >> 4, kind, data })
}

/// `first` is the smallest pointer, `slot` what must fit behind any that is not beyond the end.
fn check_pointer(at: u8, kind: u8, len: u8, value: u8, first: u8, slot: u8) -> Result<(), OptionError> {
    let pointer = at.saturating_add(2);
    if value < first {
        return Err(OptionError::PointerShort { pointer, kind, value });
    }
    if value <= len && u16::from(value) + u16::from(slot) > u16::from(len) + 1 {
        return Err(OptionError::PointerIntoEnd { pointer, kind, value, len });
    }
    Ok(())
}

/// Which options a header has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// A strict or loose source route.
    pub source_route: bool,
    /// Record route.
    pub record_route: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// Router alert, and its value.
    pub router_alert: Option<u16>,
}

impl Summary {
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.1
    //# Appears at most once in a datagram.
    fn note(&mut self, option: &Opt<'_>, at: u8) -> Result<(), OptionError> {
        let seen = match option {
            Opt::LooseSourceRoute(_) | Opt::StrictSourceRoute(_) => &mut self.source_route,
            Opt::RecordRoute(_) => &mut self.record_route,
            Opt::Timestamps(_) => &mut self.timestamps,
            Opt::RouterAlert(value) => {
                self.router_alert = Some(*value);
                return Ok(());
            }
            Opt::Unknown { .. } => return Ok(()),
        };
        if core::mem::replace(seen, true) { Err(OptionError::Twice { pointer: at }) } else { Ok(()) }
    }
}

/// An error in an option; each variant has the pointer for an ICMP Parameter Problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "the fields are: pointer into the header, option type, and the field that is wrong"
)]
pub enum OptionError {
    /// The header ends behind an option's type.
    NoLength { pointer: u8, kind: u8 },
    /// The length is 0 or 1, less than type and length take.
    LenShort { pointer: u8, kind: u8, len: u8 },
    /// The length reaches beyond the header.
    LenOverruns { pointer: u8, kind: u8, len: u8 },
    /// The length is none this option can have.
    LenWrong { pointer: u8, kind: u8, len: u8 },
    /// The option's pointer points before its first slot.
    PointerShort { pointer: u8, kind: u8, value: u8 },
    /// The option's pointer leaves some room, but less than a slot.
    PointerIntoEnd { pointer: u8, kind: u8, value: u8, len: u8 },
    /// The timestamp option asks for something that does not exist.
    TimestampFlag { pointer: u8, flag: u8 },
    /// An option that may stand there once stands there twice, or two kinds of source route.
    Twice { pointer: u8 },
}

impl OptionError {
    /// Offset in the header of the byte that was wrong.
    #[must_use]
    pub const fn pointer(&self) -> u8 {
        match *self {
            Self::NoLength { pointer, .. }
            | Self::LenShort { pointer, .. }
            | Self::LenOverruns { pointer, .. }
            | Self::LenWrong { pointer, .. }
            | Self::PointerShort { pointer, .. }
            | Self::PointerIntoEnd { pointer, .. }
            | Self::TimestampFlag { pointer, .. }
            | Self::Twice { pointer } => pointer,
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLength { pointer, kind } => write!(f, "option {kind} at {pointer} has no length")?,
            Self::LenShort { kind, len, .. } => {
                write!(f, "option {kind} has a length of {len}, less than 2")?
            }
            Self::LenOverruns { kind, len, .. } => {
                write!(f, "option {kind} has a length of {len}, beyond the header")?;
            }
            Self::LenWrong { kind, len, .. } => write!(f, "option {kind} cannot have a length of {len}")?,
            Self::PointerShort { kind, value, .. } => {
                write!(f, "option {kind} has a pointer of {value}, before its first slot")?;
            }
            Self::PointerIntoEnd { kind, value, len, .. } => {
                write!(f, "option {kind} has a pointer of {value}, too near to its length of {len}")?;
            }
            Self::TimestampFlag { flag, .. } => write!(f, "the timestamp option has an unknown flag {flag}")?,
            Self::Twice { .. } => f.write_str("an option stands there twice")?,
        }
        write!(f, " (byte {})", self.pointer())
    }
}

impl core::error::Error for OptionError {}
