//! Buffers that grow, and those that do not.

use super::super::*;
use super::{DELAY, Pair, bytes};
use crate::settings::Change;

/// Carries a megabyte; answers the buffers at the end: the sender's and the receiver's.
fn carry(change: impl Fn(&mut Tcb, Instant)) -> (u32, u32) {
    let mut pair = Pair::established();
    let now = pair.now;
    pair.ends.iter_mut().for_each(|end| change(end, now));
    let (all, mut sent, mut read) = (bytes(1_000_000), 0, 0);
    while read < all.len() {
        sent += pair.ends[0].send(&all[sent..]);
        read += pair.ends[1].read(&mut [0; 100_000]);
        pair.flush();
        assert!(pair.step().is_some() || pair.ends[1].readable() + read == all.len(), "it goes on");
    }
    (pair.ends[0].send_buffer(), pair.ends[1].receive_buffer())
}

#[test]
fn buffers_grow_until_they_hold_what_the_path_carries() {
    let (send, receive) = carry(|_, _| ());
    assert!(send > 100_000 && receive > 200_000, "{send} {receive}");
}

#[test]
fn buffers_that_the_program_has_chosen_stay() {
    let (send, receive) = carry(|end, now| {
        end.change(Change::ReceiveBuffer(65_536), now);
        end.change(Change::SendBuffer(32_768), now);
    });
    assert_eq!((send, receive), (33_580, 65_700));
}

#[test]
fn no_buffer_grows_beyond_its_bound() {
    let bounded = Settings { receive_buffer_max: 100_000, send_buffer_max: 50_000, ..Settings::default() };
    let mut pair = Pair::begin([bounded; 2], 0, 1);
    let sent = bytes(1_000_000);
    assert!(pair.transfer(&sent) == sent);
    let bound = |most: u32| most.next_multiple_of(1460);
    assert!(pair.ends[0].send_buffer() <= bound(50_000) && pair.ends[1].receive_buffer() <= bound(100_000));
}

#[test]
fn a_program_that_does_not_read_gets_no_larger_buffer() {
    let mut pair = Pair::established();
    let mut sent = 0;
    for _ in 0..200 {
        sent += pair.ends[0].send(&bytes(10_000));
        pair.flush();
        pair.run_for(DELAY);
    }
    assert!(
        sent > 65_700 && pair.ends[1].receive_buffer() <= 2 * 65_700,
        "{}",
        pair.ends[1].receive_buffer()
    );
}
