use core::sync::atomic::Ordering;
use std::sync::Arc;

use super::*;

#[test]
fn words_are_zero_and_keep_what_is_stored() {
    // Miri takes its time for each word.
    let len = if cfg!(miri) { 500 } else { 5000 };
    let words = Words::zeroed(len).unwrap();
    assert_eq!(words.len(), len);
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    for (word, n) in words.iter().zip(0..) {
        word.store(n, Ordering::Relaxed);
    }
    assert_eq!(usize::try_from(words[len - 1].load(Ordering::Relaxed)), Ok(len - 1));
    assert_eq!(words.as_ptr().addr() % 64, 0, "on a cache line");
}

#[test]
fn anything_can_be_prefetched() {
    let words = Words::zeroed(1).unwrap();
    for at in [0, 1, 1 << 40, usize::MAX] {
        words.prefetch(at);
    }
    assert_eq!(words[0].load(Ordering::Relaxed), 0);
}

#[test]
fn a_byte_leads_to_its_word_and_its_line() {
    let words = Words::zeroed(40).unwrap();
    for (word, n) in words.iter().zip(0..) {
        word.store(n, Ordering::Relaxed);
    }
    for (at, word) in [(0, 0), (3, 0), (4, 1), (67, 16), (159, 39)] {
        assert_eq!(words.word(at).load(Ordering::Relaxed), word);
        assert!(core::ptr::eq(words.line(at).as_ptr(), &raw const words[word as usize / 16 * 16]));
    }
}

#[test]
fn a_byte_that_there_is_not_leads_to_what_is_there_anyway() {
    for len in [0, 1, 16, 40, 64] {
        let words = Words::zeroed(len).unwrap();
        for at in [160, 255, 256, 1 << 20, u32::MAX] {
            assert_eq!(words.word(at).load(Ordering::Relaxed), 0);
            assert!(words.line(at).iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }
    }
}

#[test]
fn no_words_are_an_empty_array() {
    assert!(Words::zeroed(0).unwrap().is_empty());
}

#[test]
fn more_than_the_address_space_is_an_error() {
    assert!(Words::zeroed(usize::MAX).is_err());
    assert!(Words::zeroed(usize::MAX / 8).is_err());
}

/// The contract of tables: the content of a node is stored first, then its index with Release; a reader that loads the index
/// with Acquire, or depends on it, sees the content.
#[test]
fn what_is_published_is_whole() {
    let words = Arc::new(Words::zeroed(64 * 16).unwrap());
    let reader = Arc::clone(&words);
    let reader = std::thread::spawn(move || {
        loop {
            let node = reader[0].load(Ordering::Acquire) as usize;
            if node != 0 {
                assert!(reader[node..node + 16].iter().all(|word| word.load(Ordering::Relaxed) == 7));
            }
            if node == 63 * 16 {
                return;
            }
            core::hint::spin_loop();
        }
    });
    for node in 1..64u32 {
        let at = node as usize * 16;
        words[at..at + 16].iter().for_each(|word| word.store(7, Ordering::Relaxed));
        words[0].store(node * 16, Ordering::Release);
    }
    reader.join().unwrap();
}
