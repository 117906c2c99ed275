//! PPP: the protocols of its frames, control packets and their options, and messages of PAP and CHAP.
//!
//! Lengths are checked before a value is read: options of a view can be asked without further errors.
//!
//! # Spec
//! RFC 1661 §5, §6; RFC 1332 §3; RFC 1334 §2; RFC 1877 §1; RFC 1994 §4; RFC 5072 §4.

#[cfg(test)]
pub(crate) mod tests;

/// The protocols of frames.
pub mod protocol {
    /// IPv4.
    pub const IPV4: u16 = 0x0021;
    /// IPv6.
    pub const IPV6: u16 = 0x0057;
    /// Internet Protocol Control Protocol.
    pub const IPCP: u16 = 0x8021;
    /// IPv6 Control Protocol.
    pub const IPV6CP: u16 = 0x8057;
    /// Link Control Protocol.
    pub const LCP: u16 = 0xc021;
    /// Password Authentication Protocol.
    pub const PAP: u16 = 0xc023;
    /// Challenge Handshake Authentication Protocol.
    pub const CHAP: u16 = 0xc223;
}

/// Codes of control packets.
pub mod code {
    /// Options that the sender wants.
    pub const CONFIGURE_REQUEST: u8 = 1;
    /// All of them are accepted.
    pub const CONFIGURE_ACK: u8 = 2;
    /// Some values are not accepted, and these are proposed.
    pub const CONFIGURE_NAK: u8 = 3;
    /// Some options are not known, or not negotiable.
    pub const CONFIGURE_REJECT: u8 = 4;
    /// The sender ends.
    pub const TERMINATE_REQUEST: u8 = 5;
    /// The answer to that.
    pub const TERMINATE_ACK: u8 = 6;
    /// A code is not known.
    pub const CODE_REJECT: u8 = 7;
    /// A protocol is not known.
    pub const PROTOCOL_REJECT: u8 = 8;
    /// Asks whether the peer is there.
    pub const ECHO_REQUEST: u8 = 9;
    /// The answer to that.
    pub const ECHO_REPLY: u8 = 10;
    /// Is discarded.
    pub const DISCARD_REQUEST: u8 = 11;
}

/// Codes of PAP.
pub mod pap {
    /// Name and password.
    pub const REQUEST: u8 = 1;
    /// They are right.
    pub const ACK: u8 = 2;
    /// They are wrong.
    pub const NAK: u8 = 3;
}

/// Codes of CHAP.
pub mod chap {
    /// A challenge.
    pub const CHALLENGE: u8 = 1;
    /// The answer to it.
    pub const RESPONSE: u8 = 2;
    /// It is right.
    pub const SUCCESS: u8 = 3;
    /// It is wrong.
    pub const FAILURE: u8 = 4;
    /// The algorithm MD5 in LCP's option.
    pub const MD5: u8 = 5;
}

/// Options of LCP.
pub mod lcp {
    /// The largest packet that the sender receives.
    pub const MRU: u8 = 1;
    /// The protocol by which the peer is to authenticate itself.
    pub const AUTH: u8 = 3;
    /// A random number by which a loop is found.
    pub const MAGIC: u8 = 5;
}

/// Options of IPCP.
pub mod ipcp {
    /// The sender's address.
    pub const ADDRESS: u8 = 3;
    /// The first name server.
    pub const DNS1: u8 = 129;
    /// The second one.
    pub const DNS2: u8 = 131;
}

/// Options of IPV6CP.
pub mod ipv6cp {
    /// The sender's interface identifier.
    pub const IDENTIFIER: u8 = 1;
}

/// Length of the fixed part of a control packet.
pub const HEADER_LEN: usize = 4;

/// A fault of a control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its fixed part.
    Short,
    /// Its length is below that, or beyond the frame.
    Length,
    /// An option ends beyond the packet, or is shorter than its fixed part.
    Option,
}

/// A control packet, also one of PAP or CHAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    /// Its code.
    pub code: u8,
    /// By which an answer is found.
    pub id: u8,
    /// All behind the fixed part.
    pub data: &'a [u8],
}

impl<'a> View<'a> {
    /// Parses a packet; bytes behind it are padding (RFC 1661 §5).
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let &[code, id, hi, lo] = bytes.first_chunk::<HEADER_LEN>().ok_or(Malformed::Short)?;
        let data = bytes.get(HEADER_LEN..usize::from(u16::from_be_bytes([hi, lo])));
        Ok(Self { code, id, data: data.ok_or(Malformed::Length)? })
    }

    /// Parses the data as options.
    ///
    /// # Errors
    /// [`Malformed::Option`].
    pub fn options(&self) -> Result<Options<'a>, Malformed> {
        Options::parse(self.data)
    }
}

/// Options whose lengths have been checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Parses options.
    ///
    /// # Errors
    /// [`Malformed::Option`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, _, rest) = first(rest).ok_or(Malformed::Option)?;
        }
        Ok(Self(bytes))
    }

    /// All of them, by their types.
    pub fn iter(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (kind, value, behind) = first(rest)?;
            rest = behind;
            Some((kind, value))
        })
    }

    /// The first of a type.
    #[must_use]
    pub fn get(self, kind: u8) -> Option<&'a [u8]> {
        self.iter().find(|(known, _)| *known == kind).map(|(_, value)| value)
    }
}

/// Splits the first option off: type, value, the rest.
fn first(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    const FIXED: usize = 2;
    let &[kind, len] = bytes.first_chunk::<FIXED>()?;
    let (option, rest) = bytes.split_at_checked(usize::from(len))?;
    Some((kind, option.get(FIXED..)?, rest))
}

/// Splits a field off that begins with its length: value, the rest.
#[must_use]
pub fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*len))
}
