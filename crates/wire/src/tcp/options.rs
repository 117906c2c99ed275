//! TCP options: maximum segment size, window scale, SACK, timestamps, signatures, user timeouts, Fast Open.

mod cookie;
mod user_timeout;

pub use self::cookie::Cookie;
pub use self::user_timeout::UserTimeout;

use crate::NoRoom;
use crate::build::Writer;
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
const SIGNATURE: u8 = 19;
const USER_TIMEOUT: u8 = 28;
const FAST_OPEN: u8 = 34;

/// Bytes of a signature (RFC 2385 §3.0).
pub const SIGNATURE_LEN: usize = 16;

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
    /// The digest of a segment that both ends sign (RFC 2385 §3.0).
    Signature([u8; SIGNATURE_LEN]),
    /// A Fast Open cookie, or the request for one (RFC 7413 §4.1.1).
    FastOpen(Cookie),
    /// The sender's user timeout (RFC 5482 §3.3).
    UserTimeout(UserTimeout),
    /// Any other, to be ignored; a Fast Open cookie or a user timeout of a wrong length too, and one of nothing.
    Unknown {
        /// Option kind.
        kind: u8,
        /// Bytes behind kind and length.
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
    #[inline]
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

    #[inline]
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
#[inline]
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
        (SIGNATURE, _) => Opt::Signature(body.try_into().ok()?),
        (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS, _) => return None,
        // RFC 7413 §4.1.1: one of a wrong length is ignored, and nothing else is.
        (FAST_OPEN, _) => match Cookie::new(body) {
            Some(cookie) => Opt::FastOpen(cookie),
            None => Opt::Unknown { kind, data: body },
        },
        (USER_TIMEOUT, &[a, b]) => match UserTimeout::of_field(u16::from_be_bytes([a, b])) {
            Some(timeout) => Opt::UserTimeout(timeout),
            None => Opt::Unknown { kind, data: body },
        },
        _ => Opt::Unknown { kind, data: body },
    })
}

/// Returns the window scale among a SYN's options, without parsing the others. `None` if the list ends or
/// breaks off before one.
#[must_use]
pub fn window_scale(options: &[u8]) -> Option<u8> {
    let mut rest = options;
    loop {
        rest = match rest {
            [NOP, rest @ ..] => rest,
            &[WINDOW_SCALE, 3, shift, ..] => return Some(shift),
            [END | WINDOW_SCALE, ..] | [] | [_] | [_, 0 | 1, ..] => return None,
            [_, len, ..] => rest.get(usize::from(*len)..)?,
        };
    }
}

/// The options a connection uses, as a value. Each is written at most once, in the order and with the padding of
/// FreeBSD: 32-bit fields stand on 32-bit boundaries, and the end is padded with zeros.
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
    /// The digest that authenticates the segment.
    pub signature: Option<[u8; SIGNATURE_LEN]>,
    /// Selective acknowledgment. Of blocks for which there is no room, the last are not written.
    pub sack: SackBlocks,
    /// A Fast Open cookie. One for which there is no room is not written.
    pub fast_open: Option<Cookie>,
    /// The sender's user timeout. It is advice, and the first option to be left out where there is no
    /// room: see [`Self::has_room_for_user_timeout`].
    pub user_timeout: Option<UserTimeout>,
}

/// Bytes of timestamps.
const STAMPS_LEN: u8 = 10;
/// Their length with padding to 32-bit boundaries.
pub(super) const STAMPS_PADDED: usize = 2 + STAMPS_LEN as usize;
/// Bytes of the options of a usual SYN.
const SYN_LEN: usize = 20;
/// Bytes of a signature option.
const SIGNED_LEN: usize = 2 + SIGNATURE_LEN;
/// Bytes of a user timeout option.
const USER_TIMEOUT_LEN: u8 = 4;

