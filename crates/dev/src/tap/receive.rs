//! Buffers that frames are read into, and how many frames at once.
//!
//! Nearly all frames fit into one buffer, and a system call with three slices costs a fifth less than one with a slice for
//! each buffer of the longest frame. So what is longer than a buffer goes into memory of its own, and is copied. Where
//! super-packets come one after the other, they are read into buffers at once.

use std::io::{self, IoSliceMut};

use pkt::{DATA_LEN, HEADROOM, Pkt, Pool, RingId};

use super::BUFFERS_MAX;
use super::describe::{describe, link_header};
use crate::sys::tun::TapQueue;
use crate::sys::uring::{self, BATCH, Uring};
use crate::sys::vnet_hdr::{VNET_HDR_LEN, VnetHdr};

/// Slices of a system call that reads a long frame: the virtio header and the buffers.
const SLICES: usize = BUFFERS_MAX + 1;
/// Bytes of the longest frame behind its first buffer.
const REST: usize = (BUFFERS_MAX - 1) * DATA_LEN;
/// Frames that are read into many buffers after one that was long.
const LONG: u8 = 64;

/// Reads frames of one queue.
pub(super) struct Receiver {
    places: Vec<Place>,
    /// Buffers for what is longer than one.
    spare: Vec<Pkt>,
    account: Option<RingId>,
    allowance: usize,
    /// Frames that came when it was asked last.
    came: usize,
    /// Frames that are still read into many buffers.
    long: u8,
}

/// Memory for one frame.
struct Place {
    header: [u8; VNET_HDR_LEN],
    first: Option<Pkt>,
    rest: Box<[u8]>,
    /// Bytes that were read, without the virtio header.
    len: usize,
    /// Whether bytes behind the first buffer stand in the spare ones.
    is_in_parts: bool,
}

/// Why no packet comes of a frame.
pub(super) enum Lost {
    /// The allowance leaves too few buffers for it.
    NoBuffer,
    /// A packet of a TUN that is none of IP.
    NotIp,
}

/// Frames that are there now, and why there are no more.
#[derive(Default)]
pub(super) struct Came {
    pub(super) frames: usize,
    /// There are no more now.
    pub(super) is_all: bool,
    pub(super) error: Option<io::Error>,
}

impl Receiver {
    /// One that may have at most `allowance` buffers out.
    pub(super) fn new(allowance: usize) -> Self {
        // Memory that no long frame has needed is not there yet.
        let place = || Place {
            header: [0; VNET_HDR_LEN],
            first: None,
            rest: vec![0; REST].into_boxed_slice(),
            len: 0,
            is_in_parts: false,
        };
        Self {
            places: (0..BATCH).map(|_| place()).collect(),
            spare: Vec::with_capacity(BUFFERS_MAX),
            account: None,
            allowance: allowance.max(BUFFERS_MAX + BATCH),
            came: 0,
            long: 0,
        }
    }

    /// Returns how many frames to ask for first: as many as came the last time, and one that shows that these are all.
    pub(super) fn expected(&self) -> usize {
        (self.came + 1).min(BATCH)
    }

    /// Notes how many came.
    pub(super) fn note(&mut self, frames: usize) {
        self.came = frames;
    }

    /// Reads at most `wanted` frames, into the first places.
    pub(super) fn read(
        &mut self,
        queue: &TapQueue,
        batch: Option<&mut Uring>,
        wanted: usize,
        pool: &mut Pool,
    ) -> Came {
        let ready = self.refill(pool, wanted);
        if ready == 0 {
            return Came { is_all: true, ..Came::default() };
        }
        match batch.filter(|_| ready > 1 && self.long == 0) {
            Some(batch) => self.read_many(queue, batch, ready),
            None => self.read_one(queue),
        }
    }

    /// Sees to it that there are buffers for `wanted` frames; answers for how many there are.
    fn refill(&mut self, pool: &mut Pool, wanted: usize) -> usize {
        let account = *self.account.get_or_insert_with(|| pool.open_ring(self.allowance));
        let wanted = wanted.min(self.places.len());
        for ready in 0..wanted {
            if self.places[ready].first.is_none() {
                self.places[ready].first = pool.take_for(account);
            }
            if self.places[ready].first.is_some() {
                continue;
            }
            // The allowance is used up. Places behind this one may have buffers from when more was wanted.
            match self.places.iter().skip(ready).position(|place| place.first.is_some()) {
                Some(behind) => self.places.swap(ready, ready + behind),
                None => return ready,
            }
        }
        if self.long > 0 {
            self.spare(pool, BUFFERS_MAX - 1);
        }
        wanted
    }

    /// Sees to it that there are so many spare buffers, if the allowance has as many.
    fn spare(&mut self, pool: &mut Pool, count: usize) {
        let Some(account) = self.account else { return };
        while self.spare.len() < count
            && let Some(pkt) = pool.take_for(account)
        {
            self.spare.push(pkt);
        }
    }

