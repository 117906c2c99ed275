//! The hosts that there are. packetdrill has a number for its one, and no pointer: a number that is none does no harm.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::errno::Code;
use crate::host::Host;

/// By their numbers; one whose flags were wrong is none.
type Hosts = BTreeMap<usize, Option<Arc<Host>>>;

static HOSTS: Mutex<Hosts> = Mutex::new(Hosts::new());
/// The last number given: each is given once, so that it is not reused for another host.
static LAST: AtomicUsize = AtomicUsize::new(0);

fn hosts() -> MutexGuard<'static, Hosts> {
    HOSTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a host a number, which is never 0.
pub(crate) fn add(host: Option<Host>) -> usize {
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    hosts().insert(number, host.map(Arc::new));
    number
}

/// The host of a number.
pub(crate) fn get(number: usize) -> Result<Arc<Host>, Code> {
    hosts().get(&number).and_then(Option::clone).ok_or(Code(libc::EINVAL))
}

/// The host that a descriptor is of.
pub(crate) fn of(fd: c_int) -> Option<Arc<Host>> {
    all().into_iter().find(|host| host.has(fd))
}

fn all() -> Vec<Arc<Host>> {
    hosts().values().flatten().cloned().collect()
}

/// The host, if there is one and no other.
pub(crate) fn only() -> Option<Arc<Host>> {
    let mut all = all();
    if all.len() == 1 { all.pop() } else { None }
}

/// There is no host of this number any more.
pub(crate) fn remove(number: usize) {
    let host = hosts().remove(&number);
    drop(host);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_once() {
        let [first, second] = [(); 2].map(|()| {
            let number = add(None);
            remove(number);
            number
        });
        assert_ne!(first, second, "who has gone could end who came");
    }
}
