//! Captures: packets to copy. They come as pcapng.

use serde::{Deserialize, Serialize};

/// The packets of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// Interfaces, by their names; all devices if it is empty.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// The places where packets are copied.
    #[serde(default = "both_directions")]
    pub places: Vec<CapturePlace>,
    /// Bytes of each packet at the most.
    #[serde(default = "snap_len")]
    pub snap_len: u32,
    /// The filter, as classic BPF of Ethernet frames; none if it is empty.
    #[serde(default)]
    pub filter: Vec<CaptureInsn>,
    /// Size of the buffer that each CPU fills while the reader empties another, KiB.
    #[serde(default = "buffer_kib")]
    pub buffer_kib: u32,
    /// Whether packets of interfaces without frames get a link header of zeros, so that all have one link type. Else each interface
    /// has its own.
    #[serde(default)]
    pub with_link_header: bool,
}

/// A place where packets are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CapturePlace {
    /// Received from a device.
    In,
    /// Given to a device.
    Out,
    /// Dropped; the reason is the packet's comment.
    Drop,
}

/// An instruction of classic BPF: `code`, `jt`, `jf`, `k`.
pub type CaptureInsn = (u16, u8, u8, u32);

/// A part of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureBatch {
    /// Blocks of pcapng; the first part begins with the section, each ends with statistics.
    pub pcapng: Vec<u8>,
    /// Whether buffers fill so fast that the next part should be read at once.
    pub is_filling: bool,
}

impl Default for CaptureRequest {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            places: both_directions(),
            snap_len: snap_len(),
            filter: Vec::new(),
            buffer_kib: buffer_kib(),
            with_link_header: false,
        }
    }
}

fn both_directions() -> Vec<CapturePlace> {
    vec![CapturePlace::In, CapturePlace::Out]
}

const fn snap_len() -> u32 {
    wire::pcap::SNAP_LEN
}

const fn buffer_kib() -> u32 {
    4096
}

/// Nanoseconds since 1970: the time of the statistics in a capture.
pub(crate) fn wall_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
