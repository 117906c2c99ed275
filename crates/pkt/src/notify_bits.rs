//! Notification bits: one for each of many senders, which the receiver reads all at once.
//!
//! With many CPUs there are many rings into each, and nearly all are quiet. So a sender that has published to its ring
//! raises its [`Flag`], and the receiver looks into the rings of those whose flags are up: one load for every 64 senders,
//! which stays in its cache while no sender writes.
//!
//! # Why nothing is overlooked
//!
//! A sender publishes *before* it raises, the receiver takes flags down *before* it looks into rings. Raising is a Release
//! and taking down an Acquire operation on the same word, so a receiver that sees a flag sees what was published before. Another sender
//! that raises its own flag in the same word meanwhile does not come between: it reads and writes in one step, and such
//! steps continue what the first one released. What is published while the receiver looks raises the flag again, and
//! is looked for in the next turn; at worst nothing is found there.
//!
//! A flag is raised without looking whether it is up already. It could be just being taken down, by a receiver that has
//! not yet seen what was published last; only a full fence would exclude that, and costs as much.

use core::sync::atomic::Ordering;

use crossbeam_utils::CachePadded;

use crate::sync::{Arc, AtomicUsize};

/// A board for this many senders, and their flags, all of them down.
///
/// ```
/// let (mut board, flags) = pkt::notify_bits::board(100);
/// flags[3].raise();
/// flags[99].raise();
/// let mut raised = Vec::new();
/// board.take_down(|sender| raised.push(sender));
/// assert_eq!(raised, [3, 99]);
/// board.take_down(|sender| panic!("{sender} has raised nothing since"));
/// ```
#[must_use]
pub fn board(senders: usize) -> (Board, Vec<Flag>) {
    let words = senders.div_ceil(BITS);
    let words: Words = (0..words).map(|_| CachePadded::new(AtomicUsize::new(0))).collect();
    let words = Arc::new(words);
    let flags = (0..senders).map(|sender| Flag { words: words.clone(), sender });
    let flags = flags.collect();
    (Board { words }, flags)
}

type Words = Box<[CachePadded<AtomicUsize>]>;

/// Senders of one word.
const BITS: usize = usize::BITS as usize;

/// The receiver's end.
pub struct Board {
    words: Arc<Words>,
}

impl Board {
    /// Takes down the flags that are up, and says whose they were, in order.
    #[inline]
    pub fn take_down(&mut self, mut raised: impl FnMut(usize)) {
        for (at, word) in self.words.iter().enumerate() {
            // A load first: the line stays the receiver's, and the senders', while there is nothing to take down.
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut flags = word.swap(0, Ordering::Acquire);
            while flags != 0 {
                raised(at * BITS + flags.trailing_zeros() as usize);
                flags &= flags - 1;
            }
        }
    }

    /// Whether a flag is up. After a fence it is safe to sleep on the answer.
    #[inline]
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Acquire) != 0)
    }
}

/// A sender's end.
#[derive(Clone)]
pub struct Flag {
    words: Arc<Words>,
    sender: usize,
}

impl Flag {
    /// Call it after publishing: once for a batch, for it locks a line that all senders share.
    #[inline]
    pub fn raise(&self) {
        if let Some(word) = self.words.get(self.sender / BITS) {
            word.fetch_or(1 << (self.sender % BITS), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_down(board: &mut Board) -> Vec<usize> {
        let mut raised = Vec::new();
        board.take_down(|sender| raised.push(sender));
        raised
    }

    #[test]
    fn each_flag_is_taken_down_once_however_often_it_was_raised() {
        let (mut board, flags) = board(130);
        for sender in [129, 0, 63, 64, 0, 0] {
            flags[sender].raise();
        }
        assert_eq!(taken_down(&mut board), [0, 63, 64, 129]);
        assert_eq!(taken_down(&mut board), []);
        flags[64].raise();
        assert_eq!(taken_down(&mut board), [64]);
    }

    #[test]
    fn notify_bits_may_have_no_listener() {
        let (mut board, flags) = board(0);
        assert!(flags.is_empty());
        assert_eq!(taken_down(&mut board), []);
    }
}
