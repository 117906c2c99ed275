//! Options of programs' sockets, as settings of the stack's.

use std::io;

use net::channel::Setting;
use wire::program::{Options, SockOpt};

use crate::sockets::aio::UdpSocket;

/// Values of options that were not set.
const KEEP_IDLE_S: i32 = 7200;
const KEEP_INTERVAL_S: i32 = 75;
const KEEP_COUNT: i32 = 8;
const HOPS: i32 = 64;
/// The longest segment of a socket without a connection.
const MAX_SEGMENT: i32 = 536;

/// Returns the setting of a connection, or of those that a listener accepts; `None` if the stack has none for it.
pub(super) fn setting(option: SockOpt, value: i32) -> Option<Setting> {
    let number = u32::try_from(value).unwrap_or(0);
    let ms = number.saturating_mul(1000);
    Some(match option {
        SockOpt::KeepAlive => Setting::KeepAlive(value != 0),
        SockOpt::KeepIdle => Setting::KeepIdle(ms),
        SockOpt::KeepInterval => Setting::KeepInterval(ms),
        SockOpt::KeepCount => Setting::KeepCount(number),
        SockOpt::NoDelay => Setting::NoDelay(value != 0),
        SockOpt::UserTimeout => Setting::UserTimeout(number),
        SockOpt::MaxSegment if number > 0 => Setting::MaxSegment(number),
        SockOpt::Congestion => Setting::NewReno(value != 0),
        SockOpt::FastOpen => Setting::FastOpens(number),
        SockOpt::SendBuffer => Setting::SendBuffer(number),
        SockOpt::ReceiveBuffer => Setting::ReceiveBuffer(number),
        SockOpt::Hops if number > 0 => Setting::Hops(number),
        SockOpt::Class => Setting::Class(number),
        SockOpt::Fib => Setting::Fib(number),
        SockOpt::Device => Setting::Device(number),
        SockOpt::Cork => Setting::Cork(value != 0),
        SockOpt::QuickAck => Setting::QuickAck(value != 0),
        SockOpt::FastOpenConnect => Setting::FastOpen(value != 0),
        _ => return None,
    })
}

/// Returns the settings of a connection. Segments leave as the program writes them, unless it has said something else.
pub(super) fn settings(options: &Options) -> Vec<Setting> {
    let all = options.iter().filter_map(|(option, value)| setting(option, value));
    core::iter::once(Setting::NoDelay(true)).chain(all).collect()
}

/// Sets an option of a socket of datagrams.
pub(super) fn apply(udp: &UdpSocket, option: SockOpt, value: i32) -> io::Result<()> {
    let byte = u8::try_from(value).unwrap_or(u8::MAX);
    match option {
        SockOpt::Hops if value > 0 => udp.set_ttl(byte),
        SockOpt::Class => udp.set_tos(byte),
        SockOpt::Fib => udp.set_fib(byte),
        SockOpt::Device => udp.set_device(u32::try_from(value).unwrap_or(0)),
        SockOpt::Broadcast => udp.set_broadcast(value != 0),
        SockOpt::GroupHops => udp.set_multicast_ttl(byte),
        SockOpt::GroupLoop => udp.set_multicast_loop(value != 0),
        SockOpt::ReceiveBuffer => udp.set_recv_buffer_size(u32::try_from(value).unwrap_or(0)),
        SockOpt::RecvErr => udp.set_all_errors(value != 0),
        SockOpt::DontFragment => udp.set_dont_fragment(value != 0),
        SockOpt::MtuDiscover => udp.set_dont_fragment(is_whole(value)),
        _ => Ok(()),
    }
}

/// Whether `IP_MTU_DISCOVER` says that datagrams are not fragmented.
const fn is_whole(value: i32) -> bool {
    const DO: i32 = 2;
    const PROBE: i32 = 3;
    matches!(value, DO | PROBE)
}

/// Returns the value of an option that was not set.
pub(super) const fn default(option: SockOpt) -> i32 {
    match option {
        SockOpt::KeepIdle => KEEP_IDLE_S,
        SockOpt::KeepInterval => KEEP_INTERVAL_S,
        SockOpt::KeepCount => KEEP_COUNT,
        SockOpt::Hops => HOPS,
        SockOpt::MaxSegment => MAX_SEGMENT,
        SockOpt::Linger => -1,
        SockOpt::NoDelay | SockOpt::GroupHops | SockOpt::GroupLoop | SockOpt::MtuDiscover => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_milliseconds_as_linux_has_them() {
        assert_eq!(setting(SockOpt::KeepIdle, 5), Some(Setting::KeepIdle(5000)));
        assert_eq!(setting(SockOpt::UserTimeout, 5), Some(Setting::UserTimeout(5)));
        assert_eq!(setting(SockOpt::Linger, 5), None);
    }

    #[test]
    fn segments_leave_at_once_unless_the_program_says_something_else() {
        let mut options = Options::default();
        assert_eq!(settings(&options), [Setting::NoDelay(true)]);
        options.set(SockOpt::NoDelay, 0);
        options.set(SockOpt::Hops, 9);
        let all = settings(&options);
        assert_eq!(all, [Setting::NoDelay(true), Setting::NoDelay(false), Setting::Hops(9)]);
    }
}
