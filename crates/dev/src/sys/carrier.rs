//! Unsafe: `ioctl(SIOCGIFFLAGS)`.
//!
//! Whether an interface's wire carries. Asked so, the kernel takes no lock over all interfaces: a thread that forwards
//! may ask.
#![expect(unsafe_code, reason = "ioctl takes a pointer whose meaning depends on the request")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::netdevice::index_to_name_inlined;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// An interface that can be asked, whatever its name becomes.
#[derive(Debug)]
pub struct Carrier {
    fd: OwnedFd,
    ifindex: u32,
}

impl Carrier {
    /// Finds an interface in the network namespace of the calling thread; its carrier is not read yet.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn of(ifindex: u32) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Self { fd, ifindex })
    }

    /// Whether it is up, and its wire carries (`IFF_RUNNING`): two system calls.
    ///
    /// # Errors
    /// `ENODEV` if it was taken away, or moved to another network namespace.
    pub fn is_running(&self) -> io::Result<bool> {
        let name = index_to_name_inlined(&self.fd, self.ifindex)?;
        let mut request = IfReq { name: [0; 16], flags: 0, rest: [0; 22] };
        let bytes = name.as_bytes();
        request.name.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidData)?.copy_from_slice(bytes);
        // SAFETY: the structure has the size and layout that the request wants, and is only written during the call.
        let answer =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCGIFFLAGS as libc::Ioctl, &raw mut request) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(i32::from(request.flags) & libc::IFF_RUNNING != 0)
    }
}

/// `struct ifreq` with the member for flags.
#[repr(C)]
struct IfReq {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_structure_has_the_kernels_size() {
        assert_eq!(size_of::<IfReq>(), size_of::<libc::ifreq>());
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let error = Carrier::of(4_000_000).unwrap().is_running().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
