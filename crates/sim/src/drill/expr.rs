//! Arguments and results of calls, as scripts write them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use drill::syscall::{Expr, ExprKind, Struct, StructKind};

/// Numbers that scripts write as names and that are compared as numbers; those of FreeBSD.
const NUMBERS: &[(&str, i64)] = &[
    ("O_RDONLY", 0),
    ("O_WRONLY", 1),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 4),
    ("POLLIN", 0x1),
    ("POLLPRI", 0x2),
    ("POLLOUT", 0x4),
    ("POLLWRNORM", 0x4),
    ("POLLERR", 0x8),
    ("POLLHUP", 0x10),
    ("POLLNVAL", 0x20),
    ("POLLRDNORM", 0x40),
    ("POLLRDBAND", 0x80),
    ("POLLWRBAND", 0x100),
    ("POLLRDHUP", 0x4000),
    ("IPTOS_LOWDELAY", 0x10),
    ("IPTOS_THROUGHPUT", 0x08),
    ("IPTOS_RELIABILITY", 0x04),
    ("IPTOS_MINCOST", 0x02),
    ("IPTOS_DSCP_CS0", 0),
    ("IPTOS_DSCP_CS1", 0x20),
    ("IPTOS_DSCP_AF11", 0x28),
    ("IPTOS_DSCP_AF12", 0x30),
    ("IPTOS_DSCP_AF13", 0x38),
    ("IPTOS_DSCP_CS2", 0x40),
    ("IPTOS_DSCP_AF21", 0x48),
    ("IPTOS_DSCP_AF22", 0x50),
    ("IPTOS_DSCP_AF23", 0x58),
    ("IPTOS_DSCP_CS3", 0x60),
    ("IPTOS_DSCP_AF31", 0x68),
    ("IPTOS_DSCP_AF32", 0x70),
    ("IPTOS_DSCP_AF33", 0x78),
    ("IPTOS_DSCP_CS4", 0x80),
    ("IPTOS_DSCP_AF41", 0x88),
    ("IPTOS_DSCP_AF42", 0x90),
    ("IPTOS_DSCP_AF43", 0x98),
    ("IPTOS_DSCP_CS5", 0xa0),
    ("IPTOS_DSCP_VA", 0xb0),
    ("IPTOS_DSCP_EF", 0xb8),
    ("IPTOS_DSCP_CS6", 0xc0),
    ("IPTOS_DSCP_CS7", 0xe0),
    ("IPTOS_ECN_NOTECT", 0),
    ("IPTOS_ECN_ECT1", 1),
    ("IPTOS_ECN_ECT0", 2),
    ("IPTOS_ECN_CE", 3),
    ("IPTOS_ECN_MASK", 3),
    ("INADDR_ANY", 0),
    ("NULL", 0),
];

/// The number of a constant of [`NUMBERS`].
pub(super) fn constant(name: &str) -> Option<i64> {
    NUMBERS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The number that an expression is.
///
/// # Errors
///
/// If it is none.
pub(super) fn number(expr: &Expr) -> Result<i64, String> {
    match &expr.kind {
        ExprKind::Integer(number) => Ok(*number),
        ExprKind::Htonl(number) => Ok((*number).into()),
        ExprKind::Htons(number) => Ok((*number).into()),
        ExprKind::Symbol(symbol) => {
            constant(symbol.name()).ok_or_else(|| format!("{} has no number here", symbol.name()))
        }
        ExprKind::Or(list) => list.iter().try_fold(0, |all, part| Ok(all | number(part)?)),
        ExprKind::Array(list) if list.len() == 1 => number(&list[0]),
        _ => Err(format!("{expr} is no number")),
    }
}

/// Whether a constant is among what is joined by `|`.
pub(super) fn has(expr: &Expr, name: &str) -> bool {
    let mut found = false;
    expr.walk(&mut |part| {
        found |= matches!(&part.kind, ExprKind::Symbol(symbol) if symbol.name() == name);
    });
    found
}

/// Whether a script leaves this to us, or does not care.
pub(super) const fn is_open(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Ellipsis)
}

/// The name that an expression is.
pub(super) fn name(expr: &Expr) -> Option<&'static str> {
    match &expr.kind {
        ExprKind::Symbol(symbol) => Some(symbol.name()),
        ExprKind::Array(list) if list.len() == 1 => name(&list[0]),
        _ => None,
    }
}

/// A structure of this kind.
pub(super) fn structure(expr: &Expr, kind: StructKind) -> Option<&Struct> {
    match &expr.kind {
        ExprKind::Struct(structure) if structure.kind == kind => Some(structure),
        ExprKind::Array(list) if list.len() == 1 => structure(&list[0], kind),
        _ => None,
    }
}

/// The address of a structure `sockaddr`.
///
/// # Errors
///
/// If it is none.
pub(super) fn address(expr: &Expr) -> Result<SocketAddr, String> {
    let wrong = || format!("{expr} is no address");
    let structure = structure(expr, StructKind::SockAddr).ok_or_else(wrong)?;
    let is_v6 = structure.field("sa_family").is_some_and(|family| has(family, "AF_INET6"));
    let field = |v4, v6| structure.field(if is_v6 { v6 } else { v4 });
    let port = field("sin_port", "sin6_port").map(number).transpose()?.unwrap_or(0);
    let addr = match field("sin_addr", "sin6_addr").map(|addr| &addr.kind) {
        Some(ExprKind::InetAddr(addr)) => IpAddr::V4(*addr),
        Some(ExprKind::Inet6Addr(addr)) => IpAddr::V6(*addr),
        _ if is_v6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    Ok((addr, u16::try_from(port).map_err(|_| wrong())?).into())
}
