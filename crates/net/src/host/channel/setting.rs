//! Settings requested by a program, bounded by the limits of a connection.

use super::record::Setting;
use crate::base::time::Duration;
use crate::fib::{FIBS_MAX, FibIndex};
use crate::host::tcp::congestion::Algorithm;
use crate::host::tcp::settings::{Change, Settings};
use crate::host::tcp::{self, Id};
use crate::host::udp;
use crate::ip::ip_tx::IpTxParams;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Buffers hold a segment at least, and a peer is asked once in a second at the most, whatever a program says.
const BUFFER_MIN: u32 = 2048;
const SEGMENT_MIN: u32 = 64;
const KEEP_MIN_MS: u32 = 1000;
/// Time for which a corked segment waits at the most, as of Linux.
const CORK_MAX: Duration = Duration::from_millis(200);

/// Where a setting belongs.
enum Wanted {
    Change(Change),
    Hops(u8),
    Class(u8),
    Fib(FibIndex),
    /// No change: a setting of sockets of datagrams.
    Nothing,
}

/// Returns the change that a program requests, of a connection that began with `settings`.
fn wanted(setting: Setting, settings: &Settings) -> Wanted {
    let ms = |value: u32| Duration::from_millis(value.into());
    let keep = |value: u32| ms(value.max(KEEP_MIN_MS));
    Wanted::Change(match setting {
        Setting::NoDelay(on) => Change::NoDelay(on),
        Setting::KeepAlive(on) => Change::KeepAlive(on),
        Setting::KeepIdle(ms) => Change::KeepIdle(keep(ms)),
        Setting::KeepInterval(ms) => Change::KeepInterval(keep(ms)),
        Setting::KeepCount(count) => Change::KeepCount(byte(count).max(1)),
        Setting::UserTimeout(within) => {
            Change::UserTimeout(Some(ms(within)).filter(|within| !within.is_zero()))
        }
        Setting::TellsUserTimeout(on) => Change::TellsUserTimeout(on),
        Setting::ToldUserTimeout(told) => {
            Change::ToldUserTimeout(Some(ms(told)).filter(|told| !told.is_zero()))
        }
        Setting::YieldsUserTimeout(on) => Change::YieldsUserTimeout(on),
        Setting::FastOpens(count) => Change::FastOpenMax(count as usize),
        Setting::SendBuffer(bytes) => {
            Change::SendBuffer(bytes.clamp(BUFFER_MIN, settings.send_buffer_max.max(BUFFER_MIN)))
        }
        Setting::ReceiveBuffer(bytes) => Change::ReceiveBuffer(bytes.max(BUFFER_MIN)),
        Setting::MaxSegment(bytes) => {
            Change::MaxSegment(u16::try_from(bytes.max(SEGMENT_MIN)).unwrap_or(u16::MAX))
        }
        Setting::NewReno(on) => Change::Algorithm(if on { Algorithm::NewReno } else { Algorithm::Cubic }),
        Setting::Cork(on) => Change::CorkFor(on.then_some(CORK_MAX)),
        Setting::QuickAck(on) => Change::QuickAck(on),
        Setting::FastOpen(on) => Change::FastOpen(on),
        Setting::BindAny(any) => Change::BindAny(any),
        Setting::Device(device) => Change::Device(ifindex(device)),
        Setting::Hops(hops) => return Wanted::Hops(byte(hops)),
        Setting::Class(class) => return Wanted::Class(byte(class)),
        Setting::Fib(fib) => return Wanted::Fib(byte(fib).min(FIBS_MAX - 1)),
        Setting::DontFragment(_) | Setting::AllErrors(_) => return Wanted::Nothing,
    })
}

/// Applies a setting to the options of a future connection.
pub fn prepare(settings: &mut Settings, tx_params: &mut IpTxParams, setting: Setting) {
    match wanted(setting, settings) {
        Wanted::Change(change) => settings.take(change),
        Wanted::Hops(hops) => tx_params.hops = hops,
        Wanted::Class(class) => tx_params.class = class,
        Wanted::Fib(fib) => tx_params.fib = fib,
        Wanted::Nothing => {}
    }
}

/// Applies a setting to the options of a future socket; those of connections are ignored, and options of datagrams are
/// given with it.
pub fn prepare_socket(settings: &mut udp::Settings, setting: Setting) {
    match setting {
        Setting::ReceiveBuffer(bytes) => {
            settings.queue_bytes = (bytes.max(BUFFER_MIN) as usize).min(udp::QUEUE_BYTES_MAX);
        }
        // The address of a connected socket depends on it.
        Setting::Fib(fib) => settings.tx_params.fib = byte(fib).min(FIBS_MAX - 1),
        Setting::Device(device) => settings.device = ifindex(device),
        Setting::DontFragment(on) => settings.dont_fragment = on,
        Setting::AllErrors(on) => settings.all_errors = on,
        _ => {}
    }
}

/// Changes how a connection behaves; one that has ended needs nothing.
pub fn apply(cpu: &mut Cpu, id: Id, setting: Setting) {
    let now = cpu.now;
    let _ = match wanted(setting, &cpu.sysctls.tcp) {
        Wanted::Change(change) => tcp::change(cpu, id, |tcb| tcb.change(change, now)),
        Wanted::Hops(hops) => tcp::set_tx_params(cpu, id, |tx_params| tx_params.hops = hops),
        Wanted::Class(class) => tcp::set_tx_params(cpu, id, |tx_params| tx_params.class = class),
        // It keeps the table that it has.
        Wanted::Fib(fib) if !cpu.tables.has_fib(fib) => Ok(()),
        Wanted::Nothing => Ok(()),
        Wanted::Fib(fib) => tcp::set_tx_params(cpu, id, |tx_params| tx_params.fib = fib),
    };
}

/// The number of an interface; that of none if there cannot be one.
fn ifindex(value: u32) -> IfIndex {
    IfIndex::try_from(value).unwrap_or(IfIndex::MAX)
}

fn byte(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}
