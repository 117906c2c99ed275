//! Errors in extension headers, and the ICMPv6 message that each causes.

use super::{Action, HEADERS_MAX, OPTION_BYTES_MAX};
use crate::icmp6::{Message, parameter_problem};
use core::fmt;

/// An error in the extension headers. `pointer` is the offset of the offending byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "pointer is explained once, the others are the fields that were wrong")]
pub enum Error {
    /// A header reaches beyond the packet.
    Truncated { pointer: u32, need: usize, have: usize },
    /// More than [`HEADERS_MAX`] headers.
    TooManyHeaders { pointer: u32 },
    /// More than [`OPTION_BYTES_MAX`] bytes of options.
    TooManyOptionBytes { pointer: u32 },
    /// A hop-by-hop options header behind another header.
    HopByHopNotFirst { pointer: u32 },
    /// A second fragment header.
    TwoFragmentHeaders { pointer: u32 },
    /// An option reaches beyond its header.
    OptionOverruns { pointer: u32, kind: u8, len: u8 },
    /// An unknown option whose type forbids to skip it.
    UnknownOption { pointer: u32, kind: u8, action: Action },
    /// A routing header with segments left, of whatever type.
    RoutingHeader { pointer: u32, kind: u8, segments_left: u8 },
    /// An authentication header too short for itself.
    AuthenticationLen { pointer: u32 },
    /// The first fragment does not reach to the end of the upper layer's header.
    IncompleteFirstFragment,
    /// A fragment that is not the last, with a length that is no multiple of eight.
    FragmentLen { len: usize },
    /// A fragment that ends beyond the longest packet.
    FragmentOverflow { pointer: u32, end: usize },
}

/// The ICMPv6 message to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpReply {
    /// Nothing.
    Silence,
    /// This, if the packet was sent to one host.
    UnlessMulticast(Message),
    /// This, even if the packet was sent to a group.
    Always(Message),
}

impl Error {
    /// The ICMPv6 message to the sender.
    ///
    /// Nothing if headers are truncated, repeated or too many: no stack does that, and it must not pay.
    //= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
    #[must_use]
    pub const fn answer(&self) -> IcmpReply {
        use parameter_problem::{ERRONEOUS_FIELD, INCOMPLETE_CHAIN, UNKNOWN_NEXT_HEADER, UNKNOWN_OPTION};
        let (code, pointer) = match *self {
            Self::Truncated { .. }
            | Self::TooManyHeaders { .. }
            | Self::TooManyOptionBytes { .. }
            | Self::TwoFragmentHeaders { .. }
            | Self::UnknownOption { action: Action::Skip | Action::Discard, .. } => {
                return IcmpReply::Silence;
            }
            Self::UnknownOption { pointer, action: Action::Report, .. } => {
                return IcmpReply::Always(Message::ParameterProblem { code: UNKNOWN_OPTION, pointer });
            }
            Self::UnknownOption { pointer, .. } => (UNKNOWN_OPTION, pointer),
            Self::HopByHopNotFirst { pointer } => (UNKNOWN_NEXT_HEADER, pointer),
            Self::OptionOverruns { pointer, .. }
            | Self::RoutingHeader { pointer, .. }
            | Self::AuthenticationLen { pointer }
            | Self::FragmentOverflow { pointer, .. } => (ERRONEOUS_FIELD, pointer),
            Self::IncompleteFirstFragment => (INCOMPLETE_CHAIN, 0),
            // the payload length field of the IPv6 header
            Self::FragmentLen { .. } => (ERRONEOUS_FIELD, 4),
        };
        IcmpReply::UnlessMulticast(Message::ParameterProblem { code, pointer })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { pointer, need, have } => {
                write!(f, "the header at {pointer} takes {need} bytes, there are {have}")
            }
            Self::TooManyHeaders { pointer } => {
                write!(f, "byte {pointer} names one more extension header than {HEADERS_MAX}")
            }
            Self::TooManyOptionBytes { pointer } => {
                write!(
                    f,
                    "with the header whose length is at {pointer}, more than {OPTION_BYTES_MAX} bytes of options"
                )
            }
            Self::HopByHopNotFirst { pointer } => {
                write!(f, "byte {pointer} names hop-by-hop options behind another header")
            }
            Self::TwoFragmentHeaders { pointer } => {
                write!(f, "byte {pointer} names a second fragment header")
            }
            Self::OptionOverruns { pointer, kind, len } => {
                write!(f, "option {kind:#04x} has a length of {len}, beyond its header (byte {pointer})")
            }
            Self::UnknownOption { pointer, kind, .. } => {
                write!(f, "option {kind:#04x} at {pointer} is unknown and may not be skipped")
            }
            Self::RoutingHeader { pointer, kind, segments_left } => {
                write!(
                    f,
                    "a routing header of type {kind} with {segments_left} segments left (byte {pointer})"
                )
            }
            Self::AuthenticationLen { pointer } => {
                write!(f, "an authentication header shorter than 12 bytes (byte {pointer})")
            }
            Self::IncompleteFirstFragment => f.write_str("the first fragment does not have all headers"),
            Self::FragmentLen { len } => {
                write!(f, "a fragment of {len} bytes, no multiple of 8, and others follow")
            }
            Self::FragmentOverflow { end, .. } => write!(f, "a fragment makes a payload of {end} bytes"),
        }
    }
}

impl core::error::Error for Error {}
