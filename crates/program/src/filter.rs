//! Whole source filters of groups: `IP_MSFILTER` and `MCAST_MSFILTER` (RFC 3678 §4.2 and §5.2).

use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr};

use rustix::io::Errno;
use wire::program::{Group, Name, SENDERS_MAX, own_number};

use crate::addr;
use crate::daemon::{ask_filter, set_filter};

/// Options that libc does not have.
const IP_MSFILTER: c_int = 41;
const MCAST_MSFILTER: c_int = 48;

/// Filters: all but the senders, or these (`MCAST_EXCLUDE`, `MCAST_INCLUDE`).
const EXCLUDE: u32 = 0;
const INCLUDE: u32 = 1;

/// Bytes of an address with room for any.
const STORAGE: usize = size_of::<libc::sockaddr_storage>();
/// Bytes in front of the senders of `struct ip_msfilter`, and of `struct group_filter`, whose address stands at a multiple of eight.
const HEADER_V4: usize = 16;
const HEADER_ANY: usize = 8 + STORAGE + 8;
/// Bytes of a filter at the most.
pub const VALUE_MAX: usize = HEADER_ANY + SENDERS_MAX * STORAGE;

/// Whether an option is a whole filter.
#[must_use]
pub const fn is_whole(option: (c_int, c_int)) -> bool {
    matches!(
        option,
        (libc::IPPROTO_IP, IP_MSFILTER) | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_MSFILTER)
    )
}

/// The place of a filter in memory.
struct Layout {
    /// Where its mode is, and the number of its senders behind it.
    mode_at: usize,
    /// Bytes in front of its senders, and of each.
    header: usize,
    each: usize,
    is_v4: bool,
}

impl Layout {
    const fn of(option: c_int) -> Self {
        match option {
            IP_MSFILTER => Self { mode_at: 8, header: HEADER_V4, each: 4, is_v4: true },
            _ => Self { mode_at: 8 + STORAGE, header: HEADER_ANY, each: STORAGE, is_v4: false },
        }
    }

    fn group(&self, bytes: &[u8]) -> Option<Group> {
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        if self.is_v4 {
            let v4 = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<4>()?));
            return Some(Group { ip: v4(0)?, addr: v4(4)?, interface: 0 });
        }
        let ip = bytes.get(8..).and_then(addr::parse)?.ip();
        Some(Group { ip, addr: unspecified, interface: own_number(number(bytes, 0)?) })
    }

    fn sender(&self, bytes: &[u8]) -> Option<IpAddr> {
        if self.is_v4 {
            Some(IpAddr::from(*bytes.first_chunk::<4>()?))
        } else {
            Some(addr::parse(bytes)?.ip())
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Sets the filter of a group that the socket listens to. One that includes no sender leaves the group.
///
/// # Errors
/// `EINVAL` of what is no filter, or of a group that it does not listen to; `ENOBUFS` of more senders than there may be.
pub fn set(name: &Name, option: c_int, bytes: &[u8]) -> Result<(), Errno> {
    let layout = Layout::of(option);
    let group = layout.group(bytes).ok_or(Errno::INVAL)?;
    let mode = number(bytes, layout.mode_at).filter(|mode| matches!(*mode, EXCLUDE | INCLUDE));
    let count = number(bytes, layout.mode_at + 4).ok_or(Errno::INVAL)?;
    let count = usize::try_from(count).ok().filter(|count| *count <= SENDERS_MAX).ok_or(Errno::NOBUFS)?;
    let senders = bytes.get(layout.header..layout.header + count * layout.each).ok_or(Errno::INVAL)?;
    let senders: Option<Vec<_>> = senders.chunks_exact(layout.each).map(|each| layout.sender(each)).collect();
    set_filter(name.id, group, mode.ok_or(Errno::INVAL)? == EXCLUDE, &senders.ok_or(Errno::INVAL)?)
}

/// Returns the filter of the group that `given` names, with as many senders as it has room for, and their number.
///
/// # Errors
/// `EINVAL` of what is too short; `EADDRNOTAVAIL` of a group that the socket does not listen to.
pub fn get(name: &Name, option: c_int, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let layout = Layout::of(option);
    let group = layout.group(given).ok_or(Errno::INVAL)?;
    let room = number(given, layout.mode_at + 4).ok_or(Errno::INVAL)?;
    let (excludes, senders) = ask_filter(name.id, group)?;
    let mut value = given.get(..layout.mode_at).unwrap_or_default().to_vec();
    value.extend(if excludes { EXCLUDE } else { INCLUDE }.to_ne_bytes());
    value.extend(u32::try_from(senders.len()).unwrap_or(0).to_ne_bytes());
    for sender in senders.iter().take(usize::try_from(room).unwrap_or(0)) {
        match sender {
            IpAddr::V4(sender) if layout.is_v4 => value.extend(sender.octets()),
            sender => {
                let (bytes, len) = addr::emit((*sender, 0).into());
                value.extend(bytes.get(..len).unwrap_or_default());
                value.resize(value.len() + STORAGE - len, 0);
            }
        }
    }
    Ok(value)
}
