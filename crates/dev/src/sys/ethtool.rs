//! Unsafe: `ioctl(SIOCETHTOOL)`.
//!
//! What a network device is and can: its driver, its channels, its receive hash, its offloads.
#![expect(unsafe_code, reason = "the ioctl reads a structure that points to another one")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Why a device did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EthtoolError {
    /// The driver does not have this.
    #[error("interface {name}: the driver does not support {what}")]
    Unsupported {
        /// The interface.
        name: String,
        /// What it lacks.
        what: &'static str,
    },
    /// No interface of this name.
    #[error("no interface named {0} in this network namespace; `ip link` lists them")]
    NoSuchLink(String),
    /// The process may not do this.
    #[error("interface {name}: {what}: needs CAP_NET_ADMIN")]
    Permission {
        /// The interface.
        name: String,
        /// What was to be changed.
        what: &'static str,
    },
    /// The device refused for another reason.
    #[error("interface {name}: {what}: {source}")]
    Refused {
        /// The interface.
        name: String,
        /// What was asked for.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// How many queues a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Receive queues in use: those of their own and those that are half of a pair.
    pub rx: u32,
    /// Transmit queues in use.
    pub tx: u32,
}

/// How a device spreads received frames over its queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RxHash {
    /// The key of the Toeplitz hash; empty if the device does not show it.
    pub key: Vec<u8>,
    /// Hash → receive queue; the hash is taken modulo its length.
    pub indirection: Vec<u32>,
}

/// A work that a device may take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Verifies checksums of received frames.
    RxChecksum,
    /// Computes checksums of sent frames. For a veth: leaves them undone.
    TxChecksum,
    /// Splits TCP super-packets.
    Tso,
    /// Merges received frames.
    Gro,
}

/// A handle to ask about one interface of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Ethtool {
    fd: OwnedFd,
    name: String,
}

impl Ethtool {
    /// Opens a handle; the interface is looked for at each question.
    ///
    /// # Errors
    /// [`EthtoolError::Refused`] when the process is out of descriptors.
    pub fn open(name: &str) -> Result<Self, EthtoolError> {
        let name = name.to_owned();
        match socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None) {
            Ok(fd) => Ok(Self { fd, name }),
            Err(e) => Err(EthtoolError::Refused { name, what: "open a socket", source: e.into() }),
        }
    }

    /// The driver, such as `veth` or `ice`.
    ///
    /// # Errors
    /// [`EthtoolError`].
    pub fn driver(&self) -> Result<String, EthtoolError> {
        const GDRVINFO: u32 = 0x03;
        let mut info = Request::new(GDRVINFO, 196); // struct ethtool_drvinfo; the driver's name comes first
        self.ask(&mut info, "its driver's name")?;
        let name = &info.bytes()[4..36];
        let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        Ok(String::from_utf8_lossy(&name[..end]).into_owned())
    }

    /// How many queues are in use.
    ///
    /// # Errors
    /// [`EthtoolError::Unsupported`] for devices with one.
    pub fn channels(&self) -> Result<Channels, EthtoolError> {
        const GCHANNELS: u32 = 0x3c;
        let mut r = Request::new(GCHANNELS, 36); // cmd, max rx/tx/other/combined, rx/tx/other/combined
        self.ask(&mut r, "channels")?;
        let combined = r.word(8);
        Ok(Channels { rx: r.word(5).saturating_add(combined), tx: r.word(6).saturating_add(combined) })
    }

    /// How received frames are spread.
    ///
    /// # Errors
    /// [`EthtoolError::Unsupported`] for devices that do not, such as veth.
    pub fn rx_hash(&self) -> Result<RxHash, EthtoolError> {
        let mut sizes = Request::new(GRSSH, RXFH_HEAD);
        self.ask(&mut sizes, "receive hashing")?;
        let (entries, key_len) = (sizes.word(2) as usize, sizes.word(3) as usize);
        let tail_len = entries * 4 + key_len;
        if tail_len > RXFH_MOST {
            return Err(self.error(io::ErrorKind::InvalidData.into(), "receive hashing"));
        }
        let mut r = Request::new(GRSSH, RXFH_HEAD + tail_len);
        r.set_word(2, sizes.word(2));
        r.set_word(3, sizes.word(3));
        self.ask(&mut r, "receive hashing")?;
        let indirection = (0..entries).map(|i| r.word(RXFH_HEAD / 4 + i)).collect();
        let key = r.bytes().into_iter().skip(RXFH_HEAD + entries * 4).take(key_len).collect();
        Ok(RxHash { key, indirection })
    }

    /// Changes how received frames are spread. Key and table must be as long as those of
    /// [`Self::rx_hash`]; an empty one is left as it is.
    ///
    /// # Errors
    /// [`EthtoolError::Unsupported`], [`EthtoolError::Permission`].
    pub fn set_rx_hash(&self, hash: &RxHash) -> Result<(), EthtoolError> {
        const SRSSH: u32 = 0x47;
        const UNCHANGED: u32 = u32::MAX;
        let entries = hash.indirection.len().min(RXFH_MOST / 8);
        let key = &hash.key[..hash.key.len().min(RXFH_MOST / 8)];
        let mut r = Request::new(SRSSH, RXFH_HEAD + entries * 4 + key.len());
        r.set_word(2, if entries == 0 { UNCHANGED } else { length(entries) });
        r.set_word(3, length(key.len()));
        for (i, &queue) in hash.indirection[..entries].iter().enumerate() {
            r.set_word(RXFH_HEAD / 4 + i, queue);
        }
        r.put(RXFH_HEAD + entries * 4, key);
        self.ask(&mut r, "setting the receive hash")
    }

    /// Whether the device does this work.
    ///
    /// # Errors
    /// [`EthtoolError`].
    pub fn feature(&self, feature: Feature) -> Result<bool, EthtoolError> {
        let mut r = Request::new(feature.numbers().0, 8); // struct ethtool_value
        self.ask(&mut r, feature.name())?;
        Ok(r.word(1) != 0)
    }

    /// Lets the device do this work, or not.
    ///
    /// # Errors
    /// [`EthtoolError::Unsupported`] if it cannot be changed, [`EthtoolError::Permission`].
    pub fn set_feature(&self, feature: Feature, on: bool) -> Result<(), EthtoolError> {
        let mut r = Request::new(feature.numbers().1, 8);
        r.set_word(1, u32::from(on));
        self.ask(&mut r, feature.name())
    }

    fn ask(&self, request: &mut Request, what: &'static str) -> Result<(), EthtoolError> {
        let mut ifreq = IfReq { name: [0; 16], data: request.0.as_mut_ptr(), rest: [0; 16] };
        ifreq.name[..15].iter_mut().zip(self.name.bytes()).for_each(|(to, from)| *to = from);
        // SAFETY: the kernel reads and writes the ifreq and the request, whose length its first words
        // determine; the callers above size each request for its command.
        let answer =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut ifreq) };
        if answer == -1 { Err(self.error(io::Error::last_os_error(), what)) } else { Ok(()) }
    }

    fn error(&self, source: io::Error, what: &'static str) -> EthtoolError {
        let name = self.name.clone();
        match source.raw_os_error() {
            Some(libc::EOPNOTSUPP) => EthtoolError::Unsupported { name, what },
            Some(libc::ENODEV) => EthtoolError::NoSuchLink(name),
            Some(libc::EPERM) => EthtoolError::Permission { name, what },
            _ => EthtoolError::Refused { name, what, source },
        }
    }
}

