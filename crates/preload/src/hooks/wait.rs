//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! Calls that wait for readiness. The kernel answers them, and says that a socket is readable whose next message is about an error:
//! `POLLERR` is told instead of that, as long as the queue of errors holds something. A program that has not asked for errors
//! (`IP_RECVERR`, `IPV6_RECVERR`) calls libc.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

use core::ffi::c_int;
use core::slice;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use libc::{epoll_event, nfds_t, pollfd, sigset_t, timespec};
use rustix::io::Errno;

use super::names::next;
use crate::{datagram, sys};

/// The process has asked for errors of datagrams.
static WANTS_ERRORS: AtomicBool = AtomicBool::new(false);

/// Notes that an option is set.
pub(super) fn note_option(level: c_int, option: c_int) {
    let pair = (level, option);
    if pair == (libc::IPPROTO_IP, libc::IP_RECVERR) || pair == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) {
        WANTS_ERRORS.store(true, Ordering::Relaxed);
    }
}

/// Whether the next message of a descriptor is about an error.
fn is_error_next(fd: c_int) -> bool {
    let Some((own, name)) = sys::borrow(fd).and_then(|own| Some((own, datagram::name_if_any(own)?))) else {
        return false;
    };
    let before = sys::errno();
    let is_next = program::datagram::is_error_next(own, &name);
    sys::set_errno(before);
    is_next
}

/// Says `POLLERR` of what the kernel has called readable.
///
/// # Safety
/// There are `count` places.
unsafe fn correct(places: *mut pollfd, count: nfds_t, ready: c_int) -> c_int {
    if ready <= 0 || !WANTS_ERRORS.load(Ordering::Relaxed) {
        return ready;
    }
    let Ok(count) = usize::try_from(count) else { return ready };
    // SAFETY: the caller's promise.
    for place in unsafe { slice::from_raw_parts_mut(places, count) } {
        if place.revents & libc::POLLIN != 0 && is_error_next(place.fd) {
            place.revents = place.revents & !(libc::POLLIN | libc::POLLRDNORM) | libc::POLLERR;
        }
    }
    ready
}

type Poll = unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int;
type Ppoll = unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
type EpollWait = unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
type EpollPwait = unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;

/// `poll(2)`
///
/// # Safety
/// As of `poll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(places: *mut pollfd, count: nfds_t, within: c_int) -> c_int {
    static LIBC: OnceLock<Option<Poll>> = OnceLock::new();
    // SAFETY: the symbol of this name is a function of this type.
    let Some(poll) = *LIBC.get_or_init(|| unsafe { next(c"poll") }) else { return sys::fail(Errno::NOSYS) };
    // SAFETY: the program's promise.
    let ready = unsafe { poll(places, count, within) };
    // SAFETY: the program's promise.
    unsafe { correct(places, count, ready) }
}

/// `poll(2)`, as a fortified program calls it.
///
/// # Safety
/// As of `poll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(places: *mut pollfd, count: nfds_t, within: c_int, room: usize) -> c_int {
    fortified(count, room);
    // SAFETY: the program's promise.
    unsafe { poll(places, count, within) }
}

/// `ppoll(2)`
///
/// # Safety
/// As of `ppoll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    places: *mut pollfd,
    count: nfds_t,
    within: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    static LIBC: OnceLock<Option<Ppoll>> = OnceLock::new();
    // SAFETY: the symbol of this name is a function of this type.
    let Some(ppoll) = *LIBC.get_or_init(|| unsafe { next(c"ppoll") }) else {
        return sys::fail(Errno::NOSYS);
    };
    // SAFETY: the program's promise.
    let ready = unsafe { ppoll(places, count, within, mask) };
    // SAFETY: the program's promise.
    unsafe { correct(places, count, ready) }
}

/// `ppoll(2)`, as a fortified program calls it.
///
/// # Safety
/// As of `ppoll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    places: *mut pollfd,
    count: nfds_t,
    within: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    fortified(count, room);
    // SAFETY: the program's promise.
    unsafe { ppoll(places, count, within, mask) }
}

/// Ends a program that has less room than it says, as libc does.
fn fortified(count: nfds_t, room: usize) {
    if usize::try_from(count).is_ok_and(|count| count > room / size_of::<pollfd>()) {
        std::process::abort();
    }
}

/// Descriptors of which it is known in which set of `epoll` they are: the last one of those whose numbers differ by a multiple of this.
const KNOWN_MAX: usize = 1024;

/// A descriptor in a set, as the program has put it there last. What was closed since is still here.
struct Known {
    /// The set and the descriptor; 0: none.
    pair: AtomicU64,
    events: AtomicU32,
    /// The word that the program gets with its events.
    data: AtomicU64,
}

static KNOWN: [Known; KNOWN_MAX] =
    [const { Known { pair: AtomicU64::new(0), events: AtomicU32::new(0), data: AtomicU64::new(0) } };
        KNOWN_MAX];

/// A set and a descriptor as one word, which is never 0.
fn pair_of(set: c_int, fd: c_int) -> u64 {
    u64::from(set.cast_unsigned()) << 32 | u64::from(fd.cast_unsigned()) | 1 << 63
}

