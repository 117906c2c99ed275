//! System calls.

use super::{Changes, Field, Role, Rules};
use crate::script::{Action, Event};
use crate::symbol::{Kind, Symbol};
use crate::syscall::{Call, Expr, ExprKind, Syscall};

pub(super) fn call(changes: &mut Changes<'_>, call: &Syscall, rules: &Rules) {
    if let Some(end) = call.end {
        changes.role = Role::Demand;
        let now = end.value + rules.shift;
        let text = format!("returns after {:?} → {now:?}", end.value);
        changes.add(end.pos, Field::Time, text, |event| {
            with_call(event, |call| call.end.iter_mut().for_each(|end| end.value = now));
        });
    }
    for (index, arg) in call.args.iter().enumerate() {
        changes.role = if is_answer(call.call.value, index) { Role::Demand } else { Role::Stimulus };
        expr(changes, Field::Argument, arg, |call| call.args.get_mut(index));
    }
    changes.role = Role::Demand;
    expr(changes, Field::Result, &call.result, |call| Some(&mut call.result));
    let Some(errno) = &call.errno else { return };
    if let Some(now) = another(errno.symbol) {
        changes.add(errno.pos, Field::Errno, format!("{} → {now}", errno.symbol), |event| {
            with_call(event, |call| call.errno.iter_mut().for_each(|errno| errno.symbol = now));
        });
    }
}

fn with_call(event: &mut Event, edit: impl FnOnce(&mut Syscall)) {
    if let Action::Syscall(call) = &mut event.action {
        edit(call);
    }
}

/// Whether an argument is where the call puts what it answers.
const fn is_answer(call: Call, index: usize) -> bool {
    match call {
        Call::Getsockopt => index >= 3,
        Call::Read
        | Call::Readv
        | Call::Recv
        | Call::Recvfrom
        | Call::Recvmsg
        | Call::Recvmmsg
        | Call::EpollWait => index == 1,
        Call::Accept | Call::Accept4 | Call::Getsockname | Call::Getpeername => index == 1 || index == 2,
        Call::Ioctl => index == 2,
        _ => false,
    }
}

/// Each number, name and string in an expression, changed alone.
fn expr(
    changes: &mut Changes<'_>,
    field: Field,
    expr: &Expr,
    find: impl Fn(&mut Syscall) -> Option<&mut Expr>,
) {
    let mut places = Vec::new();
    let mut index = 0;
    expr.walk(&mut |part| {
        places.extend(instead(&part.kind).into_iter().map(|now| (index, part.pos, part.to_string(), now)));
        index += 1;
    });
    for (place, pos, was, now) in places {
        let shown = Expr { pos, kind: now.clone() };
        // a program asks for errors by name
        let is_errno =
            |kind: &ExprKind| matches!(kind, ExprKind::Symbol(symbol) if symbol.kind() == Kind::Errno);
        let field = if is_errno(&now) { Field::Errno } else { field };
        changes.add(pos, field, format!("{was} → {shown}"), |event| {
            with_call(event, |call| {
                let mut index = 0;
                let Some(expr) = find(call) else { return };
                expr.walk_mut(&mut |part| {
                    if index == place {
                        part.kind = now.clone();
                    }
                    index += 1;
                });
            });
        });
    }
}

fn instead(kind: &ExprKind) -> Vec<ExprKind> {
    match kind {
        ExprKind::Integer(number) => [number.checked_add(1), number.checked_sub(1)]
            .into_iter()
            .flatten()
            .map(ExprKind::Integer)
            .collect(),
        ExprKind::Symbol(symbol) => another(*symbol).map(ExprKind::Symbol).into_iter().collect(),
        ExprKind::Text { bytes, more } => {
            let mut bytes = bytes.clone();
            match bytes.last_mut() {
                Some(last) => *last ^= 1,
                None => bytes.push(b'x'),
            }
            vec![ExprKind::Text { bytes, more: *more }]
        }
        ExprKind::Htons(port) => vec![ExprKind::Htons(port.wrapping_add(1))],
        ExprKind::Htonl(number) => vec![ExprKind::Htonl(number.wrapping_add(1))],
        ExprKind::InetAddr(address) => vec![ExprKind::InetAddr((address.to_bits() ^ 1).into())],
        ExprKind::Inet6Addr(address) => vec![ExprKind::Inet6Addr((address.to_bits() ^ 1).into())],
        ExprKind::Ellipsis
        | ExprKind::Name(_)
        | ExprKind::Or(_)
        | ExprKind::Array(_)
        | ExprKind::Tuple(_)
        | ExprKind::Struct(_)
        | ExprKind::Attribute(..) => Vec::new(),
    }
}

/// Names that mean the same on some systems.
const SAME: [[&str; 2]; 3] = [["EAGAIN", "EWOULDBLOCK"], ["EOPNOTSUPP", "ENOTSUP"], ["POLLIN", "POLLRDNORM"]];

/// The next name of the same kind that means something else.
fn another(symbol: Symbol) -> Option<Symbol> {
    let is_same = |other: Symbol| {
        other == symbol
            || SAME.iter().any(|pair| pair.contains(&other.name()) && pair.contains(&symbol.name()))
    };
    let all = Symbol::all_of(symbol.kind());
    let behind = all.clone().skip_while(|other| *other != symbol);
    behind.chain(all).find(|other| !is_same(*other))
}
