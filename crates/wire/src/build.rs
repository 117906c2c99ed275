//! Writing into a buffer that may be too small, without a panic.

use core::fmt;

/// The buffer given to an `emit` is shorter than the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes the header takes, or, where it ended early, the bytes that were needed so far.
    pub need: usize,
    /// Bytes there were.
    pub have: usize,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the header takes {} bytes, but the buffer has {}", self.need, self.have)
    }
}

impl core::error::Error for NoRoom {}

/// The first `len` bytes of `out`.
pub(crate) fn room(out: &mut [u8], len: usize) -> Result<&mut [u8], NoRoom> {
    let have = out.len();
    out.get_mut(..len).ok_or(NoRoom { need: len, have })
}

/// Puts `bytes` at the front of `out`.
#[inline]
pub(crate) fn put(out: &mut [u8], bytes: &[u8]) -> Result<usize, NoRoom> {
    room(out, bytes.len())?.copy_from_slice(bytes);
    Ok(bytes.len())
}

/// Appends to a buffer; each call either writes all its bytes or none.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    #[inline]
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let need = self.len.saturating_add(bytes.len());
        let have = self.out.len();
        let free = self.out.get_mut(self.len..need).ok_or(NoRoom { need, have })?;
        free.copy_from_slice(bytes);
        self.len = need;
        Ok(())
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// That `len` more bytes can be written.
    pub(crate) fn ensure(&self, len: usize) -> Result<(), NoRoom> {
        let (need, have) = (self.len.saturating_add(len), self.out.len());
        if need <= have { Ok(()) } else { Err(NoRoom { need, have }) }
    }

    /// Returns the bytes written so far, to patch a length or a checksum.
    pub(crate) fn written(self) -> &'a mut [u8] {
        self.out.get_mut(..self.len).unwrap_or_default()
    }
}
