//! The C interface: packetdrill's functions, and the table that it finds them in (`packetdrill.h`). A failed call
//! sets `errno`.

use core::ffi::{c_int, c_longlong, c_uint, c_ulong, c_void};
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::io::Write as _;
use std::panic;

use libc::{epoll_event, nfds_t, pollfd, timeval};

use crate::boundary::{Message, Piece, Ptr, set_errno};
use crate::errno::Code;
use crate::host::{Host, POLLED_MAX};
use crate::hosts;
use crate::messages::{gather, pieces, put_control, receive};
use crate::poll::Watched;

/// Bytes that one call moves at the most, as it may.
pub(crate) const MOVED_MAX: usize = 1 << 26;
/// Bytes of a socket's address, of an option's value, and of a packet at the most.
const ADDRESS_MAX: usize = 128;
const OPTION_MAX: usize = 4096;
const PACKET_MAX: usize = 1 << 16;

/// The host; C knows it as a pointer.
type Data = Ptr<c_void>;
/// `struct sockaddr`.
type Address = Ptr<c_void>;

/// `struct packetdrill_interface`. What C passes behind `...` arrives as one more argument does, on the machines that this
/// runs on.
#[repr(C)]
pub(crate) struct Table {
    userdata: Data,
    free: extern "C" fn(Data),
    socket: extern "C" fn(Data, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(Data, c_int, Address, u32) -> c_int,
    listen: extern "C" fn(Data, c_int, c_int) -> c_int,
    accept: extern "C" fn(Data, c_int, Address, Ptr<u32>) -> c_int,
    connect: extern "C" fn(Data, c_int, Address, u32) -> c_int,
    read: extern "C" fn(Data, c_int, Ptr<c_void>, usize) -> isize,
    readv: extern "C" fn(Data, c_int, Ptr<Piece>, c_int) -> isize,
    recv: extern "C" fn(Data, c_int, Ptr<c_void>, usize, c_int) -> isize,
    recvfrom: extern "C" fn(Data, c_int, Ptr<c_void>, usize, c_int, Address, Ptr<u32>) -> isize,
    recvmsg: extern "C" fn(Data, c_int, Ptr<Message>, c_int) -> isize,
    write: extern "C" fn(Data, c_int, Ptr<c_void>, usize) -> isize,
    writev: extern "C" fn(Data, c_int, Ptr<Piece>, c_int) -> isize,
    send: extern "C" fn(Data, c_int, Ptr<c_void>, usize, c_int) -> isize,
    sendto: extern "C" fn(Data, c_int, Ptr<c_void>, usize, c_int, Address, u32) -> isize,
    sendmsg: extern "C" fn(Data, c_int, Ptr<Message>, c_int) -> isize,
    fcntl: extern "C" fn(Data, c_int, c_int, c_int) -> c_int,
    ioctl: extern "C" fn(Data, c_int, c_ulong, Ptr<c_int>) -> c_int,
    close: extern "C" fn(Data, c_int) -> c_int,
    shutdown: extern "C" fn(Data, c_int, c_int) -> c_int,
    getsockopt: extern "C" fn(Data, c_int, c_int, c_int, Ptr<c_void>, Ptr<u32>) -> c_int,
    setsockopt: extern "C" fn(Data, c_int, c_int, c_int, Ptr<c_void>, u32) -> c_int,
    poll: extern "C" fn(Data, Ptr<pollfd>, nfds_t, c_int) -> c_int,
    netdev_send: extern "C" fn(Data, Ptr<c_void>, usize) -> c_int,
    netdev_receive: extern "C" fn(Data, Ptr<c_void>, Ptr<usize>, Ptr<c_longlong>) -> c_int,
    usleep: extern "C" fn(Data, c_uint) -> c_int,
    gettimeofday: extern "C" fn(Data, Ptr<timeval>, Ptr<c_void>) -> c_int,
    epoll_create: extern "C" fn(Data, c_int) -> c_int,
    epoll_ctl: extern "C" fn(Data, c_int, c_int, c_int, Ptr<epoll_event>) -> c_int,
    epoll_wait: extern "C" fn(Data, c_int, Ptr<epoll_event>, c_int, c_int) -> c_int,
    pipe: extern "C" fn(Data, Ptr<c_int>) -> c_int,
    splice: extern "C" fn(Data, c_int, Ptr<i64>, c_int, Ptr<i64>, usize, c_uint) -> c_int,
}

/// Makes a host, and tells C how to use it.
pub(crate) fn init(flags: &str, table: Ptr<Table>) {
    let host =
        panic::catch_unwind(|| Host::new(flags)).unwrap_or_else(|_| Err("there is no host".to_owned()));
    let host = host.map_err(|wrong| complain(&format!("--so_flags={flags}: {wrong}"))).ok();
    let number = hosts::add(host);
    if table.put(Table { userdata: Ptr::of_number(number), ..TABLE }).is_err() {
        complain("packetdrill_interface_init was given no table");
        hosts::remove(number);
    }
}

const TABLE: Table = Table {
    userdata: Ptr::of_number(0),
    free,
    socket,
    bind,
    listen,
    accept,
    connect,
    read,
    readv,
    recv,
    recvfrom,
    recvmsg,
    write,
    writev,
    send,
    sendto,
    sendmsg,
    fcntl,
    ioctl,
    close,
    shutdown,
    getsockopt,
    setsockopt,
    poll,
    netdev_send,
    netdev_receive,
    usleep,
    gettimeofday,
    epoll_create,
    epoll_ctl,
    epoll_wait,
    pipe,
    splice,
};

/// Says on standard error what is wrong.
pub(crate) fn complain(what: &str) {
    // Standard error may be closed.
    _ = writeln!(std::io::stderr(), "libpantala_packetdrill.so: {what}");
}

/// Returns a call's result to C: -1 with the error in `errno`; `EIO` after a bug of ours.
pub(crate) fn answer<R: From<i8>>(call: impl FnOnce() -> Result<R, Code>) -> R {
    match panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Code(libc::EIO))) {
        Ok(done) => done,
        Err(code) => {
            set_errno(code);
            R::from(-1)
        }
    }
}

