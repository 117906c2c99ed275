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
        /// The missing feature.
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
        /// The attempted change.
        what: &'static str,
    },
    /// The device refused for another reason.
    #[error("interface {name}: {what}: {source}")]
    Refused {
        /// The interface.
        name: String,
        /// The attempted request.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Queue counts of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Receive queues in use: those of their own and those that are half of a pair.
    pub rx: u32,
    /// Transmit queues in use.
    pub tx: u32,
    /// Receive queues that it may have.
    pub rx_max: u32,
    /// Queues are counted in pairs of both directions (`ethtool -L … combined`).
    pub is_combined: bool,
}

/// The distribution of received frames over queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RxHash {
    /// The key of the hash; empty if the device does not show it.
    pub key: Vec<u8>,
    /// Hash → receive queue; the hash is taken modulo its length.
    pub indirection: Vec<u32>,
    /// Which hash it is: [`Self::TOEPLITZ`], or another bit; 0 leaves it as it is.
    pub function: u8,
    /// Transformation of addresses and ports before they are hashed; 0 for none.
    pub transform: u8,
}

impl RxHash {
    /// `ETH_RSS_HASH_TOP`.
    pub const TOEPLITZ: u8 = 1;
}

/// A kind of packet, for which a device can be told what to hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the names of the kinds")]
pub enum Flow {
    Tcp4 = 0x01,
    Udp4 = 0x02,
    Tcp6 = 0x05,
    Udp6 = 0x06,
}

impl Flow {
    /// All that have ports.
    pub const ALL: [Self; 4] = [Self::Tcp4, Self::Udp4, Self::Tcp6, Self::Udp6];
}

