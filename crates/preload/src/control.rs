//! Unsafe: reads and writes control messages where a program's `struct msghdr` says they are.
//!
//! Control messages of datagrams: addresses and interfaces, time to live, type of service.
#![expect(unsafe_code, reason = "memory of the program, through the pointers of its call")]

use core::ffi::{c_int, c_void};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::slice;

use libc::msghdr;
use wire::program::Head;

/// Bytes of `struct cmsghdr`, and of what each message is aligned to.
const HEADER: usize = 16;
const ALIGN: usize = 8;
/// Bytes of the control messages of a datagram at the most.
const MOST: usize = 128;

/// Reads what a program says of a datagram that it sends.
///
/// # Safety
/// `message` is as `sendmsg(2)` needs it.
pub(crate) unsafe fn read(message: &msghdr, head: &mut Head) {
    if message.msg_control.is_null() {
        return;
    }
    let (start, len) = (message.msg_control.cast::<u8>(), message.msg_controllen);
    // SAFETY: the caller's promise.
    let mut rest = unsafe { slice::from_raw_parts(start, len) };
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER>() {
        let (len, kind) = header.split_at(8);
        let len = usize::from_ne_bytes(len.try_into().unwrap_or_default());
        let Some(data) = len.checked_sub(HEADER).and_then(|len| behind.get(..len)) else { return };
        let [level, kind] = [&kind[..4], &kind[4..]].map(number);
        take(head, (level, kind), data);
        rest = rest.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
}

fn take(head: &mut Head, kind: (c_int, c_int), data: &[u8]) {
    match kind {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let Some((interface, rest)) = data.split_first_chunk::<4>() else { return };
            let Some(source) = rest.first_chunk::<4>() else { return };
            head.interface = u32::from_ne_bytes(*interface);
            head.local = Ipv4Addr::from(*source).into();
            head.details.local = true;
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let Some((source, rest)) = data.split_first_chunk::<16>() else { return };
            let Some(interface) = rest.first_chunk::<4>() else { return };
            head.interface = u32::from_ne_bytes(*interface);
            head.local = Ipv6Addr::from(*source).into();
            head.details.local = true;
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            (head.hops, head.details.hops) = (low(number(data)), number(data) > 0);
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            let value = if data.len() == 1 { data[0].into() } else { number(data) };
            (head.class, head.details.class) = (low(value), value >= 0);
        }
        _ => {}
    }
}

fn number(bytes: &[u8]) -> c_int {
    bytes.first_chunk().map_or(-1, |number| c_int::from_ne_bytes(*number))
}

fn low(value: c_int) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

/// Writes what the program wants to know of a datagram that it has received.
///
/// # Safety
/// `place` and `room` are those of the `struct msghdr` that the program passed.
pub(crate) unsafe fn write(head: &Head, message: &mut msghdr, place: *mut c_void, room: usize) {
    let mut all = List { bytes: [0; MOST], len: 0, room, is_cut: false };
    let is_v4 = head.peer.is_ipv4();
    let interface = head.interface.to_ne_bytes();
    if head.details.local {
        match head.local {
            IpAddr::V4(local) if is_v4 => {
                let local = local.octets();
                all.push((libc::IPPROTO_IP, libc::IP_PKTINFO), &[&interface, &local, &local]);
            }
            IpAddr::V4(local) => {
                let local = local.to_ipv6_mapped().octets();
                all.push((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), &[&local, &interface]);
            }
            IpAddr::V6(local) => {
                all.push((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), &[&local.octets(), &interface]);
            }
        }
    }
    if head.details.hops {
        let kind =
            if is_v4 { (libc::IPPROTO_IP, libc::IP_TTL) } else { (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) };
        all.push(kind, &[&c_int::from(head.hops).to_ne_bytes()]);
    }
    if head.details.class {
        // IPv4's is a byte.
        if is_v4 {
            all.push((libc::IPPROTO_IP, libc::IP_TOS), &[&[head.class]]);
        } else {
            let class = c_int::from(head.class).to_ne_bytes();
            all.push((libc::IPPROTO_IPV6, libc::IPV6_TCLASS), &[&class]);
        }
    }
    if all.is_cut {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
    message.msg_controllen = all.len.min(room);
    if !place.is_null() {
        // SAFETY: the caller's promise; the bytes are ours, and no more than there is room for.
        unsafe { core::ptr::copy_nonoverlapping(all.bytes.as_ptr(), place.cast(), all.len.min(room)) };
    }
}

/// Control messages, each whole or not at all.
struct List {
    bytes: [u8; MOST],
    len: usize,
    room: usize,
    is_cut: bool,
}

impl List {
    fn push(&mut self, (level, kind): (c_int, c_int), data: &[&[u8]]) {
        let len = HEADER + data.iter().map(|part| part.len()).sum::<usize>();
        let end = self.len + len.next_multiple_of(ALIGN);
        if self.len + len > self.room || end > MOST {
            self.is_cut = true;
            return;
        }
        let header = [&len.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes()];
        let mut at = self.len;
        for part in header.iter().chain(data) {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.len = end;
    }
}
