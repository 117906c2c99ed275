//! A stack that starts and stops again and again leaves nothing in its process. Alone in its process, because it counts
//! what that has.

use crate::stack::caller::{Caller, SERVER, is_heard, pair};
use crate::stack::resources::{assert_has_no_more_than, has};

const TIMES: usize = 100;
/// Times after which everything that is made once, and kept, has been made.
const FIRST: usize = 10;
/// Bytes of address space that the allocator may come to keep; the buffers of one stack alone are more.
const SLACK: u64 = 64 << 20;

/// Bytes that are mapped.
fn mapped() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    // Pages of x86 and of most others; any size would do to compare.
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    pages * 4096
}

fn a_stack_that_starts_and_stops_a_hundred_times_leaves_no_thread_no_descriptor_and_no_memory() {
    let mut before = None;
    for time in 0..TIMES {
        if time == FIRST {
            before = Some((has(), mapped()));
        }
        let [server, client] = pair([2, 1]);
        // IPv6 addresses take a second until duplicate address detection has ended.
        let address = SERVER[usize::from(time % 10 == 0)];
        assert!(is_heard(&client, 0, address, 20_000));
        // In the middle of a conversation, either way round.
        let (caller, _told) = Caller::new(address, usize::MAX);
        client.begin(0, Box::new(caller)).unwrap();
        let [first, second] = if time % 2 == 0 { [server, client] } else { [client, server] };
        first.stop().unwrap();
        drop(second);
    }
    let (had, was_mapped) = before.unwrap();
    assert_has_no_more_than(&had);
    assert!(mapped() < was_mapped + SLACK, "{} of address space, {was_mapped} before", mapped());
}

harness::tests![; alone: a_stack_that_starts_and_stops_a_hundred_times_leaves_no_thread_no_descriptor_and_no_memory];
