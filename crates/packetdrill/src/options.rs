//! Options of sockets: Linux' numbers and layouts, and the names that the machine knows them by.

use core::ffi::c_int;
use core::time::Duration;

use sim::drill::{Description, Machine, Value};

use crate::errno::Code;
use crate::info;

/// Options of Linux that the machine has, with their levels.
const NAMES: &[(c_int, c_int, &str)] = &[
    (libc::SOL_SOCKET, libc::SO_DEBUG, "SO_DEBUG"),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, "SO_REUSEADDR"),
    (libc::SOL_SOCKET, libc::SO_ERROR, "SO_ERROR"),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, "SO_BROADCAST"),
    (libc::SOL_SOCKET, libc::SO_SNDBUF, "SO_SNDBUF"),
    (libc::SOL_SOCKET, libc::SO_RCVBUF, "SO_RCVBUF"),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, "SO_KEEPALIVE"),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, "SO_OOBINLINE"),
    (libc::SOL_SOCKET, libc::SO_LINGER, "SO_LINGER"),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, "SO_REUSEPORT"),
    (libc::SOL_SOCKET, libc::SO_ACCEPTCONN, "SO_ACCEPTCONN"),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, "TCP_NODELAY"),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG, "TCP_MAXSEG"),
    (libc::IPPROTO_TCP, libc::TCP_CORK, "TCP_CORK"),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, "TCP_KEEPIDLE"),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, "TCP_KEEPINTVL"),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, "TCP_KEEPCNT"),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION, "TCP_CONGESTION"),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT"),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, "TCP_FASTOPEN"),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, "TCP_FASTOPEN_CONNECT"),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, "TCP_SYNCNT"),
    (libc::IPPROTO_IP, libc::IP_TOS, "IP_TOS"),
    (libc::IPPROTO_IP, libc::IP_TTL, "IP_TTL"),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, "IPV6_UNICAST_HOPS"),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, "IPV6_V6ONLY"),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, "IPV6_TCLASS"),
];

/// Linux' names of algorithms have so many bytes, with zeros behind them.
const ALGORITHM_LEN: usize = 16;
/// State of the congestion control algorithm: ours report none.
const TCP_CC_INFO: c_int = 26;
/// Memory of a socket, as nine numbers: the first, the second and the fourth are known.
const SO_MEMINFO: c_int = 55;

fn name(level: c_int, option: c_int) -> Result<&'static str, Code> {
    let found = NAMES.iter().find(|(l, o, _)| (*l, *o) == (level, option));
    found.map(|(_, _, name)| *name).ok_or(Code(libc::ENOPROTOOPT))
}

/// Sets an option to what stands in `bytes`.
pub(crate) fn set(
    machine: &mut Machine,
    fd: c_int,
    (level, option): (c_int, c_int),
    bytes: &[u8],
) -> Result<(), Code> {
    let name = name(level, option)?;
    if name == "TCP_CONGESTION" {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        return Ok(machine.set_algorithm(fd, &bytes[..end])?);
    }
    let value = number(bytes, 0).ok_or(Code(libc::EINVAL))?;
    if name == "SO_LINGER" {
        let secs = u64::try_from(number(bytes, 1).ok_or(Code(libc::EINVAL))?).unwrap_or(0);
        return Ok(machine.set_linger(fd, (value != 0).then(|| Duration::from_secs(secs)))?);
    }
    if matches!(name, "SO_ERROR" | "SO_ACCEPTCONN") {
        return Err(Code(libc::ENOPROTOOPT));
    }
    Ok(machine.set_option(fd, name, value.into())?)
}

/// The number in this place of an array of them.
fn number(bytes: &[u8], at: usize) -> Option<c_int> {
    Some(c_int::from_ne_bytes(bytes.get(4 * at..4 * at + 4)?.try_into().ok()?))
}

/// The bytes of an option's value.
pub(crate) fn get(machine: &mut Machine, fd: c_int, level: c_int, option: c_int) -> Result<Vec<u8>, Code> {
    match (level, option) {
        (libc::IPPROTO_TCP, libc::TCP_INFO) => return Ok(info::bytes(&machine.describe(fd)?)),
        (libc::IPPROTO_TCP, TCP_CC_INFO) => return Ok(machine.describe(fd).map(|_| Vec::new())?),
        (libc::SOL_SOCKET, SO_MEMINFO) => return memory(machine, fd),
        _ => {}
    }
    Ok(match machine.option(fd, name(level, option)?)? {
        Value::Number(number) => c_int::try_from(number).unwrap_or(c_int::MAX).to_ne_bytes().to_vec(),
        Value::Error(errno) => errno.map_or(0, |errno| Code::from(errno).0).to_ne_bytes().to_vec(),
        Value::Text(text) => {
            let mut bytes = linux_name(text).as_bytes().to_vec();
            bytes.resize(ALGORITHM_LEN, 0);
            bytes
        }
        Value::Linger(linger) => {
            let secs = linger.map_or(0, |linger| c_int::try_from(linger.as_secs()).unwrap_or(c_int::MAX));
            [c_int::from(linger.is_some()).to_ne_bytes(), secs.to_ne_bytes()].concat()
        }
    })
}

/// The name that Linux has for what we call by FreeBSD's.
fn linux_name(name: &str) -> &str {
    if name == "newreno" { "reno" } else { name }
}

fn memory(machine: &mut Machine, fd: c_int) -> Result<Vec<u8>, Code> {
    let (waiting, unacknowledged) = machine.queued(fd)?;
    let size = |machine: &mut Machine, name| match machine.option(fd, name) {
        Ok(Value::Number(size)) => usize::try_from(size).unwrap_or(0),
        _ => 0,
    };
    let (receive, send) = (size(machine, "SO_RCVBUF"), size(machine, "SO_SNDBUF"));
    let all = [waiting, receive, unacknowledged, send, 0, unacknowledged, 0, 0, 0];
    Ok(all.iter().flat_map(|size| u32::try_from(*size).unwrap_or(u32::MAX).to_ne_bytes()).collect())
}

/// Bytes that the program has sent, and that are not on the wire yet.
pub(crate) fn unsent(description: &Description) -> usize {
    description.known.map_or(0, |(known, _)| usize::try_from(known.unsent).unwrap_or(usize::MAX))
}