fn known(fd: c_int) -> Option<&'static Known> {
    KNOWN.get(usize::try_from(fd).ok()? % KNOWN_MAX)
}

/// The set that a descriptor has left, since another socket comes in its place.
pub(crate) struct Left {
    set: c_int,
    event: epoll_event,
}

/// Takes a descriptor out of its set.
pub(crate) fn leave(fd: c_int) -> Option<Left> {
    let place = known(fd)?;
    let pair = place.pair.load(Ordering::Relaxed);
    let set = c_int::try_from(pair >> 32 & u64::from(u32::MAX >> 1)).ok()?;
    if pair != pair_of(set, fd) {
        return None;
    }
    let event =
        epoll_event { events: place.events.load(Ordering::Relaxed), u64: place.data.load(Ordering::Relaxed) };
    let before = sys::errno();
    // It fails for one that was closed since.
    let done = ctl(set, libc::EPOLL_CTL_DEL, fd, event);
    sys::set_errno(before);
    (done == 0).then_some(Left { set, event })
}

/// Puts a descriptor into the set that it has left.
pub(crate) fn enter(fd: c_int, Left { set, event }: Left) {
    let before = sys::errno();
    ctl(set, libc::EPOLL_CTL_ADD, fd, event);
    sys::set_errno(before);
}

fn ctl(set: c_int, what: c_int, fd: c_int, mut event: epoll_event) -> isize {
    let [set, what, number] = [set, what, fd].map(super::word);
    sys::call(libc::SYS_epoll_ctl, [set, what, number, (&raw mut event) as usize, 0, 0])
}

/// `epoll_ctl(2)`
///
/// # Safety
/// As of `epoll_ctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(set: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    let done = super::kernel(
        libc::SYS_epoll_ctl,
        [super::word(set), super::word(what), super::word(fd), event as usize, 0, 0],
    );
    let Some(place) = known(fd).filter(|_| done == 0) else { return done };
    // SAFETY: the program's promise: the kernel has read it.
    match unsafe { event.as_ref() } {
        Some(event) if what != libc::EPOLL_CTL_DEL => {
            place.events.store(event.events, Ordering::Relaxed);
            place.data.store(event.u64, Ordering::Relaxed);
            place.pair.store(pair_of(set, fd), Ordering::Relaxed);
        }
        _ => {
            let pair = pair_of(set, fd);
            let _ = place.pair.compare_exchange(pair, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
    done
}

/// `epoll_wait(2)`
///
/// # Safety
/// As of `epoll_wait(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    within: c_int,
) -> c_int {
    static LIBC: OnceLock<Option<EpollWait>> = OnceLock::new();
    // SAFETY: the symbol of this name is a function of this type.
    let Some(epoll_wait) = *LIBC.get_or_init(|| unsafe { next(c"epoll_wait") }) else {
        return sys::fail(Errno::NOSYS);
    };
    // SAFETY: the program's promise.
    let ready = unsafe { epoll_wait(set, events, most, within) };
    // SAFETY: the program's promise.
    unsafe { correct_events(set, events, ready) }
}

/// `epoll_pwait(2)`
///
/// # Safety
/// As of `epoll_pwait(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    within: c_int,
    mask: *const sigset_t,
) -> c_int {
    static LIBC: OnceLock<Option<EpollPwait>> = OnceLock::new();
    // SAFETY: the symbol of this name is a function of this type.
    let Some(epoll_pwait) = *LIBC.get_or_init(|| unsafe { next(c"epoll_pwait") }) else {
        return sys::fail(Errno::NOSYS);
    };
    // SAFETY: the program's promise.
    let ready = unsafe { epoll_pwait(set, events, most, within, mask) };
    // SAFETY: the program's promise.
    unsafe { correct_events(set, events, ready) }
}

/// Says `EPOLLERR` of what the kernel has called readable.
///
/// # Safety
/// There are `ready` events.
unsafe fn correct_events(set: c_int, events: *mut epoll_event, ready: c_int) -> c_int {
    let Ok(count) = usize::try_from(ready) else { return ready };
    if count == 0 || !WANTS_ERRORS.load(Ordering::Relaxed) {
        return ready;
    }
    let (readable, error) = (libc::EPOLLIN.cast_unsigned(), libc::EPOLLERR.cast_unsigned());
    // SAFETY: the caller's promise.
    for event in unsafe { slice::from_raw_parts_mut(events, count) } {
        let (data, told) = (event.u64, event.events);
        let is_it = |place: &&Known| {
            let of_set = place.pair.load(Ordering::Relaxed) >> 32 == pair_of(set, 0) >> 32;
            of_set && place.data.load(Ordering::Relaxed) == data
        };
        let fd = KNOWN.iter().find(is_it).map(|place| place.pair.load(Ordering::Relaxed));
        let fd = fd.and_then(|pair| c_int::try_from(pair & u64::from(u32::MAX)).ok());
        if told & readable != 0 && fd.is_some_and(is_error_next) {
            event.events = told & !readable | error;
        }
    }
    ready
}
