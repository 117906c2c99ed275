//! A stack starts and stops again and again on each kind of device, and leaves nothing: in its process, on the machine, or on
//! what lies behind the device. Alone in this program, because it counts what the process has, and one test after the other.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../stack/caller.rs"]
#[expect(dead_code, reason = "wires in memory are tested elsewhere")]
mod caller;
mod files;
#[path = "../stack/has.rs"]
mod has;
mod kernel;
mod shared;

use std::sync::{Mutex, PoisonError};

use has::{Has, has};

const TIMES: usize = 20;
/// Times after which everything that is made once, and kept, has been made.
const FIRST: usize = 3;

static ALONE: Mutex<()> = Mutex::new(());

/// Does something so often, which each time leaves the process as it was.
fn again_and_again(mut what: impl FnMut(usize)) {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut before: Option<Has> = None;
    for time in 0..TIMES {
        if time == FIRST {
            before = Some(has());
        }
        what(time);
    }
    assert_eq!(Some(has()), before);
    drop(alone);
}

harness::main![files, kernel, shared];
