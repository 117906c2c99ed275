//! Unsafe: follows the handle to the slot that it owns.
#![allow(unsafe_code, reason = "a handle is a pointer, so that it is eight bytes and data can be prefetched")]

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::slot::{
    BUF_LEN, Flags, Gso, HEADROOM, Holder, META_LEN, Meta, Note, STRIDE, Slot, SlotHead, WINDOW,
};

/// Where a packet starts in a buffer from which nothing is prepended.
const START: u16 = 256;
const _: () = assert!(START as usize == HEADROOM);
/// No packet starts behind this: its window is always in the buffer.
const OFF_MAX: u16 = 2240;
const _: () = assert!(OFF_MAX as usize == BUF_LEN - WINDOW);

/// An owned packet: eight bytes that move and are never cloned.
///
/// It derefs to its [`Meta`]. A packet longer than a buffer heads a chain. The stage that ends a packet gives it to a
/// [`crate::Pool`]; a handle that is dropped is a leak, and is counted in its arena.
pub struct Pkt {
    slot: NonNull<Slot>,
}

/// There is not so much room in front of, or behind, the packet's bytes in this buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes asked for.
    pub wanted: usize,
    /// Bytes that there are.
    pub have: usize,
}

impl core::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes wanted in the buffer, {} are free", self.wanted, self.have)
    }
}

impl core::error::Error for NoRoom {}

// SAFETY: a `Pkt` is the only way to its slot, as a `Box` is to its contents.
unsafe impl Send for Pkt {}

impl Pkt {
    pub(crate) const fn from_slot(slot: NonNull<Slot>) -> Self {
        Self { slot }
    }

    #[inline]
    const fn slot(&self) -> &Slot {
        // SAFETY: the handle owns the slot, which lives as long as its arena's mapping, which waits for handles.
        unsafe { self.slot.as_ref() }
    }

    #[inline]
    const fn slot_mut(&mut self) -> &mut Slot {
        // SAFETY: as in `slot`, and we have the handle exclusively.
        unsafe { self.slot.as_mut() }
    }

    #[inline]
    pub(crate) const fn slot_head(&self) -> &SlotHead {
        &self.slot().head
    }

    #[inline]
    pub(crate) const fn slot_head_mut(&mut self) -> &mut SlotHead {
        &mut self.slot_mut().head
    }

