//! Options of sockets.

use core::time::Duration;

use drill::syscall::{Expr, ExprKind, StructKind, Syscall};
use net::tcp::congestion::Algorithm;
use net::tcp::settings::Change;
use net::tcp::{self, IpTxParams};

use super::calls::arg;
use super::errno::Errno;
use super::expr;
use super::lab::Lab;
use super::linux::opening;
use super::program::{Socket, Stage};
use super::sysctl::{FASTOPEN_CLIENT, Sysctls};

/// Options that are only remembered.
const REMEMBERED: &[&str] = &[
    "SO_REUSEADDR",
    "SO_REUSEPORT",
    "SO_REUSEPORT_LB",
    "SO_BROADCAST",
    "SO_DEBUG",
    "SO_NOSIGPIPE",
    "IPV6_V6ONLY",
    "TCP_FASTOPEN_CONNECT",
];

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, or whether it is on.
    Number(i64),
    /// Why the connection ended, if it has.
    Error(Option<Errno>),
    /// A name.
    Text(&'static str),
    /// Linger time of `close`, if any.
    Linger(Option<Duration>),
}

/// Sets an option.
///
/// # Errors
///
/// If the script does not say a value that the option can have.
pub(super) fn set(
    call: &Syscall,
    socket: &mut Socket,
    lab: &mut Lab,
    sysctls: &Sysctls,
) -> Result<Result<i64, Errno>, String> {
    let name = expr::name(arg(call, 2)?).ok_or("an option has a name")?;
    let value = arg(call, 3)?;
    if name == "SO_LINGER" {
        socket.linger = linger(value)?;
        return Ok(Ok(0));
    }
    if name == "TCP_CONGESTION" {
        let name = if let ExprKind::Text { bytes, .. } = &value.kind { bytes.as_slice() } else { &[] };
        return Ok(set_algorithm(name, socket, lab));
    }
    Ok(set_number(name, expr::number(value)?, socket, lab, sysctls))
}

/// Has the congestion window grow as the algorithm of this name says.
pub(super) fn set_algorithm(name: &[u8], socket: &mut Socket, lab: &mut Lab) -> Result<i64, Errno> {
    let algorithm = match name {
        b"cubic" => Algorithm::Cubic,
        b"newreno" | b"reno" => Algorithm::NewReno,
        _ => return Err(Errno("ENOENT")),
    };
    change(socket, lab, Change::Algorithm(algorithm))
}

/// Sets an option whose value is a number.
pub(super) fn set_number(
    name: &'static str,
    number: i64,
    socket: &mut Socket,
    lab: &mut Lab,
    sysctls: &Sysctls,
) -> Result<i64, Errno> {
    if name == "TCP_FASTOPEN" {
        socket.fast_open_max = usize::try_from(number).unwrap_or(0);
    }
    if name == "TCP_FASTOPEN_CONNECT" && sysctls.get(FASTOPEN_CLIENT) == 0 {
        return Err(Errno("EOPNOTSUPP"));
    }
    if REMEMBERED.contains(&name) {
        socket.options.insert(name, number);
        return Ok(0);
    }
    if let (Some(part), Ok(byte)) = (part_of_look(name, &mut socket.tx_params), u8::try_from(number)) {
        *part = byte;
        return show(socket, lab);
    }
    let done = changed(name, number).map_or(Err(Errno("ENOPROTOOPT")), |it| change(socket, lab, it));
    socket.listen_anew(lab, sysctls);
    done
}

/// The part of a packet's look that an option is.
fn part_of_look<'a>(name: &str, tx_params: &'a mut IpTxParams) -> Option<&'a mut u8> {
    match name {
        "IP_TTL" | "IPV6_UNICAST_HOPS" => Some(&mut tx_params.hops),
        "IP_TOS" | "IPV6_TCLASS" => Some(&mut tx_params.class),
        _ => None,
    }
}

