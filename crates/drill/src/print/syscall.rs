//! System calls.

use core::fmt::{self, Display, Formatter};

use super::List;
use crate::symbol::Symbol;
use crate::syscall::{Call, Expr, ExprKind, Field, Syscall};

/// Without the time at which it returns, which belongs to the event's.
impl Display for Syscall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}) = {}", self.call.value, List(&self.args, ", "), self.result)?;
        if let Some(errno) = &self.errno {
            write!(f, " {} ({})", errno.symbol, errno.text)?;
        }
        match &self.note {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for Symbol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Ellipsis => f.write_str("..."),
            ExprKind::Integer(number) => write!(f, "{number}"),
            ExprKind::Symbol(symbol) => symbol.fmt(f),
            ExprKind::Name(name) => f.write_str(name),
            ExprKind::Text { bytes, more } => {
                write!(f, "\"{}\"{}", Escaped(bytes), if *more { "..." } else { "" })
            }
            ExprKind::Or(terms) => List(terms, "|").fmt(f),
            ExprKind::Array(items) => write!(f, "[{}]", List(items, ", ")),
            ExprKind::Tuple(items) => write!(f, "{{{}}}", List(items, ", ")),
            ExprKind::Struct(structure) => write!(f, "{{{}}}", List(&structure.fields, ", ")),
            ExprKind::Attribute(symbol, value) => write!(f, "{symbol}={value}"),
            ExprKind::Htons(port) => write!(f, "htons({port})"),
            ExprKind::Htonl(number) => write!(f, "htonl({number})"),
            ExprKind::InetAddr(address) => write!(f, "inet_addr(\"{address}\")"),
            ExprKind::Inet6Addr(address) => write!(f, "inet6_addr(\"{address}\")"),
        }
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(len) = &self.len {
            write!(f, "({len})")?;
        }
        write!(f, "={}", self.value)
    }
}

/// Printable characters as they are, the rest as numbers.
struct Escaped<'a>(&'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| match byte {
            b'"' | b'\\' => write!(f, "\\{}", char::from(byte)),
            b' '..=b'~' => write!(f, "{}", char::from(byte)),
            _ => write!(f, "\\x{byte:02x}"),
        })
    }
}