    /// Bytes of the whole packet, all buffers of the chain.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.slot_head().total as usize
    }

    /// Whether the packet has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slot_head().total == 0
    }

    /// The packet's bytes in its first buffer. Headers are always here.
    #[inline]
    #[must_use]
    pub fn head(&self) -> &[u8] {
        let slot = self.slot();
        let (off, len) = (usize::from(slot.head.off), usize::from(slot.head.len));
        slot.buf.get(off..off + len).unwrap_or_default()
    }

    /// Returns the firewall's note on the packet's flow.
    #[inline]
    #[must_use]
    pub fn note(&self) -> Option<Note> {
        let SlotHead { note_at: at, note_serial: serial, note_bits: bits, .. } = *self.slot_head();
        self.flags.has(Flags::KNOWN).then_some(Note { at, serial, bits })
    }

    /// Notes it.
    #[inline]
    pub fn set_note(&mut self, note: Note) {
        let head = self.slot_head_mut();
        (head.note_at, head.note_serial, head.note_bits) = (note.at, note.serial, note.bits);
        self.flags.set(Flags::KNOWN);
    }

    /// Returns the number of bytes in the packet's first buffer.
    #[inline]
    #[must_use]
    pub fn head_len(&self) -> usize {
        usize::from(self.slot_head().len)
    }

    /// The packet's bytes in its first buffer, to change.
    #[inline]
    #[must_use]
    pub fn head_mut(&mut self) -> &mut [u8] {
        let slot = self.slot_mut();
        let (off, len) = (usize::from(slot.head.off), usize::from(slot.head.len));
        slot.buf.get_mut(off..off + len).unwrap_or_default()
    }

    /// A fixed window on the 64 bytes that start `at` bytes into the packet.
    ///
    /// Always valid memory, so constant indices into it need no check; what lies beyond the packet's length is
    /// stale. Compare the length before believing a field. A window that would leave the buffer is moved back.
    #[inline]
    #[must_use]
    pub fn window(&self, at: usize) -> &[u8; WINDOW] {
        let slot = self.slot();
        let start = window_start(slot.head.off, at);
        // SAFETY: `start + WINDOW <= BUF_LEN`.
        let window = unsafe { slot.buf.as_ptr().add(start) };
        // SAFETY: an array of bytes has no alignment, and the slot is borrowed for as long as the window.
        unsafe { &*window.cast() }
    }

    /// [`Pkt::window`], to change.
    #[inline]
    #[must_use]
    pub fn window_mut(&mut self, at: usize) -> &mut [u8; WINDOW] {
        let slot = self.slot_mut();
        let start = window_start(slot.head.off, at);
        // SAFETY: `start + WINDOW <= BUF_LEN`.
        let window = unsafe { slot.buf.as_mut_ptr().add(start) };
        // SAFETY: an array of bytes has no alignment, and the slot is borrowed for as long as the window.
        unsafe { &mut *window.cast() }
    }

    /// Puts `bytes` in front.
    ///
    /// Offsets that count from the start of the packet (`l4`, `csum_start`) move along.
    ///
    /// # Errors
    ///
    /// [`NoRoom`], when the headroom is used up.
    #[inline]
    pub fn prepend_array<const N: usize>(&mut self, bytes: &[u8; N]) -> Result<(), NoRoom> {
        const { assert!(N <= WINDOW) };
        self.grow_front(N)?;
        if let Some(front) = self.window_mut(0).first_chunk_mut() {
            *front = *bytes;
        }
        Ok(())
    }

    /// Adds `n` bytes in front and returns them; their contents are stale.
    ///
    /// Offsets that count from the start of the packet (`l4`, `csum_start`) move along.
    ///
    /// # Errors
    ///
    /// [`NoRoom`], when the headroom is used up.
    #[inline]
    pub fn prepend(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        self.grow_front(n)?;
        Ok(&mut self.head_mut()[..n])
    }

    #[inline]
    fn grow_front(&mut self, n: usize) -> Result<(), NoRoom> {
        let have = usize::from(self.slot_head().off);
        let grown = u16::try_from(n).ok().filter(|_| n <= have).ok_or(NoRoom { wanted: n, have })?;
        let Slot { head, meta, .. } = self.slot_mut();
        head.off -= grown;
        head.len = head.len.wrapping_add(grown);
        head.total = head.total.wrapping_add(u32::from(grown));
        meta.l4 = meta.l4.wrapping_add(grown);
        meta.csum_start = meta.csum_start.wrapping_add(grown);
        Ok(())
    }

    /// Removes up to `n` bytes from the front of the first buffer; offsets into the packet move along.
    #[inline]
    pub fn trim_front(&mut self, n: usize) {
        let Slot { head, meta, .. } = self.slot_mut();
        let cut = head.len.min(u16::try_from(n).unwrap_or(u16::MAX));
        head.off = head.off.wrapping_add(cut);
        head.len = head.len.wrapping_sub(cut);
        head.total = head.total.wrapping_sub(u32::from(cut));
        meta.l4 = meta.l4.wrapping_sub(cut);
        meta.csum_start = meta.csum_start.wrapping_sub(cut);
        if head.off > OFF_MAX {
            self.move_back();
        }
    }

    /// Moves the few bytes that are left at the end of the buffer to where a window on them fits.
    #[cold]
    fn move_back(&mut self) {
        let slot = self.slot_mut();
        let (from, len) = (usize::from(slot.head.off), usize::from(slot.head.len));
        slot.buf.copy_within(from..from + len, usize::from(OFF_MAX));
        slot.head.off = OFF_MAX;
    }

    /// Keeps only the `len` bytes that begin `from` bytes into the packet; the caller then sets the offset of its transport
    /// header (`l4`): offsets into it do not move along.
    ///
    /// False, and nothing is changed, if there are not so many, they are not all in one buffer, or they stand at its
    /// very end: that is left to [`Pkt::trim_front`] and [`Pkt::truncate`].
    #[inline]
    #[must_use]
    pub fn narrow(&mut self, from: u16, len: u16) -> bool {
        let head = self.slot_head_mut();
        let off = u32::from(head.off) + u32::from(from);
        let is_here = u32::from(from) + u32::from(len) <= u32::from(head.len) && off <= u32::from(OFF_MAX);
        if head.next.is_some() || !is_here {
            return false;
        }
        head.off = head.off.wrapping_add(from);
        head.len = len;
        head.total = u32::from(len);
        true
    }

    /// Adds `n` bytes behind those of the first buffer and returns them; their contents are stale.
    ///
    /// # Errors
    ///
    /// [`NoRoom`], when the buffer is full, or the packet is a chain (then its end is not here).
    #[inline]
    pub fn append(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let have = if self.is_chained() { 0 } else { self.tailroom() };
        let grown = u16::try_from(n).ok().filter(|_| n <= have).ok_or(NoRoom { wanted: n, have })?;
        let head = self.slot_head_mut();
        let old = usize::from(head.len);
        head.len += grown;
        head.total += u32::from(grown);
        Ok(&mut self.head_mut()[old..])
    }

    /// Shortens the packet to `len` bytes (its bytes in the first buffer, in an unchained packet).
    ///
    /// Returns the buffers that hold nothing any more, for a pool.
    #[inline]
    #[must_use = "the cut-off buffers belong in a pool"]
    pub fn truncate(&mut self, len: usize) -> Option<Self> {
        if len >= self.len() {
            return None;
        }
        let mut at = self.slot_head_mut();
        at.total = u32::try_from(len).unwrap_or(at.total);
        let mut left = len;
        while left > usize::from(at.len) && at.next.is_some() {
            left -= usize::from(at.len);
            at = at.next.as_mut()?.slot_head_mut();
        }
        at.len = u16::try_from(left).unwrap_or(at.len).min(at.len);
        at.next.take()
    }

    /// Returns the `n` bytes in front of the packet in its buffer, if there are so many: headers removed before.
    #[inline]
    #[must_use]
    pub fn before(&self, n: usize) -> Option<&[u8]> {
        let off = usize::from(self.slot_head().off);
        self.slot().buf.get(off.checked_sub(n)?..off)
    }

    /// Bytes free in front of the packet.
    #[inline]
    #[must_use]
    pub fn headroom(&self) -> usize {
        usize::from(self.slot_head().off)
    }

    /// Bytes free behind the packet's bytes in this buffer.
    #[inline]
    #[must_use]
    pub fn tailroom(&self) -> usize {
        let head = self.slot_head();
        BUF_LEN - usize::from(head.off) - usize::from(head.len)
    }

    /// Places `len` bytes of a frame at `off` in the buffer, as a device that wrote them says.
    ///
    /// # Errors
    ///
    /// [`NoRoom`], when that does not lie in the buffer; nothing is changed then.
    #[inline]
    pub fn place(&mut self, off: usize, len: usize) -> Result<(), NoRoom> {
        let room = NoRoom { wanted: len, have: BUF_LEN.saturating_sub(off) };
        let head = self.slot_head_mut();
        if len > room.have || head.next.is_some() {
            return Err(room);
        }
        head.off = u16::try_from(off).map_err(|_| room)?;
        head.len = u16::try_from(len).map_err(|_| room)?;
        head.total = u32::from(head.len);
        if head.off > OFF_MAX {
            self.move_back();
        }
        Ok(())
    }

    /// All of the buffer, to be written by a device or a copy; follow with [`Pkt::place`].
    #[inline]
    #[must_use]
    pub const fn buffer_mut(&mut self) -> &mut [u8; BUF_LEN] {
        &mut self.slot_mut().buf
    }

    /// Links `tail` (with its own chain) behind this packet's last buffer. A chain is [`Flags::ODD`].
    #[inline]
    pub fn chain(&mut self, tail: Self) {
        self.flags.set(Flags::ODD);
        let mut at = self.slot_head_mut();
        at.total += tail.slot_head().total;
        while at.next.is_some() {
            at = match &mut at.next {
                Some(next) => next.slot_head_mut(),
                None => return,
            };
        }
        at.next = Some(tail);
    }

    /// Takes the first buffer's successors away; this packet keeps only its first buffer.
    #[inline]
    #[must_use = "the rest of the chain belongs in a pool"]
    pub fn unchain(&mut self) -> Option<Self> {
        let head = self.slot_head_mut();
        let rest = head.next.take();
        head.total = u32::from(head.len);
        rest
    }

    /// Whether the packet is longer than one buffer.
    #[inline]
    #[must_use]
    pub fn is_chained(&self) -> bool {
        self.slot_head().next.is_some()
    }

    /// Whether the packet is in one buffer, and a window on its first bytes lies where they are.
    #[inline]
    #[must_use]
    pub fn is_in_window(&self) -> bool {
        let head = self.slot_head();
        head.next.is_none() && usize::from(head.off) + WINDOW <= usize::from(OFF_MAX)
    }

    /// The packet's bytes, buffer by buffer.
    #[inline]
    #[must_use]
    pub const fn fragments(&self) -> Fragments<'_> {
        Fragments { at: Some(self) }
    }

    /// Buffers in the chain.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.fragments().count()
    }

    /// Copies bytes from `at` into `out`, across buffers; returns how many there were.
    #[inline]
    pub fn copy_out(&self, at: usize, out: &mut [u8]) -> usize {
        let (mut skip, mut done) = (at, 0);
        for part in self.fragments() {
            let Some(part) = part.get(skip..).filter(|part| !part.is_empty()) else {
                skip -= part.len();
                continue;
            };
            skip = 0;
            let n = part.len().min(out.len() - done);
            out[done..done + n].copy_from_slice(&part[..n]);
            done += n;
        }
        done
    }

    /// Makes an empty packet of the buffer: no bytes, full headroom, nothing known.
    #[inline]
    pub fn reset(&mut self) {
        let Slot { head, meta, .. } = self.slot_mut();
        head.total = 0;
        head.off = START;
        head.len = 0;
        meta.forget();
    }

    /// The buffer's index in its arena.
    #[inline]
    #[must_use]
    pub fn index(&self) -> u32 {
        self.slot_head().index
    }

    /// The pool that this buffer returns to, by its number among all pools of the process.
    #[inline]
    #[must_use]
    pub fn home(&self) -> u16 {
        self.slot_head().home
    }

    /// Offset in the arena of the packet's first byte: what a transmit descriptor holds.
    #[inline]
    #[must_use]
    pub fn data_addr(&self) -> u64 {
        let SlotHead { index, off, .. } = *self.slot_head();
        u64::from(index) * STRIDE as u64 + META_LEN as u64 + u64::from(off)
    }

    /// Gives the (unchained) buffer to a device and returns the arena offset of its data.
    ///
    /// The way back is [`crate::Arena::reclaim`].
    #[inline]
    #[must_use = "the device must be told, or the buffer is lost"]
    pub fn into_frame(mut self) -> u64 {
        debug_assert!(!self.is_chained(), "a device takes buffers one by one");
        self.slot_head_mut().holder = Holder::Device;
        let addr = self.data_addr();
        core::mem::forget(self);
        addr
    }

    /// Address of the metadata and of the usual start of the data, for prefetching.
    pub(crate) const fn lines(&self) -> (*const u8, *const u8) {
        let meta: *const u8 = self.slot.as_ptr().cast();
        (meta, meta.wrapping_add(META_LEN + HEADROOM))
    }
}

