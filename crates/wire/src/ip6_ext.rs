//! The headers between the IPv6 header and the upper layer (RFC 8200 §4).
//!
//! [`walk`] goes over them once, does a bounded amount of work, and answers where the upper layer starts. All offsets
//! count from the start of the IPv6 header, as the pointer of an ICMPv6 Parameter Problem does.

mod error;
mod fragment;
mod options;

pub use error::{Error, IcmpReply};
pub use fragment::Fragment;
pub use options::Action;

use crate::{Protocol, icmp6, ip6, tcp, udp};

/// Headers in one chain; a packet with more is an [`Error::TooManyHeaders`].
//= https://www.rfc-editor.org/rfc/rfc8504#section-5.3
pub const HEADERS_MAX: usize = 8;
/// Bytes of options read in one chain; a packet with more is an [`Error::TooManyOptionBytes`].
//= https://www.rfc-editor.org/rfc/rfc8504#section-5.3
pub const OPTION_BYTES_MAX: usize = 256;

/// On whose behalf a packet is read, which decides what may be held against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Someone on the way: hop-by-hop options are judged, the others stepped over.
    Router,
    /// The destination: destination options and routing headers are judged too.
    Host,
}

/// The extension headers between the IPv6 header and the transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The upper layer; [`Protocol::ESP`] and [`Protocol::NO_NEXT`] end the chain too.
    pub upper: Protocol,
    /// Where it starts. In a fragment that is not the first nothing starts there: see [`Chain::has_upper`].
    pub upper_at: usize,
    /// The byte that named it, for "unknown next header".
    pub next_header_at: usize,
    /// The fragment header, also of an atomic fragment.
    pub fragment: Option<At<Fragment>>,
    /// The last routing header.
    pub routing: Option<At<Routing>>,
    /// Where an authentication header starts; it is stepped over, not verified.
    pub auth_at: Option<usize>,
    /// Value of the hop-by-hop router alert option (RFC 2711).
    pub router_alert: Option<u16>,
    /// Number of extension headers.
    pub headers: usize,
}

impl Chain {
    /// Whether the upper layer's header is here: false in all fragments but the first.
    #[must_use]
    pub fn has_upper(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.header.offset == 0)
    }

    /// Whether the packet has to be reassembled: it has a fragment header and is not all of its datagram.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| !fragment.header.is_atomic())
    }
}

/// A header and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// Where it starts.
    pub at: usize,
    /// The byte that named it: behind a fragment header that is where reassembly writes the next header.
    pub next_header_at: usize,
    /// The header.
    pub header: T,
}

/// The parsed part of a routing header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Routing type. 0 is the deprecated source route (RFC 5095), 2 mobility, 3 RPL, 4 segment routing.
    pub kind: u8,
    /// Nodes still to be visited.
    pub segments_left: u8,
}

impl Routing {
    /// Asks for a detour that RFC 5095 forbids to make.
    #[must_use]
    pub const fn is_source_route(&self) -> bool {
        self.kind == 0 && self.segments_left != 0
    }
}

/// Goes over the extension headers of a packet.
///
/// What follows the fragment header of a first fragment is stepped over without being judged: it is judged when the
/// datagram is whole. In later fragments the walk ends behind the fragment header.
///
/// # Errors
/// [`Error`] says what the packet dies of, and [`Error::answer`] what the sender is told.
pub fn walk(packet: &ip6::View<'_>, role: Role) -> Result<Chain, Error> {
    let mut walk = Walk::new(packet, role);
    while walk.chain.upper.is_ip6_extension() {
        if walk.step()? == Step::Stop {
            return Ok(walk.chain);
        }
    }
    walk.check_first_fragment()?;
    Ok(walk.chain)
}

#[derive(PartialEq, Eq)]
enum Step {
    Go,
    Stop,
}

struct Walk<'a> {
    packet: &'a [u8],
    role: Role,
    /// Bytes of options that may still be read.
    option_bytes: usize,
    /// The chain so far; `upper` is the header to be read next.
    chain: Chain,
}

impl<'a> Walk<'a> {
    fn new(packet: &ip6::View<'a>, role: Role) -> Self {
        let chain = Chain {
            upper: packet.next_header(),
            upper_at: ip6::HEADER_LEN,
            next_header_at: 6,
            fragment: None,
            routing: None,
            auth_at: None,
            router_alert: None,
            headers: 0,
        };
        Self { packet: packet.packet(), role, option_bytes: OPTION_BYTES_MAX, chain }
    }

    fn step(&mut self) -> Result<Step, Error> {
        let at = self.chain.upper_at;
        self.chain.headers += 1;
        if self.chain.headers > HEADERS_MAX {
            return Err(Error::TooManyHeaders { pointer: pointer(self.chain.next_header_at) });
        }
        match self.chain.upper {
            Protocol::HOP_BY_HOP => self.hop_by_hop(at)?,
            Protocol::DESTINATION_OPTIONS => self.destination_options(at)?,
            Protocol::ROUTING => self.routing(at)?,
            Protocol::AH => self.authentication(at)?,
            _ => return self.fragment(at),
        }
        Ok(Step::Go)
    }