fn on<R: From<i8>>(data: Data, call: impl FnOnce(&Host) -> Result<R, Code>) -> R {
    answer(|| call(&*hosts::get(data.number())?))
}

extern "C" fn free(data: Data) {
    _ = answer(|| {
        hosts::remove(data.number());
        Ok(0)
    });
}

extern "C" fn socket(data: Data, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    on(data, |host| host.socket(domain, kind, protocol))
}

extern "C" fn bind(data: Data, fd: c_int, addr: Address, len: u32) -> c_int {
    on(data, |host| host.bind(fd, &addr.bytes(length(len), ADDRESS_MAX)?))
}

extern "C" fn listen(data: Data, fd: c_int, backlog: c_int) -> c_int {
    on(data, |host| host.listen(fd, backlog))
}

extern "C" fn accept(data: Data, fd: c_int, addr: Address, len: Ptr<u32>) -> c_int {
    on(data, |host| {
        let (new, remote) = host.accept(fd)?;
        put_address(&remote, addr, len)?;
        Ok(new)
    })
}

extern "C" fn connect(data: Data, fd: c_int, addr: Address, len: u32) -> c_int {
    on(data, |host| host.connect(fd, &addr.bytes(length(len), ADDRESS_MAX)?))
}

extern "C" fn read(data: Data, fd: c_int, buffer: Ptr<c_void>, len: usize) -> isize {
    recv(data, fd, buffer, len, 0)
}

extern "C" fn readv(data: Data, fd: c_int, list: Ptr<Piece>, count: c_int) -> isize {
    on(data, |host| Ok(receive(host, fd, &pieces(list, count_of(count)?)?, 0)?.len))
}

extern "C" fn recv(data: Data, fd: c_int, buffer: Ptr<c_void>, len: usize, flags: c_int) -> isize {
    on(data, |host| Ok(receive(host, fd, &[Piece { at: buffer, len }], flags)?.len))
}

extern "C" fn recvfrom(
    data: Data,
    fd: c_int,
    buffer: Ptr<c_void>,
    len: usize,
    flags: c_int,
    addr: Address,
    addr_len: Ptr<u32>,
) -> isize {
    on(data, |host| {
        let received = receive(host, fd, &[Piece { at: buffer, len }], flags)?;
        put_address(&received.from, addr, addr_len)?;
        Ok(received.len)
    })
}

extern "C" fn recvmsg(data: Data, fd: c_int, place: Ptr<Message>, flags: c_int) -> isize {
    on(data, |host| {
        let mut message = place.get()?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            let done = host.done(fd)?;
            message.flags = libc::MSG_ERRQUEUE;
            put_control(&mut message, Some(&done))?;
            place.put(message)?;
            return Ok(0);
        }
        let received = receive(host, fd, &pieces(message.pieces, message.piece_count)?, flags)?;
        if !message.name.is_null() {
            message.name.fill(length(message.name_len), &received.from)?;
            message.name_len = u32::try_from(received.from.len()).unwrap_or(0);
        }
        message.flags = if received.is_cut { libc::MSG_TRUNC } else { 0 };
        put_control(&mut message, host.left(fd)?.as_ref())?;
        place.put(message)?;
        Ok(received.len)
    })
}

