//! A stream that is longer than all numbers.

use super::*;
use crate::settings::Ecn;

/// Length of the transfer: a sequence number wraps after four gigabytes, and seems to lie ahead again after two.
const LENGTH: u64 = 7 << 30;
/// Routers mark packets once for each so many bytes.
const MARKED: u64 = 3 << 30;
/// Largest part sent and read at once.
const HANDFUL: usize = 1 << 20;
/// Each byte is the remainder of its position.
const PERIOD: usize = 251;

#[test]
fn a_stream_goes_on_when_its_numbers_run_round_and_is_slower_for_each_mark() {
    let settings = Settings { ecn: Ecn::Active, ..Settings::default() };
    let mut pair = Pair::begin([settings; 2], 0, 1);
    pair.run_for(3 * DELAY);
    let (pattern, mut some) = (bytes(HANDFUL + PERIOD), vec![0; HANDFUL]);
    let (mut sent, mut read, mut marks) = (0, 0, 0);
    while read < LENGTH {
        sent += pair.ends[0].send(&pattern[place(sent)..][..HANDFUL]) as u64;
        pair.flush();
        if sent >= marks * MARKED {
            let before = pair.ends[0].congestion.window();
            pair.is_marked = true;
            pair.run_for(DELAY);
            pair.is_marked = false;
            pair.run_for(DELAY);
            assert!(pair.ends[0].congestion.window() < before, "after {sent} bytes");
            marks += 1;
        }
        assert!(pair.step().is_some(), "nothing happens after {sent} bytes");
        let count = pair.ends[1].read(&mut some);
        assert!(some[..count] == pattern[place(read)..][..count], "after {read} bytes");
        read += count as u64;
        pair.seen.clear();
    }
    assert_eq!(marks, 3);
}

fn place(at: u64) -> usize {
    usize::try_from(at % PERIOD as u64).unwrap()
}