/// Where in the buffer a window starts that is to start `at` bytes into a packet at `off`.
#[inline]
const fn window_start(off: u16, at: usize) -> usize {
    let start = off as usize + at;
    // At 0, `off` says it all: it is at most `OFF_MAX`.
    if at == 0 || start < OFF_MAX as usize { start } else { OFF_MAX as usize }
}

impl Deref for Pkt {
    type Target = Meta;

    fn deref(&self) -> &Meta {
        &self.slot().meta
    }
}

impl DerefMut for Pkt {
    fn deref_mut(&mut self) -> &mut Meta {
        &mut self.slot_mut().meta
    }
}

impl core::fmt::Debug for Pkt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pkt")
            .field("slot", &self.index())
            .field("home", &self.home())
            .field("len", &self.len())
            .field("rcvif", &self.rcvif)
            .finish_non_exhaustive()
    }
}

impl Drop for Pkt {
    /// A packet ends in a pool. One that is dropped is lost to its arena, and counted there.
    #[cold]
    fn drop(&mut self) {
        let leaked = self.slot_head().leaked;
        // SAFETY: the counter stands in the arena, which is kept for as long as a slot has not come home.
        let leaked: &AtomicU64 = unsafe { &*leaked };
        leaked.fetch_add(1, Ordering::Relaxed);
    }
}