extern "C" fn write(data: Data, fd: c_int, buffer: Ptr<c_void>, len: usize) -> isize {
    send(data, fd, buffer, len, 0)
}

extern "C" fn writev(data: Data, fd: c_int, list: Ptr<Piece>, count: c_int) -> isize {
    on(data, |host| Ok(signed(host.send(fd, &gather(&pieces(list, count_of(count)?)?)?, 0, &[])?)))
}

extern "C" fn send(data: Data, fd: c_int, buffer: Ptr<c_void>, len: usize, flags: c_int) -> isize {
    on(data, |host| Ok(signed(host.send(fd, &buffer.bytes(len, MOVED_MAX)?, flags, &[])?)))
}

extern "C" fn sendto(
    data: Data,
    fd: c_int,
    buffer: Ptr<c_void>,
    len: usize,
    flags: c_int,
    addr: Address,
    addr_len: u32,
) -> isize {
    on(data, |host| {
        let to = if addr.is_null() { Vec::new() } else { addr.bytes(length(addr_len), ADDRESS_MAX)? };
        Ok(signed(host.send(fd, &buffer.bytes(len, MOVED_MAX)?, flags, &to)?))
    })
}

extern "C" fn sendmsg(data: Data, fd: c_int, place: Ptr<Message>, flags: c_int) -> isize {
    on(data, |host| {
        let message = place.get()?;
        if !message.control.is_null() && message.control_len > 0 {
            return Err(Code(libc::EOPNOTSUPP));
        }
        let has_name = !message.name.is_null();
        let to =
            if has_name { message.name.bytes(length(message.name_len), ADDRESS_MAX)? } else { Vec::new() };
        let bytes = gather(&pieces(message.pieces, message.piece_count)?)?;
        Ok(signed(host.send(fd, &bytes, flags, &to)?))
    })
}

extern "C" fn fcntl(data: Data, fd: c_int, command: c_int, value: c_int) -> c_int {
    on(data, |host| host.fcntl(fd, command, value))
}

extern "C" fn ioctl(data: Data, fd: c_int, request: c_ulong, value: Ptr<c_int>) -> c_int {
    on(data, |host| {
        if request == libc::FIONBIO {
            return host.set_nonblocking(fd, value.get()? != 0);
        }
        value.put(host.ioctl(fd, request)?)?;
        Ok(0)
    })
}

extern "C" fn close(data: Data, fd: c_int) -> c_int {
    on(data, |host| host.close(fd))
}

extern "C" fn shutdown(data: Data, fd: c_int, how: c_int) -> c_int {
    on(data, |host| host.shutdown(fd, how))
}

extern "C" fn getsockopt(
    data: Data,
    fd: c_int,
    level: c_int,
    option_: c_int,
    value: Ptr<c_void>,
    len: Ptr<u32>,
) -> c_int {
    on(data, |host| option(host, fd, (level, option_), value, len))
}

/// Writes an option's value, as much of it as there is room for, and how much that is.
pub(crate) fn option(
    host: &Host,
    fd: c_int,
    (level, option): (c_int, c_int),
    value: Ptr<c_void>,
    len: Ptr<u32>,
) -> Result<c_int, Code> {
    let room = length(len.get()?);
    let written = value.fill(room, &host.option(fd, level, option)?)?;
    len.put(u32::try_from(written).unwrap_or(0))?;
    Ok(0)
}

extern "C" fn setsockopt(
    data: Data,
    fd: c_int,
    level: c_int,
    option: c_int,
    value: Ptr<c_void>,
    len: u32,
) -> c_int {
    on(data, |host| host.set_option(fd, level, option, &value.bytes(length(len), OPTION_MAX)?))
}

extern "C" fn poll(data: Data, list: Ptr<pollfd>, count: nfds_t, timeout: c_int) -> c_int {
    on(data, |host| {
        let count = usize::try_from(count).ok().filter(|count| *count <= POLLED_MAX);
        let mut polled = Vec::new();
        for index in 0..count.ok_or(Code(libc::EINVAL))? {
            polled.push(list.at(index).get()?);
        }
        let ready = host.poll(&mut polled, timeout)?;
        for (index, polled) in polled.into_iter().enumerate() {
            list.at(index).put(polled)?;
        }
        Ok(ready)
    })
}

