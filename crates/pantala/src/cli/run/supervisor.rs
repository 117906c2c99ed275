//! Answers the calls of programs, one after another; those that wait for a socket, when it is ready.

use core::time::Duration;
use std::io;
use std::time::Instant;

use dev::sys::notify::{Call, Listener};
use dev::sys::poll::{PollFd, PollFlags, wait};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::caller::{Interrupt, interrupt};
use super::calls::{Answer, Waiting, answer};

/// Time after which it is looked whether a thread whose call waits has a signal, or is gone.
const LOOK: Duration = Duration::from_millis(50);
/// Calls that wait at the most; one more fails.
const WAITING_MAX: usize = 4096;
/// `ERESTARTSYS`: the kernel does the call again, or not, as the handler of the signal was set up.
const RESTART: Errno = Errno::from_raw_os_error(512);

/// Answers calls for as long as the process lives.
///
/// # Errors
/// Calls can be received no more.
pub(super) fn run(listener: &Listener) -> io::Result<()> {
    let mut waiting = Bounded(Vec::<Waiting>::new());
    let mut looked = Instant::now();
    // Each call that waits needs a descriptor. The program has begun, and keeps its own limit.
    let _ = wait(&mut [PollFd::new(listener, PollFlags::IN)], None);
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    loop {
        let mut polled = vec![PollFd::new(listener, PollFlags::IN)];
        for call in &waiting.0 {
            let (socket, writes) = call.socket();
            polled
                .push(PollFd::from_borrowed_fd(socket, if writes { PollFlags::OUT } else { PollFlags::IN }));
        }
        wait(&mut polled, (!waiting.0.is_empty()).then_some(LOOK))?;
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(polled);
        let mut ready = ready.into_iter();
        let has_call = ready.next().unwrap_or(false);
        waiting.0.retain(|call| match ready.next() {
            Some(true) => still_waits(listener, call),
            _ => true,
        });
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            waiting.0.retain(|call| look(listener, call, looked));
        }
        if has_call && let Some(call) = listener.receive()? {
            let answered = answer(listener, &call);
            if let Some(more) = reply(listener, &call, answered)
                && let Err(why) = waiting.push(more)
            {
                let _ = listener.answer(call.id, Err(why));
            }
        }
    }
}

/// Calls that wait.
struct Bounded<T>(Vec<T>);

impl<T> Bounded<T> {
    /// Adds one; `ENOBUFS`: there is no room for it.
    fn push(&mut self, call: T) -> Result<(), Errno> {
        if self.0.len() >= WAITING_MAX {
            return Err(Errno::NOBUFS);
        }
        self.0.push(call);
        Ok(())
    }
}

/// Replies to a call, unless it waits. A thread that is gone needs no reply.
fn reply(listener: &Listener, call: &Call, answer: Result<Answer, Errno>) -> Option<Waiting> {
    let _ = match answer {
        Ok(Answer::Waits(waiting)) => return Some(waiting),
        Ok(Answer::Given) => Ok(()),
        Ok(Answer::Kernel) => listener.pass(call.id),
        Ok(Answer::Value(value)) => listener.answer(call.id, Ok(value)),
        Err(why) => listener.answer(call.id, Err(why)),
    };
    None
}

/// Answers a call whose socket is ready; true if it goes on to wait.
fn still_waits(listener: &Listener, waiting: &Waiting) -> bool {
    match waiting.go_on(listener) {
        // Another thread was faster.
        Err(Errno::AGAIN) => true,
        done => reply(listener, &waiting.call, done).is_some(),
    }
}

/// Whether a call goes on to wait: its thread is there, has no signal, and its time is not over.
fn look(listener: &Listener, waiting: &Waiting, now: Instant) -> bool {
    let id = waiting.call.id;
    if !listener.is_valid(id) {
        return false;
    }
    let why = if waiting.until.is_some_and(|until| until <= now) {
        waiting.late()
    } else {
        match interrupt(waiting.call.thread) {
            None => return true,
            Some(Interrupt::Own) => RESTART,
            Some(Interrupt::Shared) => Errno::INTR,
        }
    };
    let _ = listener.answer(id, Err(why));
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_calls_waits() {
        let mut waiting = Bounded(vec![0; WAITING_MAX - 1]);
        assert_eq!(waiting.push(1), Ok(()));
        assert_eq!(waiting.push(2), Err(Errno::NOBUFS));
        assert_eq!(waiting.0.len(), WAITING_MAX);
    }
}