impl SlotHead {
    #[inline]
    pub(crate) const fn new(index: u32, home: u16, leaked: *const AtomicU64) -> Self {
        Self {
            next: None,
            leaked,
            index,
            home,
            charged: u16::MAX,
            holder: Holder::Stack,
            note_bits: 0,
            note_serial: 0,
            note_at: 0,
            total: 0,
            off: START,
            len: 0,
        }
    }
}

impl Meta {
    pub(crate) const NONE: Self = Self {
        flags: Flags::NONE,
        hash: 0,
        rcvif: 0,
        outif: 0,
        l4: 0,
        csum_start: 0,
        csum_off: 0,
        fib: 0,
        gso_size: 0,
        vlan: 0,
        resume: 0,
        proto: 0,
        gso: Gso::None,
        moved: false,
        tag: 0,
    };

    /// Forgets all that the stack wrote down about the packet. In the order in which it stands, so that it becomes a
    /// few wide stores.
    #[inline]
    pub const fn forget(&mut self) {
        self.flags = Flags::NONE;
        self.hash = 0;
        self.rcvif = 0;
        self.outif = 0;
        self.l4 = 0;
        self.csum_start = 0;
        self.csum_off = 0;
        self.fib = 0;
        self.gso_size = 0;
        self.vlan = 0;
        self.resume = 0;
        self.proto = 0;
        self.gso = Gso::None;
        self.moved = false;
        self.tag = 0;
    }
}

/// Iterates over the bytes of a packet, a slice per buffer.
pub struct Fragments<'a> {
    at: Option<&'a Pkt>,
}

impl<'a> Iterator for Fragments<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let at = self.at?;
        self.at = at.slot_head().next.as_ref();
        Some(at.head())
    }
}

#[cfg(test)]
mod tests;