impl Feature {
    /// The commands that get and set it (`ETHTOOL_G…`, `ETHTOOL_S…`).
    fn numbers(self) -> (u32, u32) {
        match self {
            Self::RxChecksum => (0x14, 0x15),
            Self::TxChecksum => (0x16, 0x17),
            Self::Tso => (0x1e, 0x1f),
            Self::Gro => (0x2b, 0x2c),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::RxChecksum => "rx-checksumming",
            Self::TxChecksum => "tx-checksumming",
            Self::Tso => "tcp-segmentation-offload",
            Self::Gro => "generic-receive-offload",
        }
    }
}

/// A structure of ethtool: 32-bit words, of which the first is the command.
struct Request(Vec<u32>);

impl Request {
    fn new(command: u32, bytes: usize) -> Self {
        let mut words = vec![0; bytes.div_ceil(4).max(1)];
        words[0] = command;
        Self(words)
    }

    fn word(&self, index: usize) -> u32 {
        self.0.get(index).copied().unwrap_or(0)
    }

    fn set_word(&mut self, index: usize, value: u32) {
        if let Some(word) = self.0.get_mut(index) {
            *word = value;
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (i, part) in bytes.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            self.set_word(at / 4 + i, u32::from_ne_bytes(word));
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }
}

/// `struct ifreq` with the member that ethtool uses.
#[repr(C)]
struct IfReq {
    name: [u8; 16],
    data: *mut u32,
    rest: [u8; 16],
}

fn length(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

const GRSSH: u32 = 0x46;
/// Bytes of `struct ethtool_rxfh` before table and key.
const RXFH_HEAD: usize = 24;
/// More than any device has: bounds what is allocated on a driver's word.
const RXFH_MOST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_is_named() {
        let error = Ethtool::open("nope7").unwrap().channels().unwrap_err();
        assert!(matches!(error, EthtoolError::NoSuchLink(name) if name == "nope7"));
    }

    #[test]
    fn the_request_structure_has_the_kernels_size() {
        assert_eq!(size_of::<IfReq>(), size_of::<libc::ifreq>());
    }
}
