//! Unsafe: plays packetdrill: loads the shared object, and calls what it finds in the table.
#![expect(unsafe_code, reason = "functions of C are called with pointers")]
#![expect(clippy::unwrap_used, reason = "a test that finds no library fails")]

use core::ffi::{c_char, c_int, c_longlong, c_uint, c_ulong, c_void};
use core::net::{IpAddr, SocketAddr};
use core::ptr::{null, null_mut};
use std::ffi::CString;
use std::io;
use std::path::PathBuf;

use libc::{epoll_event, iovec, msghdr, nfds_t, pollfd, sockaddr, socklen_t, timeval};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

type Data = *mut c_void;

/// `struct packetdrill_interface`, as `packetdrill.h` has it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Table {
    data: Data,
    free: unsafe extern "C" fn(Data),
    socket: unsafe extern "C" fn(Data, c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: unsafe extern "C" fn(Data, c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(Data, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    read: unsafe extern "C" fn(Data, c_int, *mut c_void, usize) -> isize,
    readv: unsafe extern "C" fn(Data, c_int, *const iovec, c_int) -> isize,
    recv: unsafe extern "C" fn(Data, c_int, *mut c_void, usize, c_int) -> isize,
    recvfrom:
        unsafe extern "C" fn(Data, c_int, *mut c_void, usize, c_int, *mut sockaddr, *mut socklen_t) -> isize,
    recvmsg: unsafe extern "C" fn(Data, c_int, *mut msghdr, c_int) -> isize,
    write: unsafe extern "C" fn(Data, c_int, *const c_void, usize) -> isize,
    writev: unsafe extern "C" fn(Data, c_int, *const iovec, c_int) -> isize,
    send: unsafe extern "C" fn(Data, c_int, *const c_void, usize, c_int) -> isize,
    sendto:
        unsafe extern "C" fn(Data, c_int, *const c_void, usize, c_int, *const sockaddr, socklen_t) -> isize,
    sendmsg: unsafe extern "C" fn(Data, c_int, *const msghdr, c_int) -> isize,
    fcntl: unsafe extern "C" fn(Data, c_int, c_int, ...) -> c_int,
    ioctl: unsafe extern "C" fn(Data, c_int, c_ulong, ...) -> c_int,
    close: unsafe extern "C" fn(Data, c_int) -> c_int,
    shutdown: unsafe extern "C" fn(Data, c_int, c_int) -> c_int,
    getsockopt: unsafe extern "C" fn(Data, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: unsafe extern "C" fn(Data, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: unsafe extern "C" fn(Data, *mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: unsafe extern "C" fn(Data, *const c_void, usize) -> c_int,
    netdev_receive: unsafe extern "C" fn(Data, *mut c_void, *mut usize, *mut c_longlong) -> c_int,
    usleep: unsafe extern "C" fn(Data, c_uint) -> c_int,
    gettimeofday: unsafe extern "C" fn(Data, *mut timeval, *mut c_void) -> c_int,
    epoll_create: unsafe extern "C" fn(Data, c_int) -> c_int,
    epoll_ctl: unsafe extern "C" fn(Data, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: unsafe extern "C" fn(Data, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: unsafe extern "C" fn(Data, *mut c_int) -> c_int,
    splice: unsafe extern "C" fn(Data, c_int, *mut i64, c_int, *mut i64, usize, c_uint) -> c_int,
}

// SAFETY: packetdrill calls from two threads.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// The shared object that was built for this test.
pub(crate) fn library() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libpantala_packetdrill.so")
}

type Init = unsafe extern "C" fn(*const c_char, *mut Table);

fn init() -> Init {
    // SAFETY: it is ours, and nothing happens when it is loaded.
    let library = unsafe { Library::open(Some(library()), RTLD_NOW | RTLD_LOCAL) }.unwrap();
    // SAFETY: this is how packetdrill calls it.
    let init: Init = unsafe { *library.get(b"packetdrill_interface_init\0").unwrap() };
    // It stays, as packetdrill has it stay.
    core::mem::forget(library);
    init
}

/// An error of the last call.
fn checked<T: PartialOrd + From<i8>>(answer: T) -> Result<T, c_int> {
    if answer < T::from(0) { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(answer) }
}

fn laid_out(addr: SocketAddr) -> Vec<u8> {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut bytes = u16::try_from(family).unwrap().to_ne_bytes().to_vec();
    bytes.extend(addr.port().to_be_bytes());
    match addr.ip() {
        IpAddr::V4(ip) => bytes.extend([ip.octets().as_slice(), &[0; 8]].concat()),
        IpAddr::V6(ip) => bytes.extend([&[0; 4], ip.octets().as_slice(), &[0; 4]].concat()),
    }
    bytes
}

fn taken_in(bytes: &[u8]) -> SocketAddr {
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    match bytes.len() {
        16 => (<[u8; 4]>::try_from(&bytes[4..8]).unwrap(), port).into(),
        _ => (<[u8; 16]>::try_from(&bytes[8..24]).unwrap(), port).into(),
    }
}

/// Calls what it finds in the table. Errors are numbers of `errno.h`.
impl Table {
    /// A host with these flags; without is null.
    pub(crate) fn new(flags: Option<&str>) -> Self {
        let flags = flags.map(|flags| CString::new(flags).unwrap());
        let mut table = core::mem::MaybeUninit::uninit();
        let text = flags.as_ref().map_or(null(), |flags| flags.as_ptr());
        // SAFETY: the text and the place live longer than the call.
        unsafe { init()(text, table.as_mut_ptr()) };
        // SAFETY: it has been filled, whatever the flags say.
        unsafe { table.assume_init() }
    }

    /// There is no table to fill.
    pub(crate) fn nowhere() {
        // SAFETY: both may be null.
        unsafe { init()(null(), null_mut()) };
    }

    pub(crate) fn free(&self) {
        // SAFETY: it may be called at any time.
        unsafe { (self.free)(self.data) };
    }

    pub(crate) fn socket(&self, domain: c_int, kind: c_int) -> Result<c_int, c_int> {
        // SAFETY: there are no pointers.
        checked(unsafe { (self.socket)(self.data, domain, kind, 0) })
    }

    pub(crate) fn bind(&self, fd: c_int, addr: SocketAddr) -> Result<c_int, c_int> {
        let addr = laid_out(addr);
        // SAFETY: the address lives longer than the call.
        checked(unsafe {
            (self.bind)(self.data, fd, addr.as_ptr().cast(), socklen_t::try_from(addr.len()).unwrap())
        })
    }

    pub(crate) fn connect(&self, fd: c_int, addr: SocketAddr) -> Result<c_int, c_int> {
        let addr = laid_out(addr);
        // SAFETY: the address lives longer than the call.
        checked(unsafe {
            (self.connect)(self.data, fd, addr.as_ptr().cast(), socklen_t::try_from(addr.len()).unwrap())
        })
    }

    /// Connects to the address that is none.
    pub(crate) fn disconnect(&self, fd: c_int) -> Result<c_int, c_int> {
        let nobody = [0_u8; 16];
        // SAFETY: the address lives longer than the call.
        checked(unsafe { (self.connect)(self.data, fd, nobody.as_ptr().cast(), 16) })
    }

    pub(crate) fn listen(&self, fd: c_int) -> Result<c_int, c_int> {
        // SAFETY: there are no pointers.
        checked(unsafe { (self.listen)(self.data, fd, 5) })
    }

    pub(crate) fn accept(&self, fd: c_int) -> Result<(c_int, SocketAddr), c_int> {
        let (mut bytes, mut len) = ([0_u8; 128], 128);
        // SAFETY: the places live longer than the call.
        let new = checked(unsafe { (self.accept)(self.data, fd, bytes.as_mut_ptr().cast(), &raw mut len) })?;
        Ok((new, taken_in(&bytes[..usize::try_from(len).unwrap()])))
    }

    pub(crate) fn read(&self, fd: c_int, len: usize) -> Result<Vec<u8>, c_int> {
        let mut bytes = vec![0; len];
        // SAFETY: the place lives longer than the call.
        let count = checked(unsafe { (self.read)(self.data, fd, bytes.as_mut_ptr().cast(), len) })?;
        bytes.truncate(usize::try_from(count).unwrap());
        Ok(bytes)
    }

    pub(crate) fn recv_from(&self, fd: c_int) -> Result<(Vec<u8>, SocketAddr), c_int> {
        let (mut bytes, mut addr, mut len) = (vec![0; 2000], [0_u8; 128], 128);
        let (room, place) = (bytes.len(), bytes.as_mut_ptr().cast());
        // SAFETY: the places live longer than the call.
        let count = checked(unsafe {
            (self.recvfrom)(self.data, fd, place, room, 0, addr.as_mut_ptr().cast(), &raw mut len)
        })?;
        bytes.truncate(usize::try_from(count).unwrap());
        Ok((bytes, taken_in(&addr[..usize::try_from(len).unwrap()])))
    }

    pub(crate) fn send_to(&self, fd: c_int, bytes: &[u8], to: SocketAddr) -> Result<isize, c_int> {
        let addr = laid_out(to);
        let len = socklen_t::try_from(addr.len()).unwrap();
        let (place, addr) = (bytes.as_ptr().cast(), addr.as_ptr().cast());
        // SAFETY: the bytes live longer than the call, and so does the address, which is dropped behind it.
        checked(unsafe { (self.sendto)(self.data, fd, place, bytes.len(), 0, addr, len) })
    }

    pub(crate) fn write(&self, fd: c_int, bytes: &[u8]) -> Result<isize, c_int> {
        // SAFETY: the bytes live longer than the call.
        checked(unsafe { (self.write)(self.data, fd, bytes.as_ptr().cast(), bytes.len()) })
    }

    /// Receives with flags.
    pub(crate) fn recv(&self, fd: c_int, len: usize, flags: c_int) -> Result<Vec<u8>, c_int> {
        let mut bytes = vec![0; len];
        // SAFETY: the place lives longer than the call.
        let count = checked(unsafe { (self.recv)(self.data, fd, bytes.as_mut_ptr().cast(), len, flags) })?;
        bytes.truncate(usize::try_from(count).unwrap());
        Ok(bytes)
    }

    /// Sends with flags.
    pub(crate) fn send(&self, fd: c_int, bytes: &[u8], flags: c_int) -> Result<isize, c_int> {
        // SAFETY: the bytes live longer than the call.
        checked(unsafe { (self.send)(self.data, fd, bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    /// Receives a message of so many bytes at the most, and as many of control data; answers how many bytes there were, the
    /// flags, and the control data.
    pub(crate) fn recv_message(
        &self,
        fd: c_int,
        [len, room]: [usize; 2],
        flags: c_int,
    ) -> Result<(isize, c_int, Vec<u8>), c_int> {
        let (mut bytes, mut control) = (vec![0_u8; len], vec![0_u8; room]);
        let mut piece = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
        let mut message = msghdr {
            msg_name: null_mut(),
            msg_namelen: 0,
            msg_iov: &raw mut piece,
            msg_iovlen: 1,
            msg_control: control.as_mut_ptr().cast(),
            msg_controllen: room,
            msg_flags: -1,
        };
        // SAFETY: all places live longer than the call.
        let count = checked(unsafe { (self.recvmsg)(self.data, fd, &raw mut message, flags) })?;
        control.truncate(message.msg_controllen);
        Ok((count, message.msg_flags, control))
    }

    /// The ends to read from and to write to.
    pub(crate) fn pipe(&self) -> Result<[c_int; 2], c_int> {
        let mut ends = [-1; 2];
        // SAFETY: there is room for two.
        checked(unsafe { (self.pipe)(self.data, ends.as_mut_ptr()) })?;
        Ok(ends)
    }

    /// Splices as packetdrill does, which says always where: `at`, 0 for nowhere.
    pub(crate) fn splice(&self, ends: [c_int; 2], len: usize, at: i64) -> Result<c_int, c_int> {
        let (mut from_at, mut to_at, flags) = (at, at, libc::SPLICE_F_NONBLOCK);
        let ([from, to], places) = (ends, [&raw mut from_at, &raw mut to_at]);
        // SAFETY: both places live longer than the call.
        checked(unsafe { (self.splice)(self.data, from, places[0], to, places[1], len, flags) })
    }

    pub(crate) fn close(&self, fd: c_int) -> Result<c_int, c_int> {
        // SAFETY: there are no pointers.
        checked(unsafe { (self.close)(self.data, fd) })
    }

    pub(crate) fn shutdown(&self, fd: c_int, how: c_int) -> Result<c_int, c_int> {
        // SAFETY: there are no pointers.
        checked(unsafe { (self.shutdown)(self.data, fd, how) })
    }

    pub(crate) fn set_nonblocking(&self, fd: c_int) {
        // SAFETY: what is behind it is a number.
        let done = checked(unsafe { (self.fcntl)(self.data, fd, libc::F_SETFL, libc::O_NONBLOCK) });
        assert_eq!(done, Ok(0));
        // SAFETY: nothing is behind it.
        let flags = checked(unsafe { (self.fcntl)(self.data, fd, libc::F_GETFL) });
        assert_eq!(flags, Ok(libc::O_RDWR | libc::O_NONBLOCK));
    }

    pub(crate) fn waiting(&self, fd: c_int) -> c_int {
        let mut count: c_int = -1;
        // SAFETY: what is behind it is a place that lives longer than the call.
        let done = checked(unsafe { (self.ioctl)(self.data, fd, libc::FIONREAD, &raw mut count) });
        assert_eq!(done, Ok(0));
        count
    }

    pub(crate) fn option(
        &self,
        fd: c_int,
        level: c_int,
        option: c_int,
        room: usize,
    ) -> Result<Vec<u8>, c_int> {
        let (mut bytes, mut len) = (vec![0_u8; room], socklen_t::try_from(room).unwrap());
        let place = bytes.as_mut_ptr().cast();
        // SAFETY: the places live longer than the call.
        checked(unsafe { (self.getsockopt)(self.data, fd, level, option, place, &raw mut len) })?;
        bytes.truncate(usize::try_from(len).unwrap());
        Ok(bytes)
    }

    pub(crate) fn set_option(
        &self,
        fd: c_int,
        level: c_int,
        option: c_int,
        value: &[u8],
    ) -> Result<c_int, c_int> {
        let (place, len) = (value.as_ptr().cast(), socklen_t::try_from(value.len()).unwrap());
        // SAFETY: the value lives longer than the call.
        checked(unsafe { (self.setsockopt)(self.data, fd, level, option, place, len) })
    }

    /// Polls one descriptor.
    pub(crate) fn poll(&self, fd: c_int, events: i16, timeout: c_int) -> Result<i16, c_int> {
        let mut polled = pollfd { fd, events, revents: -1 };
        // SAFETY: the place lives longer than the call.
        let count = checked(unsafe { (self.poll)(self.data, &raw mut polled, 1, timeout) })?;
        assert_eq!(count, c_int::from(polled.revents != 0));
        Ok(polled.revents)
    }

    /// With how many of so many equal ones something has happened.
    pub(crate) fn poll_many(&self, fd: c_int, count: usize) -> Result<c_int, c_int> {
        let mut polled = vec![pollfd { fd, events: libc::POLLOUT, revents: 0 }; count];
        let len = nfds_t::try_from(count).unwrap();
        // SAFETY: the list lives longer than the call.
        checked(unsafe { (self.poll)(self.data, polled.as_mut_ptr(), len, 0) })
    }

    /// Writes so many pieces of one byte each.
    pub(crate) fn write_pieces(&self, fd: c_int, count: usize) -> Result<isize, c_int> {
        let mut byte = 0_u8;
        let pieces = vec![iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 }; count];
        // SAFETY: the list lives longer than the call, and so does the byte.
        checked(unsafe { (self.writev)(self.data, fd, pieces.as_ptr(), c_int::try_from(count).unwrap()) })
    }

    pub(crate) fn epoll_create(&self) -> c_int {
        // SAFETY: there are no pointers.
        checked(unsafe { (self.epoll_create)(self.data, 1) }).unwrap()
    }

    pub(crate) fn epoll_add(&self, epfd: c_int, fd: c_int, events: u32, data: u64) -> Result<c_int, c_int> {
        let mut event = epoll_event { events, u64: data };
        // SAFETY: the event lives longer than the call.
        checked(unsafe { (self.epoll_ctl)(self.data, epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event) })
    }

    pub(crate) fn epoll_wait(&self, epfd: c_int, timeout: c_int) -> Result<Vec<(u32, u64)>, c_int> {
        let mut events = [epoll_event { events: 0, u64: 0 }; 4];
        let place = events.as_mut_ptr();
        // SAFETY: there is room for four, longer than the call.
        let count = checked(unsafe { (self.epoll_wait)(self.data, epfd, place, 4, timeout) })?;
        Ok(events[..usize::try_from(count).unwrap()].iter().map(|event| (event.events, event.u64)).collect())
    }

    pub(crate) fn inject(&self, packet: &[u8]) {
        // SAFETY: the packet lives longer than the call.
        let done = checked(unsafe { (self.netdev_send)(self.data, packet.as_ptr().cast(), packet.len()) });
        assert_eq!(done, Ok(0));
    }

    /// The next packet, and when it was sent, in microseconds.
    pub(crate) fn sniff(&self) -> Option<(Vec<u8>, i64)> {
        let (mut bytes, mut time) = (vec![0; 1 << 16], 0);
        let (mut len, place) = (bytes.len(), bytes.as_mut_ptr().cast());
        // SAFETY: the places live longer than the call.
        let done = checked(unsafe { (self.netdev_receive)(self.data, place, &raw mut len, &raw mut time) });
        assert_eq!(done, Ok(0));
        bytes.truncate(len);
        (len > 0).then_some((bytes, time))
    }

    pub(crate) fn sleep(&self, micros: c_uint) -> Result<c_int, c_int> {
        // SAFETY: there are no pointers.
        checked(unsafe { (self.usleep)(self.data, micros) })
    }

    /// Microseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let mut time = timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: the place lives longer than the call.
        let done = checked(unsafe { (self.gettimeofday)(self.data, &raw mut time, null_mut()) });
        assert_eq!(done, Ok(0));
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    /// Calls each function with null for each pointer, and those that are not supported.
    pub(crate) fn with_nothing(&self, fd: c_int) -> Vec<Result<isize, c_int>> {
        let data = self.data;
        let wide = |answer: c_int| isize::try_from(answer).unwrap();
        let calls: [&dyn Fn() -> isize; 23] = [
            // SAFETY: null is no place, which is what is tried, here and below.
            &|| wide(unsafe { (self.bind)(data, fd, null(), 16) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.connect)(data, fd, null(), 16) }),
            // SAFETY: as above.
            &|| unsafe { (self.read)(data, fd, null_mut(), 9) },
            // SAFETY: as above.
            &|| unsafe { (self.readv)(data, fd, null(), 2) },
            // SAFETY: as above.
            &|| unsafe { (self.recv)(data, fd, null_mut(), 9, 0) },
            // SAFETY: as above.
            &|| unsafe { (self.recvfrom)(data, fd, null_mut(), 9, 0, null_mut(), null_mut()) },
            // SAFETY: as above.
            &|| unsafe { (self.recvmsg)(data, fd, null_mut(), 0) },
            // SAFETY: as above.
            &|| unsafe { (self.write)(data, fd, null(), 9) },
            // SAFETY: as above.
            &|| unsafe { (self.writev)(data, fd, null(), 2) },
            // SAFETY: as above.
            &|| unsafe { (self.send)(data, fd, null(), 9, 0) },
            // SAFETY: as above.
            &|| unsafe { (self.sendto)(data, fd, null(), 9, 0, null(), 0) },
            // SAFETY: as above.
            &|| unsafe { (self.sendmsg)(data, fd, null(), 0) },
            // SAFETY: as above.
            &|| wide(unsafe { (self.ioctl)(data, fd, libc::FIONREAD, null_mut::<c_int>()) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.getsockopt)(data, fd, 6, 11, null_mut(), null_mut()) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.setsockopt)(data, fd, 6, 1, null(), 4) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.poll)(data, null_mut(), 1, 0) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.netdev_send)(data, null(), 40) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.netdev_receive)(data, null_mut(), null_mut(), null_mut()) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.gettimeofday)(data, null_mut(), null_mut()) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.epoll_ctl)(data, fd, 1, fd, null_mut()) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.epoll_wait)(data, fd, null_mut(), 1, 0) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.pipe)(data, null_mut()) }),
            // SAFETY: as above.
            &|| wide(unsafe { (self.splice)(data, fd, null_mut(), fd, null_mut(), 1, 0) }),
        ];
        calls.iter().map(|call| checked(call())).collect()
    }
}

/// `getsockopt` as it stands in the library for programs that load it before the system's.
pub(crate) fn exported_option(fd: c_int, level: c_int, option: c_int) -> Result<Vec<u8>, c_int> {
    // SAFETY: it is loaded already.
    let library = unsafe { Library::open(Some(library()), RTLD_NOW | RTLD_LOCAL) }.unwrap();
    type Ask = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    // SAFETY: this is the function of C.
    let ask: Ask = unsafe { *library.get(b"getsockopt\0").unwrap() };
    let (mut bytes, mut len) = (vec![0_u8; 512], 512);
    let place = bytes.as_mut_ptr().cast();
    // SAFETY: the places live longer than the call.
    checked(unsafe { ask(fd, level, option, place, &raw mut len) })?;
    bytes.truncate(usize::try_from(len).unwrap());
    Ok(bytes)
}
