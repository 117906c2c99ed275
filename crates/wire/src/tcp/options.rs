//! TCP options: maximum segment size, window scale, SACK, timestamps.

use crate::NoRoom;
use crate::emit::Writer;
use core::fmt;

/// Bytes of options a header can have.
pub const OPTIONS_MAX: usize = 40;
/// Blocks of selective acknowledgment that fit into one header.
const SACK_MAX: usize = 4;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Sequence numbers received out of order: from the first up to, not including, the second (RFC 2018 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub left: u32,
    /// The one behind its last.
    pub right: u32,
}

/// Up to four [`SackBlock`]s, in the order of the wire.
#[derive(Clone, Copy, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; SACK_MAX],
    len: usize,
}

impl SackBlocks {
    /// None.
    pub const NONE: Self = Self { blocks: [SackBlock { left: 0, right: 0 }; SACK_MAX], len: 0 };

    /// Adds a block at the end; answers false if there is no room for it.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(free) = self.blocks.get_mut(self.len) else { return false };
        *free = block;
        self.len += 1;
        true
    }

    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..self.len).unwrap_or_default()
    }

    fn from_pairs(pairs: &[[u8; 8]]) -> Self {
        let mut blocks = Self::NONE;
        for &[a, b, c, d, e, f, g, h] in pairs {
            let (left, right) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
            blocks.push(SackBlock { left, right });
        }
        blocks
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl core::hash::Hash for SackBlocks {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// One option. No-operation and end-of-list are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opt<'a> {
    /// Maximum segment size (RFC 9293 §3.7.1).
    Mss(u16),
    /// Window scale: how many bits to shift by, as it was sent (RFC 7323 §2).
    WindowScale(u8),
    /// Selective acknowledgments are welcome (RFC 2018 §2).
    SackPermitted,
    /// Selective acknowledgment (RFC 2018 §3).
    Sack(SackBlocks),
    /// Timestamps: the sender's, and the one it echoes (RFC 7323 §3).
    Timestamps {
        /// `TSval`.
        value: u32,
        /// `TSecr`.
        echo: u32,
    },
    /// Any other, to be ignored.
    Unknown {
        /// Option kind.
        kind: u8,
        /// What follows kind and length.
        data: &'a [u8],
    },
}

/// Reads options one by one, and stops at the first error.
#[derive(Clone, Debug)]
pub struct OptionIter<'a> {
    rest: &'a [u8],
}

impl<'a> OptionIter<'a> {
    /// Over the bytes between the first twenty and the end of the header.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next option, from `self.rest` that is not empty and does not start with a no-operation.
    fn take(&mut self, kind: u8, tail: &'a [u8]) -> Result<Opt<'a>, OptionError> {
        let &[len, ref tail @ ..] = tail else { return Err(OptionError::NoLength { kind }) };
        let body_len = len.checked_sub(2).ok_or(OptionError::LenShort { kind, len })?;
        let (body, rest) =
            tail.split_at_checked(usize::from(body_len)).ok_or(OptionError::LenOverruns { kind, len })?;
        self.rest = rest;
        read(kind, body).ok_or(OptionError::LenWrong { kind, len })
    }
}

impl<'a> Iterator for OptionIter<'a> {
    type Item = Result<Opt<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let [NOP, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (&kind, tail) = self.rest.split_first()?;
        self.rest = &[];
        (kind != END).then(|| self.take(kind, tail)).inspect(|option| {
            if option.is_err() {
                self.rest = &[];
            }
        })
    }
}

impl core::iter::FusedIterator for OptionIter<'_> {}

/// `None` if the option cannot have a body of this length.
fn read(kind: u8, body: &[u8]) -> Option<Opt<'_>> {
    Some(match (kind, body) {
        (MSS, &[a, b]) => Opt::Mss(u16::from_be_bytes([a, b])),
        (WINDOW_SCALE, &[shift]) => Opt::WindowScale(shift),
        (SACK_PERMITTED, []) => Opt::SackPermitted,
        (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => Opt::Timestamps {
            value: u32::from_be_bytes([a, b, c, d]),
            echo: u32::from_be_bytes([e, f, g, h]),
        },
        (SACK, _) => match body.as_chunks::<8>() {
            ([] | [_, _, _, _, _, ..], _) => return None,
            (pairs, []) => Opt::Sack(SackBlocks::from_pairs(pairs)),
            _ => return None,
        },
        (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS, _) => return None,
        _ => Opt::Unknown { kind, data: body },
    })
}

/// The options a connection uses, as a value. Each is written at most once, in the order and with the padding of
/// other stacks, so that 32-bit fields stand on 32-bit boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale as it was sent: may be more than the 14 that RFC 7323 §2.3 allows to be used.
    pub window_scale: Option<u8>,
    /// Selective acknowledgments are welcome.
    pub sack_permitted: bool,
    /// `TSval` and `TSecr`.
    pub timestamps: Option<(u32, u32)>,
    /// Selective acknowledgment. Next to timestamps three blocks fit, the rest is not written.
    pub sack: SackBlocks,
}

