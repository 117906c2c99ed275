//! The layout of one buffer: a cache line of metadata, headroom, data.
//!
//! ```text
//! 0        64                 320                                2368
//! ├─ meta ──┼──── headroom ────┼──────────── data ────────────────┤
//!           └─ AF_XDP chunk (2304) ─ the kernel's own headroom is 256 ─┘
//! ```
//!
//! The stride is an *odd* number of cache lines. With a power of two all metadata lines would meet in one or two
//! of the 64 sets of the first-level cache, and every stage would miss: measured, up to three times the cost.

use crate::pkt::Pkt;

/// Bytes of metadata in front of each buffer: one cache line.
pub const META_LEN: usize = 64;
/// Bytes between the metadata and where a received frame starts: what AF_XDP reserves, and room for our headers.
pub const HEADROOM: usize = 256;
/// Bytes of data that a buffer holds when nothing has been prepended.
pub const DATA_LEN: usize = 2048;
/// Bytes of headroom and data together: the chunk that a device sees.
pub const BUF_LEN: usize = HEADROOM + DATA_LEN;
/// Bytes from one buffer to the next in an arena.
pub const STRIDE: usize = META_LEN + BUF_LEN;
/// Bytes that [`Pkt::window`] shows: every header of the fast path fits.
pub const WINDOW: usize = 64;

const _: () = assert!(
    (STRIDE / 64) % 2 == 1 && STRIDE.is_multiple_of(64),
    "the stride is an odd number of cache lines"
);
const _: () = assert!(size_of::<SlotHead>() + size_of::<Meta>() == META_LEN);
const _: () = assert!(align_of::<Slot>() == 64 && size_of::<Slot>() == STRIDE);

/// One buffer as it lies in the arena.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) head: SlotHead,
    pub(crate) meta: Meta,
    pub(crate) buf: [u8; BUF_LEN],
}

/// The first part of a slot's cache line: its place in the arena, and where the packet lies in it.
///
/// Nothing outside of this crate gets a reference to it. Code that could write it, or swap it for another slot's, would
/// own memory that another handle owns too.
#[repr(C)]
pub(crate) struct SlotHead {
    /// The next buffer of a chain: a super-packet or a jumbo frame is longer than one buffer.
    pub(crate) next: Option<Pkt>,
    /// The arena's count of handles that were dropped instead of given back.
    pub(crate) leaked: *const core::sync::atomic::AtomicU64,
    /// This slot's index in its arena.
    pub(crate) index: u32,
    /// The receive ring whose allowance this buffer is charged to.
    pub(crate) charged: u16,
    /// The pool that this buffer returns to.
    pub(crate) home: u16,
    /// Holder of the slot; see [`crate::Arena::reclaim`].
    pub(crate) holder: Holder,
    /// The packet's [`Note`], which is not forgotten with the rest of what is the packet's: see [`Flags::KNOWN`].
    pub(crate) note_bits: u8,
    pub(crate) note_serial: u16,
    pub(crate) note_at: u32,
    // From here on, and through `Meta`, it is the packet's and not the buffer's: forgotten together, by a few wide stores.
    /// Bytes of all buffers of the chain; only the head's is kept true.
    pub(crate) total: u32,
    /// First byte of the packet in `buf`.
    pub(crate) off: u16,
    /// Bytes of the packet in this buffer.
    pub(crate) len: u16,
}