    fn read_one(&mut self, queue: &TapQueue) -> Came {
        let Self { places, spare, long, .. } = self;
        let Some(Place { header, first: Some(first), rest, len, is_in_parts }) = places.first_mut() else {
            return Came::default();
        };
        *is_in_parts = *long > 0;
        let begin = [header, &mut first.buffer_mut()[HEADROOM..]];
        let done = if *is_in_parts {
            let count = 2 + spare.len();
            let parts = spare.iter_mut().map(|pkt| &mut pkt.buffer_mut()[HEADROOM..]);
            let mut each = begin.into_iter().chain(parts);
            let mut all: [_; SLICES] =
                core::array::from_fn(|_| IoSliceMut::new(each.next().unwrap_or_default()));
            queue.readv(&mut all[..count.min(SLICES)])
        } else {
            let [header, first] = begin;
            queue.readv(&mut [header, first, rest].map(IoSliceMut::new))
        };
        match done {
            Ok(Some(read)) => {
                *len = read.saturating_sub(VNET_HDR_LEN);
                Came { frames: 1, ..Came::default() }
            }
            Ok(None) => Came { is_all: true, ..Came::default() },
            Err(error) => Came { is_all: true, error: Some(error), ..Came::default() },
        }
    }

    /// Reads as many frames as there are places `ready`.
    fn read_many(&mut self, queue: &TapQueue, batch: &mut Uring, ready: usize) -> Came {
        let mut left = self.places.iter_mut();
        let mut all: [[IoSliceMut<'_>; 3]; BATCH] = core::array::from_fn(|_| match left.next() {
            Some(Place { header, first: Some(first), rest, is_in_parts, .. }) => {
                *is_in_parts = false;
                [&mut header[..], &mut first.buffer_mut()[HEADROOM..], rest].map(IoSliceMut::new)
            }
            _ => [&mut [][..], &mut [], &mut []].map(IoSliceMut::new),
        });
        let answers = match batch.read(queue, &mut all[..ready.min(BATCH)]) {
            Ok(answers) => answers,
            Err(error) => return Came { is_all: true, error: Some(error), ..Came::default() },
        };
        let mut came = Came::default();
        for at in 0..ready {
            match answers.get(at).map(|answer| uring::answer(*answer)) {
                Some(Ok(Some(read))) => {
                    // One that came in between goes before those behind it.
                    self.places.swap(came.frames, at);
                    self.places[came.frames].len = read.saturating_sub(VNET_HDR_LEN);
                    came.frames += 1;
                }
                Some(Err(error)) => came.error = Some(error),
                _ => {}
            }
        }
        came.is_all = came.frames < ready;
        came
    }

    /// Makes a packet of the frame in this place, to which a link header of so many bytes is added.
    ///
    /// The kernel does not say when it cut a frame off because the allowance left too few buffers: one that fills them
    /// all to the last byte counts as cut off.
    pub(super) fn packet(&mut self, at: usize, link_len: usize, pool: &mut Pool) -> Result<Pkt, Lost> {
        let (len, is_in_parts) =
            self.places.get(at).map_or((0, false), |place| (place.len, place.is_in_parts));
        let behind = len.saturating_sub(DATA_LEN);
        if !is_in_parts {
            self.spare(pool, behind.div_ceil(DATA_LEN));
        }
        self.long = if behind > 0 { LONG } else { self.long.saturating_sub(1) };
        let Self { places, spare, .. } = self;
        let Some(Place { header, first, rest, .. }) = places.get_mut(at) else { return Err(Lost::NoBuffer) };
        let room = if is_in_parts { (1 + spare.len()) * DATA_LEN } else { DATA_LEN + REST };
        if len >= room || behind > spare.len() * DATA_LEN {
            return Err(Lost::NoBuffer);
        }
        let begins_with = first.as_mut().and_then(|first| first.buffer_mut().get(HEADROOM).copied());
        let link = match link_len {
            0 => None,
            _ => Some(link_header(begins_with).ok_or(Lost::NotIp)?),
        };
        let mut pkt = first.take().ok_or(Lost::NoBuffer)?;
        pkt.place(HEADROOM, len.min(DATA_LEN)).map_err(|_| Lost::NoBuffer)?;
        let parts = spare.drain(..behind.div_ceil(DATA_LEN));
        for (mut part, bytes) in parts.zip(rest[..behind].chunks(DATA_LEN)) {
            if !is_in_parts {
                part.buffer_mut()[HEADROOM..][..bytes.len()].copy_from_slice(bytes);
            }
            part.place(HEADROOM, bytes.len()).map_err(|_| Lost::NoBuffer)?;
            pkt.chain(part);
        }
        if let Some(link) = link {
            pkt.prepend_array(&link).map_err(|_| Lost::NoBuffer)?;
        }
        describe(&mut pkt, &VnetHdr::decode(header), link_len);
        Ok(pkt)
    }

    /// Gives all buffers back.
    pub(super) fn leave(&mut self, pool: &mut Pool) {
        let first = self.places.iter_mut().filter_map(|place| place.first.take());
        first.chain(self.spare.drain(..)).for_each(|pkt| pool.give(pkt));
        self.account.take().into_iter().for_each(|account| pool.close_ring(account));
    }
}
