//! Why a message of neighbour discovery is dropped.

use core::fmt;
use core::net::Ipv6Addr;

/// An error in a neighbour discovery message. All of these are dropped silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are what the message said")]
pub enum Error {
    /// Fewer bytes than the message's fixed part.
    Short { need: usize, have: usize },
    /// Not a type of neighbour discovery.
    Kind { kind: u8 },
    /// A code other than 0.
    Code { kind: u8, code: u8 },
    /// A hop limit other than 255: it may come from beyond the link.
    HopLimit { found: u8 },
    /// An option with a length of 0, or one it cannot have; in units of eight bytes.
    OptionLen { kind: u8, len: u8 },
    /// An option reaches beyond the message.
    OptionTruncated { have: usize },
    /// Target, or destination of a redirect, is a group.
    Multicast { addr: Ipv6Addr },
    /// Only routers' link-local addresses may send this.
    SourceNotLinkLocal { src: Ipv6Addr },
    /// The unspecified address has a link-layer address.
    LinkAddrOfUnspecified,
    /// A solicitation from the unspecified address, but not to the solicited-node group.
    ProbeToHost { dst: Ipv6Addr },
    /// An advertisement that says it was asked for, but was sent to a group.
    SolicitedToGroup { dst: Ipv6Addr },
    /// The target of a redirect is neither its destination nor a router.
    RedirectTarget { target: Ipv6Addr },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { need, have } => write!(f, "the message has {have} bytes, it takes {need}"),
            Self::Kind { kind } => write!(f, "ICMPv6 type {kind} is not neighbour discovery"),
            Self::Code { kind, code } => write!(f, "code {code} instead of 0 in ICMPv6 type {kind}"),
            Self::HopLimit { found } => write!(f, "a hop limit of {found} instead of 255"),
            Self::OptionLen { kind, len } => write!(f, "option {kind} cannot have a length of {len}"),
            Self::OptionTruncated { have } => {
                write!(f, "an option reaches beyond the {have} bytes there are")
            }
            Self::Multicast { addr } => write!(f, "{addr} is a group"),
            Self::SourceNotLinkLocal { src } => write!(f, "the source {src} is not link-local"),
            Self::LinkAddrOfUnspecified => f.write_str("a link-layer address of the unspecified address"),
            Self::ProbeToHost { dst } => write!(f, "a probe to {dst} instead of the solicited-node group"),
            Self::SolicitedToGroup { dst } => write!(f, "a solicited advertisement to the group {dst}"),
            Self::RedirectTarget { target } => {
                write!(f, "a redirect to {target}, neither the destination nor link-local")
            }
        }
    }
}

impl core::error::Error for Error {}