/// Packets look like this from now on.
fn show(socket: &Socket, lab: &mut Lab) -> Result<i64, Errno> {
    let tx_params = socket.tx_params;
    match &socket.stage {
        Stage::Fresh => {}
        Stage::Bound(ids) | Stage::Listening(ids) => {
            for (cpu, id) in ids.iter().copied().enumerate() {
                lab.call(cpu, move |netisr| _ = tcp::set_listener_tx_params(&mut netisr.cpu, id, tx_params));
            }
        }
        Stage::Open(cpu, id) => {
            let id = *id;
            // One that has ended sends nothing any more.
            lab.call(*cpu, move |netisr| _ = tcp::set_tx_params(&mut netisr.cpu, id, |is| *is = tx_params));
        }
    }
    Ok(0)
}

/// Returns the change that an option makes to a connection.
fn changed(name: &str, value: i64) -> Option<Change> {
    let is_on = value != 0;
    let bytes = u32::try_from(value).unwrap_or(u32::MAX);
    let secs = Duration::from_secs(u64::try_from(value).unwrap_or(0));
    Some(match name {
        "SO_RCVBUF" => Change::ReceiveBuffer(bytes),
        "SO_SNDBUF" => Change::SendBuffer(bytes),
        "SO_KEEPALIVE" => Change::KeepAlive(is_on),
        "SO_OOBINLINE" => Change::UrgentInline(is_on),
        "TCP_NODELAY" => Change::NoDelay(is_on),
        "TCP_NOPUSH" | "TCP_CORK" => Change::Cork(is_on),
        "TCP_MD5SIG" => Change::Sign(is_on),
        "TCP_NOOPT" => Change::NoOptions(is_on),
        "TCP_FASTOPEN" => Change::FastOpen(is_on),
        "TCP_MAXSEG" => Change::MaxSegment(u16::try_from(value).ok()?),
        "TCP_KEEPIDLE" => Change::KeepIdle(secs),
        "TCP_KEEPINTVL" => Change::KeepInterval(secs),
        "TCP_KEEPCNT" => Change::KeepCount(u8::try_from(value).ok()?),
        "TCP_KEEPINIT" => Change::EstablishWithin(secs),
        "TCP_SYNCNT" => Change::EstablishWithin(opening::wait_of(value)),
        "TCP_USER_TIMEOUT" => {
            Change::UserTimeout(is_on.then(|| Duration::from_millis(u64::try_from(value).unwrap_or(0))))
        }
        "TCP_UTO_ENABLE" => Change::TellsUserTimeout(is_on),
        "TCP_UTO_ADVERTISE" => Change::ToldUserTimeout(is_on.then_some(secs)),
        "TCP_UTO_CHANGEABLE" => Change::YieldsUserTimeout(is_on),
        "TCP_MAXUNACKTIME" => Change::UserTimeout(is_on.then_some(secs)),
        _ => return None,
    })
}

fn change(socket: &mut Socket, lab: &mut Lab, change: Change) -> Result<i64, Errno> {
    socket.changes.push(change);
    if let Stage::Open(cpu, id) = socket.stage {
        lab.call(cpu, move |netisr| {
            let now = netisr.cpu.now;
            // One that has ended is changed no more.
            _ = tcp::change(&mut netisr.cpu, id, |tcb| tcb.change(change, now));
        });
    }
    Ok(0)
}

/// Parses the linger time of `{onoff=1, linger=0}`.
fn linger(value: &Expr) -> Result<Option<Duration>, String> {
    let value = expr::structure(value, StructKind::Linger).ok_or("SO_LINGER has two values")?;
    let field = |name| value.field(name).map_or(Ok(0), expr::number);
    let secs = u64::try_from(field("linger")?).unwrap_or(0);
    Ok((field("onoff")? != 0).then(|| Duration::from_secs(secs)))
}

/// Reads an option, and holds it and its length to what the script says.
///
/// # Errors
///
/// If it is another.
pub(super) fn get(
    call: &Syscall,
    socket: &mut Socket,
    lab: &mut Lab,
    sysctls: &Sysctls,
) -> Result<Result<i64, Errno>, String> {
    let name = expr::name(arg(call, 2)?).ok_or("an option has a name")?;
    let Some(value) = read(name, socket, lab, sysctls) else { return Ok(Err(Errno("ENOPROTOOPT"))) };
    let (expected, len) = (arg(call, 3)?, arg(call, 4)?);
    if !expr::is_open(expected) && !is_value(expected, &value)? {
        return Err(format!("{} came, not {expected}", shown(&value)));
    }
    let came = match &value {
        Value::Number(_) | Value::Error(_) => 4,
        Value::Text(text) => i64::try_from(text.len()).unwrap_or(0),
        Value::Linger(_) => 8,
    };
    let is_open =
        expr::is_open(len) || matches!(&len.kind, ExprKind::Array(list) if list.iter().all(expr::is_open));
    if !is_open && expr::number(len)? != came {
        return Err(format!("length [{came}] came, not {len}"));
    }
    Ok(Ok(0))
}

