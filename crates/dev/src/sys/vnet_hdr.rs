//! The header before each frame of a TAP queue: checksum and segmentation that are still to be done.

/// Length of [`VnetHdr`] on the wire.
pub const VNET_HDR_LEN: usize = 12;

/// `struct virtio_net_hdr_v1`, little-endian on the wire.
///
/// # Spec
/// Virtual I/O Device (VIRTIO) 1.3, 5.1.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VnetHdr {
    /// [`NEEDS_CSUM`], [`DATA_VALID`].
    pub flags: u8,
    /// Type of super-packet; perhaps with [`GSO_ECN`].
    pub gso_type: u8,
    /// Length of all headers that each segment repeats; a hint.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Where the checksummed bytes begin.
    pub csum_start: u16,
    /// Where the checksum goes, from `csum_start`.
    pub csum_offset: u16,
    /// Receive buffers merged; always 0 or 1 with TAP.
    pub num_buffers: u16,
}

/// Flag: the checksum field holds the pseudo-header's sum; the rest is to be added.
pub const NEEDS_CSUM: u8 = 1;
/// Flag: the checksum was found right.
pub const DATA_VALID: u8 = 2;
/// No super-packet.
pub const GSO_NONE: u8 = 0;
/// TCP over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// TCP over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// UDP, IPv4 or IPv6: datagrams of `gso_size`.
pub const GSO_UDP_L4: u8 = 5;
/// Bit in `gso_type`: CWR is set, in the first segment only.
pub const GSO_ECN: u8 = 0x80;

impl VnetHdr {
    /// Reads it from the wire.
    pub const fn decode(b: &[u8; VNET_HDR_LEN]) -> Self {
        Self {
            flags: b[0],
            gso_type: b[1],
            hdr_len: u16::from_le_bytes([b[2], b[3]]),
            gso_size: u16::from_le_bytes([b[4], b[5]]),
            csum_start: u16::from_le_bytes([b[6], b[7]]),
            csum_offset: u16::from_le_bytes([b[8], b[9]]),
            num_buffers: u16::from_le_bytes([b[10], b[11]]),
        }
    }

    /// Writes it for the wire.
    pub const fn encode(&self) -> [u8; VNET_HDR_LEN] {
        let [h0, h1] = self.hdr_len.to_le_bytes();
        let [g0, g1] = self.gso_size.to_le_bytes();
        let [s0, s1] = self.csum_start.to_le_bytes();
        let [o0, o1] = self.csum_offset.to_le_bytes();
        let [n0, n1] = self.num_buffers.to_le_bytes();
        [self.flags, self.gso_type, h0, h1, g0, g1, s0, s1, o0, o1, n0, n1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_udp_super_packet_is_little_endian() {
        let header = VnetHdr {
            flags: NEEDS_CSUM,
            gso_type: GSO_UDP_L4,
            hdr_len: 42,
            gso_size: 1400,
            csum_start: 34,
            csum_offset: 6,
            num_buffers: 0,
        };
        let wire = [1, 5, 42, 0, 0x78, 0x05, 34, 0, 6, 0, 0, 0];
        assert_eq!(header.encode(), wire);
        assert_eq!(VnetHdr::decode(&wire), header);
    }
}
