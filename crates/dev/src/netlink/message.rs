//! Writing and reading netlink messages: a header, a fixed part, and attributes that may nest.
//!
//! Native byte order, everything aligned to 4 bytes (`linux/netlink.h`, `linux/rtnetlink.h`).

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths and flags of our own requests, which are short and fit the fields"
)]

use core::net::IpAddr;

/// Length of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;

/// A request under construction.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Starts a message of type `kind` (`RTM_…`) with `NLM_F_…` flags and the fixed part that belongs to it.
    pub(super) fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self(bytes)
    }

    /// Appends an attribute.
    pub(super) fn attr(mut self, kind: u16, value: &[u8]) -> Self {
        self.push(kind, value);
        self
    }

    /// Appends a number.
    pub(super) fn u32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Appends a string with the NUL that the kernel wants.
    pub(super) fn str(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    /// Appends an address: 4 or 16 bytes.
    pub(super) fn ip(self, kind: u16, value: IpAddr) -> Self {
        match value {
            IpAddr::V4(a) => self.attr(kind, &a.octets()),
            IpAddr::V6(a) => self.attr(kind, &a.octets()),
        }
    }

    /// Appends an attribute whose value `inside` writes: attributes, or a fixed part and attributes.
    pub(super) fn nest(mut self, kind: u16, fixed: &[u8], inside: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self.push(kind, fixed);
        let mut done = inside(self);
        let len = (done.0.len() - start) as u16;
        done.0[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        done
    }

    /// The bytes to send.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }

    fn push(&mut self, kind: u16, value: &[u8]) {
        self.0.extend_from_slice(&((value.len() + 4) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// One message of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    /// `RTM_…`, or `NLMSG_DONE` and `NLMSG_ERROR`.
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    /// All after the header.
    pub(super) body: &'a [u8],
}

/// The messages of one datagram; stops at the first that does not fit.
pub(super) fn answers(mut bytes: &[u8]) -> impl Iterator<Item = Answer<'_>> {
    core::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..len)?;
        let one =
            Answer { kind: u16_at(bytes, 4)?, flags: u16_at(bytes, 6)?, sequence: u32_at(bytes, 8)?, body };
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(one)
    })
}

/// The attributes in `bytes`: `(kind without the flag bits, value)`; stops at the first that does not fit.
pub(super) fn attrs(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const TYPE_MASK: u16 = 0x3fff; // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
    core::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & TYPE_MASK;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of this kind.
pub(super) fn attr(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attrs(bytes).find(|a| a.0 == kind).map(|a| a.1)
}

/// A number at `offset`.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

/// A number at `offset`.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

/// A string up to its NUL.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// An address of 4 or 16 bytes.
pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_with_nesting_and_padding() {
        let inside = |m: Message| m.u32(7, 70).str(8, "abc");
        let bytes = Message::new(16, libc::NLM_F_ACK, &[1, 2, 3, 4])
            .str(3, "eth0")
            .nest(18, &[9; 4], inside)
            .finish(5);
        let all: Vec<_> = answers(&bytes).collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].kind, all[0].flags, all[0].sequence), (16, 5, 5));
        let (fixed, rest) = all[0].body.split_at(4);
        assert_eq!(fixed, [1, 2, 3, 4]);
        assert_eq!(text(attr(rest, 3).unwrap()), "eth0");
        let nested = attr(rest, 18).unwrap();
        assert_eq!(u32_at(attr(&nested[4..], 7).unwrap(), 0), Some(70));
        assert_eq!(text(attr(&nested[4..], 8).unwrap()), "abc");
    }

    #[test]
    fn cut_and_lying_messages_end_the_iteration_without_a_panic() {
        let whole = Message::new(16, 0, &[0; 4]).str(3, "eth0").finish(1);
        for cut in 0..whole.len() {
            assert_eq!(answers(&whole[..cut]).count(), 0);
            let _ = attrs(&whole[..cut]).count();
        }
        for len in 0..=u8::MAX {
            let mut lying = whole.clone();
            lying[0] = len;
            lying[20] = len;
            assert!(answers(&lying).count() <= 2);
            assert!(attrs(&lying[20..]).count() <= 2);
        }
    }
}