fn is_value(expected: &Expr, value: &Value) -> Result<bool, String> {
    Ok(match value {
        Value::Number(number) => expr::number(expected)? == *number,
        Value::Error(None) => expr::name(expected).is_none() && expr::number(expected)? == 0,
        Value::Error(Some(errno)) => expr::name(expected).is_some_and(|name| errno.is(name)),
        Value::Text(text) => {
            matches!(&expected.kind, ExprKind::Text { bytes, .. } if bytes == text.as_bytes())
        }
        Value::Linger(value) => linger(expected)? == *value,
    })
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("[{number}]"),
        Value::Error(None) => "[0]".to_owned(),
        Value::Error(Some(errno)) => format!("[{}]", errno.0),
        Value::Text(text) => format!("{text:?}"),
        Value::Linger(linger) => format!("{linger:?}"),
    }
}

/// Reads an option; `None` if there is none of this name.
pub(super) fn read(
    name: &'static str,
    socket: &mut Socket,
    lab: &mut Lab,
    sysctls: &Sysctls,
) -> Option<Value> {
    let settings = socket.settings(sysctls);
    let secs = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    Some(Value::Number(match name {
        "SO_ERROR" => return Some(Value::Error(socket.take_error(lab))),
        "SO_LINGER" => return Some(Value::Linger(socket.linger)),
        "TCP_CONGESTION" => {
            let is_cubic = settings.algorithm == Algorithm::Cubic;
            return Some(Value::Text(if is_cubic { "cubic" } else { "newreno" }));
        }
        "SO_RCVBUF" => {
            socket.look_at(lab, |_, tcb| tcb.receive_buffer()).unwrap_or(settings.receive_buffer).into()
        }
        "SO_SNDBUF" => socket.look_at(lab, |_, tcb| tcb.send_buffer()).unwrap_or(settings.send_buffer).into(),
        "SO_KEEPALIVE" => settings.keepalive.into(),
        "SO_ACCEPTCONN" => matches!(socket.stage, Stage::Listening(_)).into(),
        "SO_OOBINLINE" => settings.urgent_inline.into(),
        "TCP_NODELAY" => settings.nodelay.into(),
        "TCP_NOPUSH" | "TCP_CORK" => settings.cork.into(),
        "TCP_MD5SIG" => settings.signs.into(),
        "TCP_NOOPT" => settings.no_options.into(),
        "TCP_FASTOPEN" => settings.fast_open.into(),
        "TCP_USER_TIMEOUT" => {
            let set = settings.user_timeout;
            let timeout = socket.look_at(lab, |_, tcb| tcb.info().user_timeout).unwrap_or(set);
            i64::try_from(timeout.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
        }
        "TCP_UTO_ENABLE" => settings.uto.is_on.into(),
        "TCP_UTO_ADVERTISE" => secs(settings.uto.told.unwrap_or_default()),
        "TCP_UTO_CHANGEABLE" => settings.uto.is_changeable.into(),
        "TCP_MAXSEG" => {
            socket.look_at(lab, |_, tcb| tcb.info().snd_mss).unwrap_or_else(|| settings.mss_max.into()).into()
        }
        "TCP_KEEPIDLE" => secs(settings.keep_idle),
        "TCP_KEEPINTVL" => secs(settings.keep_interval),
        "TCP_KEEPCNT" => settings.keep_count.into(),
        "TCP_KEEPINIT" => secs(settings.establish_within),
        "IP_TTL" | "IPV6_UNICAST_HOPS" => socket.tx_params.hops.into(),
        "IP_TOS" | "IPV6_TCLASS" => socket.tx_params.class.into(),
        name if REMEMBERED.contains(&name) => socket.options.get(name).copied().unwrap_or(0),
        _ => return None,
    }))
}