impl Options {
    /// None.
    pub const NONE: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        signature: None,
        sack: SackBlocks::NONE,
        fast_open: None,
        user_timeout: None,
    };

    /// Reads all options; unknown ones are skipped, of one that stands there twice the last counts.
    ///
    /// # Errors
    /// The first [`OptionError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, OptionError> {
        if let &[NOP, NOP, TIMESTAMPS, STAMPS_LEN, a, b, c, d, e, f, g, h] = bytes {
            // What nearly all segments have, as RFC 7323, appendix A, lays it out.
            let timestamps = Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
            return Ok(Self { timestamps, ..Self::NONE });
        }
        Self::parse_syn(bytes).map_or_else(|| Self::parse_each(bytes), Ok)
    }

    /// The options of nearly all SYNs: a maximum segment size, a window scale, selective acknowledgments and timestamps, in the
    /// order of BSD or of Linux.
    fn parse_syn(bytes: &[u8]) -> Option<Self> {
        let (mss, shift, stamps) = match *bytes {
            [MSS, 4, m, n, NOP, WINDOW_SCALE, 3, shift, SACK_PERMITTED, 2, TIMESTAMPS, STAMPS_LEN, ..] => {
                ([m, n], shift, bytes.get(12..)?)
            }
            [MSS, 4, m, n, SACK_PERMITTED, 2, TIMESTAMPS, STAMPS_LEN, .., NOP, WINDOW_SCALE, 3, shift] => {
                ([m, n], shift, bytes.get(8..bytes.len() - 4)?)
            }
            _ => return None,
        };
        let &[a, b, c, d, e, f, g, h] = stamps else { return None };
        Some(Self {
            mss: Some(u16::from_be_bytes(mss)),
            window_scale: Some(shift),
            sack_permitted: true,
            timestamps: Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))),
            ..Self::NONE
        })
    }

    fn parse_each(bytes: &[u8]) -> Result<Self, OptionError> {
        let mut options = Self::NONE;
        for option in OptionIter::new(bytes) {
            match option? {
                Opt::Mss(mss) => options.mss = Some(mss),
                Opt::WindowScale(shift) => options.window_scale = Some(shift),
                Opt::SackPermitted => options.sack_permitted = true,
                Opt::Timestamps { value, echo } => options.timestamps = Some((value, echo)),
                Opt::Signature(digest) => options.signature = Some(digest),
                Opt::Sack(blocks) => options.sack = blocks,
                Opt::FastOpen(cookie) => options.fast_open = Some(cookie),
                Opt::UserTimeout(timeout) => options.user_timeout = Some(timeout),
                Opt::Unknown { .. } => {}
            }
        }
        Ok(options)
    }

    /// Bytes they take, padding included: a multiple of four, at most 40.
    #[must_use]
    pub const fn len(&self) -> usize {
        if self.is_usual() {
            return if self.timestamps.is_some() { STAMPS_PADDED } else { 0 };
        }
        if self.is_usual_syn() {
            return SYN_LEN;
        }
        let timeout = if self.fits_user_timeout() { USER_TIMEOUT_LEN as usize } else { 0 };
        self.user_timeout_start() + timeout
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is nothing but timestamps, or not even those.
    const fn is_usual(&self) -> bool {
        self.mss.is_none() && self.window_scale.is_none() && !self.sack_permitted && !self.has_rare()
    }

    /// Whether there is all that is usual in a SYN, and nothing else.
    const fn is_usual_syn(&self) -> bool {
        self.mss.is_some()
            && self.window_scale.is_some()
            && self.sack_permitted
            && self.timestamps.is_some()
            && !self.has_rare()
    }

    /// Whether there is an option that neither SYNs nor other segments usually have.
    const fn has_rare(&self) -> bool {
        self.signature.is_some()
            || self.sack.len > 0
            || self.fast_open.is_some()
            || self.user_timeout.is_some()
    }

    /// Where timestamps stand, if there are any: behind what only a SYN has.
    const fn stamps_start(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let permitted = if self.sack_permitted { 2 } else { 0 };
        mss + scale + permitted
    }

    /// Where the signature stands, if there is one.
    const fn signature_start(&self) -> usize {
        let start = self.stamps_start();
        if self.timestamps.is_some() { aligned(start) + STAMPS_LEN as usize } else { start }
    }

    /// Where selective acknowledgment stands, if there is any.
    const fn sack_start(&self) -> usize {
        let start = self.signature_start();
        if self.signature.is_some() { aligned(start) + SIGNED_LEN } else { start }
    }

    /// Where a cookie stands, if there is one.
    const fn cookie_start(&self) -> usize {
        let (start, blocks) = (self.sack_start(), self.sack_blocks());
        if blocks > 0 { aligned(start) + 2 + 8 * blocks } else { start }
    }

    /// Where a user timeout stands, if there is one: at the next word, where the options end without it.
    const fn user_timeout_start(&self) -> usize {
        self.cookie_end().next_multiple_of(4)
    }

    const fn cookie_end(&self) -> usize {
        self.cookie_start() + if self.fits_cookie() { 2 + self.cookie_len() } else { 0 }
    }

    /// Whether a user timeout finds room beside the others.
    #[inline]
    #[must_use]
    pub const fn has_room_for_user_timeout(&self) -> bool {
        self.user_timeout_start() + USER_TIMEOUT_LEN as usize <= OPTIONS_MAX
    }

    const fn fits_user_timeout(&self) -> bool {
        self.user_timeout.is_some() && self.has_room_for_user_timeout()
    }

    /// Returns the number of SACK blocks that fit behind the other options.
    //= https://www.rfc-editor.org/rfc/rfc2018#section-3
    const fn sack_blocks(&self) -> usize {
        let room = OPTIONS_MAX.saturating_sub(aligned(self.sack_start()) + 2) / 8;
        if self.sack.len < room { self.sack.len } else { room }
    }

    const fn cookie_len(&self) -> usize {
        match &self.fast_open {
            Some(cookie) => cookie.len(),
            None => 0,
        }
    }

    const fn fits_cookie(&self) -> bool {
        self.fast_open.is_some() && self.cookie_start() + 2 + self.cookie_len() <= OPTIONS_MAX
    }

    /// Timestamps, as RFC 7323, appendix A, lays them out, if there is nothing else.
    #[inline]
    pub(super) fn only_stamps(&self) -> Option<[u8; STAMPS_PADDED]> {
        let (value, echo) = self.timestamps.filter(|_| self.is_usual())?;
        let ([a, b, c, d], [e, f, g, h]) = (value.to_be_bytes(), echo.to_be_bytes());
        Some([NOP, NOP, TIMESTAMPS, STAMPS_LEN, a, b, c, d, e, f, g, h])
    }

    /// The options of a usual SYN, if there is nothing else.
    fn only_syn(&self) -> Option<[u8; SYN_LEN]> {
        let (mss, shift, (value, echo)) = (self.mss?, self.window_scale?, self.timestamps?);
        let ([m, n], [a, b, c, d]) = (mss.to_be_bytes(), value.to_be_bytes());
        let [e, f, g, h] = echo.to_be_bytes();
        let (first, stamps) = ([MSS, 4, m, n, NOP, WINDOW_SCALE, 3, shift], [a, b, c, d, e, f, g, h]);
        let mut bytes = [0; SYN_LEN];
        let (front, back) = bytes.split_first_chunk_mut()?;
        let (middle, back) = back.split_first_chunk_mut()?;
        (*front, *middle) = (first, [SACK_PERMITTED, 2, TIMESTAMPS, STAMPS_LEN]);
        *back.first_chunk_mut()? = stamps;
        self.is_usual_syn().then_some(bytes)
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        if self.is_usual() {
            return self.only_stamps().map_or(Ok(()), |stamps| out.put(&stamps));
        }
        if let Some(usual) = self.only_syn() {
            return out.put(&usual);
        }
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            out.put(&[MSS, 4, a, b])?;
        }
        if let Some(shift) = self.window_scale {
            out.put(&[NOP, WINDOW_SCALE, 3, shift])?;
        }
        if self.sack_permitted {
            out.put(&[SACK_PERMITTED, 2])?;
        }
        if let Some((value, echo)) = self.timestamps {
            align(out)?;
            out.put(&[TIMESTAMPS, STAMPS_LEN])?;
            out.put(&value.to_be_bytes())?;
            out.put(&echo.to_be_bytes())?;
        }
        if let Some(digest) = &self.signature {
            align(out)?;
            out.put(&[SIGNATURE, 18])?;
            out.put(digest)?;
        }
        self.write_sack(out)?;
        self.write_last(out)
    }

    fn write_sack(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        if self.sack.len == 0 {
            return Ok(());
        }
        let blocks = self.sack.as_slice().get(..self.sack_blocks()).unwrap_or_default();
        if blocks.is_empty() {
            return Ok(());
        }
        align(out)?;
        let len = u8::try_from(2 + 8 * blocks.len()).unwrap_or_default();
        out.put(&[SACK, len])?;
        blocks.iter().try_for_each(|block| {
            out.put(&block.left.to_be_bytes())?;
            out.put(&block.right.to_be_bytes())
        })
    }

    /// The cookie and the user timeout, and what fills the last word.
    fn write_last(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        if let Some(cookie) = self.fast_open.as_ref().filter(|_| self.fits_cookie()) {
            let len = u8::try_from(2 + cookie.len()).unwrap_or_default();
            out.put(&[FAST_OPEN, len])?;
            out.put(cookie.as_slice())?;
        }
        let timeout = self.user_timeout.filter(|_| self.fits_user_timeout());
        // Behind the end of the list nothing is read.
        let filling = if timeout.is_some() { [NOP; 3] } else { [END; 3] };
        out.put(filling.get(..out.len().next_multiple_of(4) - out.len()).unwrap_or_default())?;
        timeout.map_or(Ok(()), |timeout| {
            let [a, b] = timeout.field().to_be_bytes();
            out.put(&[USER_TIMEOUT, USER_TIMEOUT_LEN, a, b])
        })
    }
}

/// The next place at or behind `at` where an option stands whose first field, behind kind and length, is one of 32 bits.
const fn aligned(at: usize) -> usize {
    at + (6 - at % 4) % 4
}

/// Fills what is up to the next place that is [`aligned`]. What stands before the options has whole words.
fn align(out: &mut Writer<'_>) -> Result<(), NoRoom> {
    let at = out.len();
    out.put([NOP; 3].get(..aligned(at) - at).unwrap_or_default())
}

/// An error in an option.
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