    //= https://www.rfc-editor.org/rfc/rfc8200#section-4.1
    //# IPv6 nodes must accept and attempt to process extension headers in
    //# any order and occurring any number of times in the same packet,
    //# except for the Hop-by-Hop Options header, which is restricted to
    //# appear immediately after an IPv6 header only.
    fn hop_by_hop(&mut self, at: usize) -> Result<(), Error> {
        if at != ip6::HEADER_LEN {
            return Err(Error::HopByHopNotFirst { pointer: pointer(self.chain.next_header_at) });
        }
        let body = self.sized(at)?;
        self.chain.router_alert = self.judge(body, at)?;
        Ok(())
    }

    fn destination_options(&mut self, at: usize) -> Result<(), Error> {
        let judged = self.is_judged();
        let body = self.sized(at)?;
        if judged {
            self.judge(body, at)?;
        }
        Ok(())
    }

    /// A header whose segments are used up is stepped over; there is no type we would follow.
    //= https://www.rfc-editor.org/rfc/rfc8200#section-4.4
    //= https://www.rfc-editor.org/rfc/rfc5095#section-3
    //# An IPv6 node that receives a packet with a destination address
    //# assigned to it and that contains an RH0 extension header MUST NOT
    //# execute the algorithm specified in the latter part of Section 4.4 of
    //# [RFC2460] for RH0.
    fn routing(&mut self, at: usize) -> Result<(), Error> {
        let judged = self.is_judged();
        let next_header_at = self.chain.next_header_at;
        let &[_, _, kind, segments_left, ..] = self.sized(at)? else { return Err(self.truncated(8)) };
        if judged && segments_left != 0 {
            return Err(Error::RoutingHeader { pointer: pointer(at + 2), kind, segments_left });
        }
        self.chain.routing = Some(At { at, next_header_at, header: Routing { kind, segments_left } });
        Ok(())
    }

    //= https://www.rfc-editor.org/rfc/rfc4302#section-2.2
    //# This 8-bit field specifies the length of AH in 32-bit words (4-byte
    //# units), minus "2".
    fn authentication(&mut self, at: usize) -> Result<(), Error> {
        let words = self.length_field(at)?;
        if words == 0 {
            return Err(Error::AuthenticationLen { pointer: pointer(at + 1) });
        }
        self.advance(at, (usize::from(words) + 2) * 4)?;
        self.chain.auth_at = Some(at);
        Ok(())
    }

    fn fragment(&mut self, at: usize) -> Result<Step, Error> {
        let next_header_at = self.chain.next_header_at;
        if self.chain.fragment.is_some() {
            return Err(Error::TwoFragmentHeaders { pointer: pointer(next_header_at) });
        }
        let bytes = self.advance(at, Fragment::LEN)?;
        let header =
            bytes.first_chunk().map(Fragment::from_bytes).ok_or_else(|| self.truncated(Fragment::LEN))?;
        self.chain.fragment = Some(At { at, next_header_at, header });
        Ok(if header.offset == 0 { Step::Go } else { Step::Stop })
    }

    /// Whether headers that only concern the destination are judged here and now.
    fn is_judged(&self) -> bool {
        self.role == Role::Host && !self.chain.is_fragment()
    }

    fn judge(&mut self, body: &[u8], at: usize) -> Result<Option<u16>, Error> {
        let options = body.get(2..).unwrap_or_default();
        self.option_bytes = self
            .option_bytes
            .checked_sub(options.len())
            .ok_or_else(|| Error::TooManyOptionBytes { pointer: pointer(at + 1) })?;
        options::judge(options, at + 2)
    }

    /// Takes a header that says its length in units of eight bytes, the first not counted.
    fn sized(&mut self, at: usize) -> Result<&'a [u8], Error> {
        let units = self.length_field(at)?;
        self.advance(at, (usize::from(units) + 1) * 8)
    }

    fn length_field(&self, at: usize) -> Result<u8, Error> {
        self.packet.get(at + 1).copied().ok_or_else(|| self.truncated(2))
    }

    /// Takes a header of `len` bytes and makes what it names the next.
    fn advance(&mut self, at: usize, len: usize) -> Result<&'a [u8], Error> {
        let header = self.packet.get(at..at + len).ok_or_else(|| self.truncated(len))?;
        let &[next, ..] = header else { return Err(self.truncated(len)) };
        self.chain.upper = Protocol(next);
        self.chain.upper_at = at + len;
        self.chain.next_header_at = at;
        Ok(header)
    }

    fn truncated(&self, need: usize) -> Error {
        if self.chain.is_fragment() {
            return Error::IncompleteFirstFragment;
        }
        let have = self.packet.len().saturating_sub(self.chain.upper_at);
        Error::Truncated { pointer: pointer(self.chain.upper_at), need, have }
    }

    //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
    //# If the first fragment does not include all headers through an
    //# Upper-Layer header, then that fragment should be discarded and
    //# an ICMP Parameter Problem, Code 3, message should be sent to
    //# the source of the fragment, with the Pointer field set to zero.
    fn check_first_fragment(&self) -> Result<(), Error> {
        let need = match self.chain.upper {
            Protocol::TCP => tcp::HEADER_LEN,
            Protocol::UDP => udp::HEADER_LEN,
            Protocol::ICMP6 => icmp6::HEADER_LEN,
            _ => 0,
        };
        let have = self.packet.len().saturating_sub(self.chain.upper_at);
        if self.chain.is_fragment() && have < need { Err(Error::IncompleteFirstFragment) } else { Ok(()) }
    }
}

/// An offset as ICMPv6 carries it. Eight headers of 2048 bytes at most: it always fits.
fn pointer(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
