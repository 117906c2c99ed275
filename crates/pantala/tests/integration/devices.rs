//! A stack starts and stops again and again on each kind of device, and leaves nothing: in its process, on the machine, or on
//! what lies behind the device. Each in a process of its own, because it counts what the process has.

mod files;
mod kernel;
mod shared;

use crate::stack::resources::{Has, assert_has_no_more_than, has};

const TIMES: usize = 20;
/// Times after which everything that is made once, and kept, has been made.
const FIRST: usize = 3;

/// Does something so often, which each time leaves the process as it was.
fn again_and_again(mut what: impl FnMut(usize)) {
    let mut before: Option<Has> = None;
    for time in 0..TIMES {
        if time == FIRST {
            before = Some(has());
        }
        what(time);
    }
    assert_has_no_more_than(&before.unwrap());
}

harness::modules![files, kernel, shared];