/// The fields of [`Flow`]s that make a flow: both addresses (`RXH_IP_SRC`, `RXH_IP_DST`) and both ports
/// (`RXH_L4_B_0_1`, `RXH_L4_B_2_3`).
pub const ADDRESSES_AND_PORTS: u64 = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;

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

    /// Returns the number of queues in use.
    ///
    /// # Errors
    /// [`EthtoolError::Unsupported`] for devices with one.
    pub fn channels(&self) -> Result<Channels, EthtoolError> {
        const GCHANNELS: u32 = 0x3c;
        let mut r = Request::new(GCHANNELS, 36); // cmd, max rx/tx/other/combined, rx/tx/other/combined
        self.ask(&mut r, "channels")?;
        let combined = r.word(8);
        let (rx, tx) = (r.word(5).saturating_add(combined), r.word(6).saturating_add(combined));
        let combined_max = r.word(4);
        Ok(Channels { rx, tx, rx_max: r.word(1).max(combined_max), is_combined: combined_max > 0 })
    }

    /// Returns the distribution of received frames.
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
        let bytes = r.bytes();
        let key = bytes.iter().copied().skip(RXFH_HEAD + entries * 4).take(key_len).collect();
        let [function, transform] = [bytes[RXFH_FUNCTION], bytes[RXFH_FUNCTION + 1]];
        Ok(RxHash { key, indirection, function, transform })
    }

    /// Changes how received frames are spread. Key and table must be as long as those of
    /// [`Self::rx_hash`]; an empty one is left as it is.
    ///
    /// # Errors
    /// [`EthtoolError::Unsupported`], [`EthtoolError::Permission`].
    pub fn set_rx_hash(&self, hash: &RxHash) -> Result<(), EthtoolError> {
        self.ask(&mut srssh(hash), "setting the receive hash")
    }

    /// Returns the hashed fields for a flow type: bits as in [`ADDRESSES_AND_PORTS`].
    ///
    /// # Errors
    /// [`EthtoolError::Unsupported`].
    pub fn hashed_fields(&self, flow: Flow) -> Result<u64, EthtoolError> {
        const GRXFH: u32 = 0x29;
        let mut r = rxfh(GRXFH, flow, 0);
        self.ask(&mut r, "the fields that are hashed")?;
        Ok(r.long(2))
    }

    /// Changes what is hashed of packets of a kind.
    ///
    /// # Errors
    /// [`EthtoolError::Unsupported`], [`EthtoolError::Permission`].
    pub fn set_hashed_fields(&self, flow: Flow, fields: u64) -> Result<(), EthtoolError> {
        const SRXFH: u32 = 0x2a;
        self.ask(&mut rxfh(SRXFH, flow, fields), "setting the fields that are hashed")
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

/// `struct ethtool_rxfh` that sets key, table and function. The table comes before the key.
fn srssh(hash: &RxHash) -> Request {
    const SRSSH: u32 = 0x47;
    const UNCHANGED: u32 = u32::MAX;
    let entries = hash.indirection.len().min(RXFH_MOST / 8);
    let key = &hash.key[..hash.key.len().min(RXFH_MOST / 8)];
    let mut r = Request::new(SRSSH, RXFH_HEAD + entries * 4 + key.len());
    r.set_word(2, if entries == 0 { UNCHANGED } else { length(entries) });
    r.set_word(3, length(key.len()));
    r.put(RXFH_FUNCTION, &[hash.function, hash.transform, 0, 0]);
    for (i, &queue) in hash.indirection[..entries].iter().enumerate() {
        r.set_word(RXFH_HEAD / 4 + i, queue);
    }
    r.put(RXFH_HEAD + entries * 4, key);
    r
}

/// The beginning of `struct ethtool_rxnfc`, which is all that these two commands look at: command, flow type, and a
/// 64-bit number.
fn rxfh(command: u32, flow: Flow, fields: u64) -> Request {
    let mut r = Request::new(command, 16);
    r.set_word(1, flow as u32);
    r.put(8, &fields.to_ne_bytes());
    r
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

    /// The 64-bit number that begins at a word.
    fn long(&self, index: usize) -> u64 {
        let bytes = [self.word(index).to_ne_bytes(), self.word(index + 1).to_ne_bytes()].concat();
        bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes)
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
/// Where in it the function stands, and behind it the transformation.
const RXFH_FUNCTION: usize = 16;
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

    /// `struct ethtool_rxfh` of `linux/ethtool.h`, with what stands behind it.
    #[repr(C)]
    struct Rxfh {
        cmd: u32,
        rss_context: u32,
        indir_size: u32,
        key_size: u32,
        hfunc: u8,
        input_xfrm: u8,
        rsvd8: [u8; 2],
        rsvd32: u32,
        rss_config: [u32; 4],
    }

    #[test]
    fn key_and_table_lie_where_the_kernel_looks_for_them() {
        assert_eq!(core::mem::offset_of!(Rxfh, rss_config), RXFH_HEAD);
        assert_eq!(core::mem::offset_of!(Rxfh, hfunc), RXFH_FUNCTION);
        let key = vec![0x6d, 0x5a, 0x6d, 0x5a, 0x6d];
        let hash = RxHash { key, indirection: vec![3, 1], function: RxHash::TOEPLITZ, transform: 0 };
        let bytes = srssh(&hash).bytes();
        let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
        let at = |offset: usize| word(offset);
        assert_eq!(at(core::mem::offset_of!(Rxfh, cmd)), 0x47);
        assert_eq!(at(core::mem::offset_of!(Rxfh, rss_context)), 0, "of the device, not of a context");
        assert_eq!(
            (at(core::mem::offset_of!(Rxfh, indir_size)), at(core::mem::offset_of!(Rxfh, key_size))),
            (2, 5)
        );
        assert_eq!(bytes[core::mem::offset_of!(Rxfh, hfunc)], 1);
        assert_eq!(
            (bytes[core::mem::offset_of!(Rxfh, input_xfrm)], at(core::mem::offset_of!(Rxfh, rsvd32))),
            (0, 0)
        );
        assert_eq!((at(24), at(28), &bytes[32..37]), (3, 1, &[0x6d, 0x5a, 0x6d, 0x5a, 0x6d][..]));
    }

    #[test]
    fn an_empty_table_and_an_empty_key_are_left_as_they_are() {
        let none = RxHash { key: Vec::new(), indirection: Vec::new(), function: 0, transform: 0 };
        assert_eq!(srssh(&none).0, [0x47, 0, u32::MAX, 0, 0, 0]);
    }

    #[test]
    fn hashed_fields_are_asked_for_with_sixteen_bytes() {
        let r = rxfh(0x2a, Flow::Udp6, ADDRESSES_AND_PORTS);
        let bytes = r.bytes();
        assert_eq!((bytes.len(), r.word(0), r.word(1), r.long(2)), (16, 0x2a, 6, 0xf0));
        assert_eq!(bytes[8..16], 0xf0_u64.to_ne_bytes());
    }
}