impl Options {
    /// None.
    pub const NONE: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::NONE,
    };

    /// Reads all options; unknown ones are skipped, of one that stands there twice the last counts.
    ///
    /// # Errors
    /// The first [`OptionError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, OptionError> {
        let mut options = Self::NONE;
        for option in OptionIter::new(bytes) {
            match option? {
                Opt::Mss(mss) => options.mss = Some(mss),
                Opt::WindowScale(shift) => options.window_scale = Some(shift),
                Opt::SackPermitted => options.sack_permitted = true,
                Opt::Timestamps { value, echo } => options.timestamps = Some((value, echo)),
                Opt::Sack(blocks) => options.sack = blocks,
                Opt::Unknown { .. } => {}
            }
        }
        Ok(options)
    }

    /// Bytes they take, padding included: a multiple of four, at most 40.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.fixed_len() + if self.sack_blocks() == 0 { 0 } else { 4 + 8 * self.sack_blocks() }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All but selective acknowledgment: at most 4 + 4 + 4 + 12 bytes.
    const fn fixed_len(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        // permission fills the padding in front of the timestamps
        let permitted = if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        mss + scale + timestamps + permitted
    }

    /// How many blocks fit behind the others.
    //= https://www.rfc-editor.org/rfc/rfc2018#section-3
    const fn sack_blocks(&self) -> usize {
        let room = (OPTIONS_MAX - self.fixed_len()).saturating_sub(4) / 8;
        if self.sack.len < room { self.sack.len } else { room }
    }

    /// Their length in words of 32 bits.
    pub(super) const fn words(&self) -> u8 {
        let [words, ..] = (self.len() / 4).to_le_bytes();
        words
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            out.put(&[MSS, 4, a, b])?;
        }
        match (self.sack_permitted, self.timestamps.is_some()) {
            (true, true) => out.put(&[SACK_PERMITTED, 2])?,
            (true, false) => out.put(&[NOP, NOP, SACK_PERMITTED, 2])?,
            (false, true) => out.put(&[NOP, NOP])?,
            (false, false) => {}
        }
        if let Some((value, echo)) = self.timestamps {
            out.put(&[TIMESTAMPS, 10])?;
            out.put(&value.to_be_bytes())?;
            out.put(&echo.to_be_bytes())?;
        }
        if let Some(shift) = self.window_scale {
            out.put(&[NOP, WINDOW_SCALE, 3, shift])?;
        }
        self.write_sack(out)
    }

    fn write_sack(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        let blocks = self.sack.as_slice().get(..self.sack_blocks()).unwrap_or_default();
        if blocks.is_empty() {
            return Ok(());
        }
        let len = u8::try_from(2 + 8 * blocks.len()).unwrap_or_default();
        out.put(&[NOP, NOP, SACK, len])?;
        blocks.iter().try_for_each(|block| {
            out.put(&block.left.to_be_bytes())?;
            out.put(&block.right.to_be_bytes())
        })
    }
}

/// What was wrong with an option.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are: option kind, and its length field")]
pub enum OptionError {
    /// The header ends behind an option's kind.
    NoLength { kind: u8 },
    /// The length is 0 or 1, less than kind and length take.
    LenShort { kind: u8, len: u8 },
    /// The length reaches beyond the header.
    LenOverruns { kind: u8, len: u8 },
    /// The length is none this option can have.
    LenWrong { kind: u8, len: u8 },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLength { kind } => write!(f, "option {kind} has no length"),
            Self::LenShort { kind, len } => write!(f, "option {kind} has a length of {len}, less than 2"),
            Self::LenOverruns { kind, len } => {
                write!(f, "option {kind} has a length of {len}, beyond the header")
            }
            Self::LenWrong { kind, len } => write!(f, "option {kind} cannot have a length of {len}"),
        }
    }
}

impl core::error::Error for OptionError {}
