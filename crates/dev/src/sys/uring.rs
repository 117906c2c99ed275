//! Unsafe: the kernel finds what to read into, and what to write, through pointers in a queue.
//!
//! Several frames of a TAP or TUN queue with one system call, by io_uring.
#![expect(unsafe_code, reason = "an entry of the queue holds pointers to what it is about")]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use io_uring::register::Restriction;
use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};

use super::tun::TapQueue;

/// Frames of a call, at the most.
pub const BATCH: usize = 16;

/// The kernel's answers for the frames of a call, in their order.
pub type Answers = [i32; BATCH];

/// Reads and writes frames in batches. It may do nothing else: the kernel refuses other operations on it.
pub struct Uring(IoUring);

impl Uring {
    /// A ring of [`BATCH`] entries.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM` where the kernel, `kernel.io_uring_disabled` or a system call filter leaves no io_uring.
    pub fn open() -> io::Result<Self> {
        let entries = u32::try_from(BATCH).map_err(io::Error::other)?;
        let ring = IoUring::builder().dontfork().setup_r_disabled().build(entries)?;
        let mut only = [opcode::Readv::CODE, opcode::Writev::CODE].map(Restriction::sqe_op);
        ring.submitter().register_restrictions(&mut only)?;
        ring.submitter().register_enable_rings()?;
        Ok(Self(ring))
    }

    /// Reads a frame, virtio header first, into the buffers of each of `frames`, as [`TapQueue::readv`] does.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the kernel takes no entries. Frames have their own [`answer`]s.
    pub fn read<const N: usize>(
        &mut self,
        queue: &TapQueue,
        frames: &mut [[IoSliceMut<'_>; N]],
    ) -> io::Result<Answers> {
        let fd = types::Fd(queue.as_fd().as_raw_fd());
        let count = u32::try_from(N).map_err(io::Error::other)?;
        let entries = frames.iter_mut().map(|buffers| {
            let at = buffers.as_mut_ptr().cast::<libc::iovec>();
            opcode::Readv::new(fd, at, count).rw_flags(libc::RWF_NOWAIT).build()
        });
        // SAFETY: `IoSliceMut` is laid out as `iovec`, and `frames` borrows the buffers until `run` returns.
        unsafe { self.run(entries) }
    }

    /// Sends frames, virtio header first, each from its own buffers, as [`TapQueue::writev`] does.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the kernel takes no entries. Frames have their own [`answer`]s.
    pub fn write<'a, 'b: 'a>(
        &mut self,
        queue: &TapQueue,
        frames: impl Iterator<Item = &'a [IoSlice<'b>]>,
    ) -> io::Result<Answers> {
        let fd = types::Fd(queue.as_fd().as_raw_fd());
        let entries = frames.map(|buffers| {
            let (at, count) = (buffers.as_ptr().cast::<libc::iovec>(), buffers.len());
            let count = u32::try_from(count).unwrap_or(0);
            opcode::Writev::new(fd, at, count).rw_flags(libc::RWF_NOWAIT).build()
        });
        // SAFETY: `IoSlice` is laid out as `iovec`, and 'a and 'b outlive this call.
        unsafe { self.run(entries) }
    }

    /// Has the kernel do what the entries say, of which the first [`BATCH`] count.
    ///
    /// # Safety
    /// The memory that entries point to must be as they say until this returns. They must not wait (`RWF_NOWAIT`): the kernel
    /// has ended them when the call that hands them over returns, whatever that answers.
    unsafe fn run(&mut self, entries: impl Iterator<Item = Entry>) -> io::Result<Answers> {
        let mut answers = [-libc::EAGAIN; BATCH];
        let mut left = 0;
        for (entry, at) in entries.zip(0..BATCH as u64) {
            // SAFETY: as the caller says.
            let pushed = unsafe { self.0.submission().push(&entry.user_data(at)) };
            pushed.map_err(|_| not_supported())?;
            left += 1;
        }
        while left > 0 {
            match self.0.submit_and_wait(left) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(not_supported()),
                _ => {}
            }
            for done in self.0.completion() {
                let at = usize::try_from(done.user_data()).unwrap_or(BATCH);
                if let Some(answer) = answers.get_mut(at) {
                    *answer = done.result();
                }
                left = left.saturating_sub(1);
            }
        }
        Ok(answers)
    }
}

fn not_supported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// Returns a frame's answer as [`TapQueue::readv`] and [`TapQueue::writev`] give it: its length, or `None` if there is none
/// or it cannot be taken now.
///
/// # Errors
/// As of the two; `EOPNOTSUPP` where the kernel knows no batches of frames.
pub fn answer(answer: i32) -> io::Result<Option<usize>> {
    match usize::try_from(answer) {
        Ok(len) => Ok(Some(len)),
        Err(_) if answer == -libc::EAGAIN || answer == -libc::EINTR => Ok(None),
        Err(_) => Err(io::Error::from_raw_os_error(-answer)),
    }
}