/// Facts about a packet beyond its bytes, for as long as it lives; the stack's own notebook.
///
/// Facts that live for one turn of a vector (destination, next hop) are kept by position in scratch arrays instead.
/// All of it is data: two packets that swap theirs are mistaken for each other, and own what they owned.
#[repr(C)]
pub struct Meta {
    /// See [`Flags`].
    pub flags: Flags,
    /// Symmetric Toeplitz hash, its 16 bits of information; meaningful with [`Flags::HASH`].
    pub hash: u16,
    /// Index of the interface it came in by; 0 for packets made here.
    pub rcvif: u16,
    /// Index of the interface it leaves by, once that is decided.
    pub outif: u16,
    /// Offset of the transport header from the start of the packet, bytes, once input has found it.
    pub l4: u16,
    /// With [`Flags::CSUM_PARTIAL`]: where summing starts, from the start of the packet, bytes.
    pub csum_start: u16,
    /// With [`Flags::CSUM_PARTIAL`]: where the sum goes, from `csum_start`, bytes.
    pub csum_off: u8,
    /// The routing table that a rule or its sender chose for it, plus one; 0 for that of the interface it came in by.
    pub fib: u8,
    /// Payload bytes per segment of a super-packet; 0 for an ordinary packet.
    pub gso_size: u16,
    /// The 802.1Q tag control information, with [`Flags::VLAN`].
    pub vlan: u16,
    /// Where the stack resumes this packet after another CPU handed it over: the stack's own code, 0 for a raw frame.
    pub resume: u8,
    /// The upper-layer protocol that input found (IPv4 `protocol`, IPv6 last `next header`).
    pub proto: u8,
    /// Segmentation offload: the segments of a super-packet.
    pub gso: Gso,
    /// Whether its first byte is not where its network header came in, so that no frame's header lies in front of it.
    pub moved: bool,
    /// The mark that a rule of the firewall gave it; 0 for none.
    pub tag: u16,
}

/// By what the firewall of the packet's CPU finds again what it knows of its flow: its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// A place.
    pub at: u32,
    /// Which of those that have had it.
    pub serial: u16,
    /// More of that, and of the packet.
    pub bits: u8,
}

/// The side that may touch a slot's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Holder {
    /// A pool or the stack: there is exactly one [`Pkt`].
    Stack = 0,
    /// A device (a fill or transmit ring): there is no [`Pkt`].
    Device = 1,
}

/// Kind of a super-packet, as the virtio header names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Gso {
    /// An ordinary packet.
    #[default]
    None = 0,
    /// TCP over IPv4.
    Tcp4 = 1,
    /// TCP over IPv6.
    Tcp6 = 2,
    /// UDP over IPv4 or IPv6 (USO): many datagrams.
    Udp = 3,
}

/// A set of facts about a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flags(u16);

impl Flags {
    /// Nothing known.
    pub const NONE: Self = Self(0);
    /// `hash` was computed by us, or by a device known to compute the same.
    pub const HASH: Self = Self(1 << 0);
    /// The transport checksum field holds only the pseudo-header's sum; `csum_start` and `csum_off` are set.
    pub const CSUM_PARTIAL: Self = Self(1 << 1);
    /// The transport checksum is known to be right.
    pub const CSUM_GOOD: Self = Self(1 << 2);
    /// The frame was addressed to the link's broadcast address.
    pub const BROADCAST: Self = Self(1 << 3);
    /// The frame was addressed to a link multicast group.
    pub const MULTICAST: Self = Self(1 << 4);
    /// Made by this stack, not received.
    pub const LOCAL: Self = Self(1 << 5);
    /// Had an 802.1Q tag, now in `vlan`.
    pub const VLAN: Self = Self(1 << 6);
    /// The super-packet's TCP has ECN (CWR only on the first segment).
    pub const GSO_ECN: Self = Self(1 << 7);
    /// Was put together from fragments here.
    pub const REASSEMBLED: Self = Self(1 << 8);
    /// Input saw something in it that is not usual: no later stage may take a shortcut.
    pub const ODD: Self = Self(1 << 9);
    /// Must not wait behind others: the stack's own questions and answers about its links.
    pub const PRIORITY: Self = Self(1 << 10);
    /// Made by the firewall itself, which is not asked about it.
    pub const GENERATED: Self = Self(1 << 11);
    /// The firewall has been asked about it already where it goes on.
    pub const ASKED: Self = Self(1 << 12);
    /// A fragment that is put together on its way, for the firewall, and then goes on.
    pub const TRANSIT: Self = Self(1 << 13);
    /// Sent to a multicast group; listeners on this host receive a copy.
    pub const LOOP: Self = Self(1 << 14);
    /// The firewall knows the packet's flow, and has noted where: [`crate::Pkt::note`].
    pub const KNOWN: Self = Self(1 << 15);

    /// Whether all facts of `other` hold.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any fact of `other` holds.
    #[must_use]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds the facts of `other`.
    pub const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Removes the facts of `other`.
    pub const fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
