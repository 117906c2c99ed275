//! Frames on their way to the kernel, several at once.

use std::io::{self, IoSlice};

use pkt::{Pkt, PktVec};

use super::BUFFERS_MAX;
use super::describe::{header_for, is_ip};
use crate::sys::tun::TapQueue;
use crate::sys::uring::{self, BATCH, Uring};
use crate::sys::vnet_hdr::VNET_HDR_LEN;

/// Slices of all frames of a call, at the most: those of the longest frame, and of many that are short.
const SLICES: usize = BUFFERS_MAX + 1 + 3 * BATCH;

/// The outcome of a call.
#[derive(Default)]
pub(super) struct Sent {
    /// Frames at the front that have been dealt with.
    pub(super) done: usize,
    /// Frames of these that have gone.
    pub(super) frames: u64,
    /// Frames of these that were lost.
    pub(super) lost: u64,
    /// The next one cannot be taken now.
    pub(super) is_full: bool,
    pub(super) error: Option<io::Error>,
}

/// Sends frames from the front of `from`, which is not empty, without their link header of so many bytes.
///
/// If one cannot be taken now and those behind it have gone, it is lost: they are not sent twice. (The kernel takes all, unless
/// the send buffer of the queue was made smaller.)
pub(super) fn some(queue: &TapQueue, batch: Option<&mut Uring>, from: &PktVec, link_len: usize) -> Sent {
    let mut headers = [[0; VNET_HDR_LEN]; BATCH];
    let mut slices = [IoSlice::new(&[]); SLICES];
    let mut ends = [0; BATCH];
    let most = if batch.is_some() { BATCH } else { 1 };
    let mut count = 0;
    let mut used = 0;
    for ((pkt, header), end) in from.iter().take(most).zip(&mut headers).zip(&mut ends) {
        if link_len > 0 && !is_ip(pkt) {
            break;
        }
        *header = header_for(pkt, link_len).encode();
        let Some(place) = slices.get_mut(used..).and_then(|left| left.get_mut(..1 + pkt.buffers())) else {
            break;
        };
        fill(place, header, pkt, link_len);
        used += place.len();
        (*end, count) = (used, count + 1);
    }
    if count == 0 {
        // None of IP, or longer than any frame.
        return Sent { done: 1, lost: 1, ..Sent::default() };
    }
    let of = |at: usize| {
        let begin = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        slices.get(begin..ends.get(at).copied().unwrap_or(begin)).unwrap_or_default()
    };
    match batch.filter(|_| count > 1) {
        Some(batch) => match batch.write(queue, (0..count).map(of)) {
            Ok(answers) => outcome(answers.iter().take(count).map(|answer| uring::answer(*answer))),
            Err(error) => Sent { error: Some(error), ..Sent::default() },
        },
        None => outcome(core::iter::once(queue.writev(of(0)))),
    }
}

fn fill<'a>(place: &mut [IoSlice<'a>], header: &'a [u8], pkt: &'a Pkt, link_len: usize) {
    let mut skip = link_len;
    let parts = pkt.fragments().map(|part| part.get(core::mem::take(&mut skip)..).unwrap_or_default());
    for (slice, bytes) in place.iter_mut().zip(core::iter::once(header).chain(parts)) {
        *slice = IoSlice::new(bytes);
    }
}

/// Sums up the answers for frames.
fn outcome(answers: impl Iterator<Item = io::Result<Option<usize>>>) -> Sent {
    let mut sent = Sent::default();
    for (at, answer) in answers.enumerate() {
        // Those before it that could not be taken have been overtaken.
        let overtaken = (at - sent.done) as u64;
        match answer {
            Ok(Some(_)) => {
                (sent.done, sent.frames, sent.lost) = (at + 1, sent.frames + 1, sent.lost + overtaken)
            }
            Ok(None) => {}
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return Sent { error: Some(error), is_full: false, ..sent };
            }
            Err(error) => {
                (sent.done, sent.lost) = (at + 1, sent.lost + overtaken + 1);
                sent.error = Some(error);
            }
        }
        sent.is_full = sent.done <= at;
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_SUPPORTED: i32 = libc::EOPNOTSUPP;

    /// Frames dealt with, sent, lost; and whether the next is to wait.
    fn of(answers: &[i32]) -> (usize, u64, u64, bool) {
        let sent = outcome(answers.iter().map(|answer| uring::answer(*answer)));
        (sent.done, sent.frames, sent.lost, sent.is_full)
    }

    #[test]
    fn frames_that_went_are_done_and_the_first_that_cannot_be_taken_waits() {
        let (full, bad) = (-libc::EAGAIN, -libc::EINVAL);
        assert_eq!(of(&[60, 60, 60]), (3, 3, 0, false));
        assert_eq!(of(&[60, full, full]), (1, 1, 0, true));
        assert_eq!(of(&[full]), (0, 0, 0, true));
        assert_eq!(of(&[60, full, 60, full]), (3, 2, 1, true), "one was overtaken");
        assert_eq!(of(&[60, bad, 60]), (3, 2, 1, false));
        assert_eq!(of(&[bad, full]), (1, 0, 1, true));
    }

    #[test]
    fn nothing_is_lost_where_the_kernel_knows_no_batches() {
        assert_eq!(of(&[-NOT_SUPPORTED, -NOT_SUPPORTED]), (0, 0, 0, false));
    }
}