extern "C" fn netdev_send(data: Data, packet: Ptr<c_void>, len: usize) -> c_int {
    on(data, |host| {
        if len > PACKET_MAX {
            return Err(Code(libc::EMSGSIZE));
        }
        host.inject(&packet.bytes(len, PACKET_MAX)?);
        Ok(0)
    })
}

extern "C" fn netdev_receive(
    data: Data,
    packet: Ptr<c_void>,
    len: Ptr<usize>,
    time: Ptr<c_longlong>,
) -> c_int {
    on(data, |host| {
        let room = len.get()?;
        if packet.is_null() || time.is_null() {
            return Err(Code(libc::EFAULT));
        }
        let Some((bytes, at)) = host.sniff() else {
            len.put(0)?;
            return Ok(0);
        };
        if bytes.len() > room {
            complain(&format!("a packet of {} bytes does not fit {room}", bytes.len()));
            return Err(Code(libc::EMSGSIZE));
        }
        len.put(packet.fill(room, &bytes)?)?;
        time.put(at)?;
        Ok(0)
    })
}

extern "C" fn usleep(data: Data, micros: c_uint) -> c_int {
    on(data, |host| {
        host.sleep(Duration::from_micros(micros.into()));
        Ok(0)
    })
}

extern "C" fn gettimeofday(data: Data, place: Ptr<timeval>, _zone: Ptr<c_void>) -> c_int {
    on(data, |host| {
        let now = host.time();
        let secs = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        place.put(timeval { tv_sec: secs, tv_usec: now.subsec_micros().into() })?;
        Ok(0)
    })
}

extern "C" fn epoll_create(data: Data, size: c_int) -> c_int {
    on(data, |host| host.epoll_create(size))
}

extern "C" fn epoll_ctl(data: Data, epfd: c_int, op: c_int, fd: c_int, event: Ptr<epoll_event>) -> c_int {
    on(data, |host| {
        let event =
            if op == libc::EPOLL_CTL_DEL { epoll_event { events: 0, u64: 0 } } else { event.get()? };
        host.epoll_ctl(epfd, op, Watched::new(fd, event.events, event.u64))
    })
}

extern "C" fn epoll_wait(
    data: Data,
    epfd: c_int,
    place: Ptr<epoll_event>,
    max: c_int,
    timeout: c_int,
) -> c_int {
    on(data, |host| {
        let max = count_of(max)?.min(POLLED_MAX);
        if max == 0 {
            return Err(Code(libc::EINVAL));
        }
        let events = host.epoll_wait(epfd, max, timeout)?;
        for (index, (events, data)) in events.iter().copied().enumerate() {
            place.at(index).put(epoll_event { events, u64: data })?;
        }
        Ok(c_int::try_from(events.len()).unwrap_or(c_int::MAX))
    })
}

extern "C" fn pipe(data: Data, place: Ptr<c_int>) -> c_int {
    on(data, |host| {
        if place.is_null() {
            return Err(Code(libc::EFAULT));
        }
        let [reader, writer] = host.pipe()?;
        place.put(reader)?;
        place.at(1).put(writer)?;
        Ok(0)
    })
}

extern "C" fn splice(
    data: Data,
    from: c_int,
    from_at: Ptr<i64>,
    to: c_int,
    to_at: Ptr<i64>,
    len: usize,
    flags: c_uint,
) -> c_int {
    on(data, |host| {
        // packetdrill says always where it is to begin, and 0 for nowhere.
        for at in [from_at, to_at] {
            if !at.is_null() && at.get()? != 0 {
                return Err(Code(libc::ESPIPE));
            }
        }
        Ok(c_int::try_from(host.splice(from, to, len.min(MOVED_MAX), flags)?).unwrap_or(c_int::MAX))
    })
}

fn length(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

fn count_of(count: c_int) -> Result<usize, Code> {
    usize::try_from(count).map_err(|_| Code(libc::EINVAL))
}

pub(crate) fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

/// Writes an address, if it is wanted, as much of it as there is room for, and how long it is.
fn put_address(addr: &[u8], place: Address, len: Ptr<u32>) -> Result<(), Code> {
    if place.is_null() {
        return Ok(());
    }
    place.fill(length(len.get()?), addr)?;
    len.put(u32::try_from(addr.len()).unwrap_or(0))
}
