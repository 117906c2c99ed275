//! The language of the sequences: one JSON object a line.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use wire::icmp6::kind;

/// RFC 4443 §4.2.
const ECHO_REPLY: u8 = 129;

/// A sequence.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Its name.
    pub id: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A step: sends, or waits for a packet.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Another name of the sequence.
    Title {
        /// Which one.
        text: String,
    },
    /// Sends a frame.
    Inject {
        /// Its bytes.
        #[serde(deserialize_with = "hex")]
        frame: Vec<u8>,
    },
    /// The host must send this frame.
    Check {
        /// Its bytes.
        #[serde(deserialize_with = "hex")]
        frame: Vec<u8>,
        /// In so many seconds.
        within_s: u64,
    },
    /// The host is asked to send an echo request, and must send this one, or its first fragment.
    #[serde(rename = "check_v6request")]
    CheckRequest {
        /// Its bytes.
        #[serde(deserialize_with = "hex")]
        frame: Vec<u8>,
        /// In so many seconds.
        within_s: u64,
    },
    /// The host must not send a message of a kind.
    #[serde(rename = "n_check")]
    CheckNot {
        /// The kind.
        kind: Kind,
        /// For so many seconds.
        for_s: u64,
        /// The exception.
        arg: Option<Except>,
    },
    /// Time passes; what comes meanwhile is looked at later.
    Wait {
        /// Number of seconds.
        seconds: u64,
    },
    /// The host forgets what the sequence taught it: here it ends with it.
    Cleanup,
    /// The host forgets a hop limit that it was told: here it ends with the sequence, too.
    CleanHopLimit,
    /// The tester forgets frames that it has not looked at.
    Dump,
}

/// A kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Kind {
    /// Neighbour solicitation.
    #[serde(rename = "NS")]
    NeighborSolicit,
    /// Neighbour advertisement.
    #[serde(rename = "NA")]
    NeighborAdvert,
    /// Router solicitation.
    #[serde(rename = "RS")]
    RouterSolicit,
    /// Echo reply.
    #[serde(rename = "ER")]
    EchoReply,
}

/// Messages that do not count as one of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Except {
    /// Duplicate address detection, from the unspecified address.
    #[serde(rename = "NS_UNSPEC")]
    FromNobody,
}

impl Kind {
    /// Its type in ICMPv6.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::NeighborSolicit => kind::NEIGHBOR_SOLICIT,
            Self::NeighborAdvert => kind::NEIGHBOR_ADVERT,
            Self::RouterSolicit => kind::ROUTER_SOLICIT,
            Self::EchoReply => ECHO_REPLY,
        }
    }
}

impl Sequence {
    /// Reads one line.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// Whether it begins when the host is switched on.
    #[must_use]
    pub fn begins_cold(&self) -> bool {
        let first = self.steps.iter().find(|step| !matches!(step, Step::Title { .. }));
        matches!(first, Some(Step::Check { .. }))
    }
}

fn hex<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let (digits, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let pair = core::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.iter().map(byte).collect();
    bytes
        .filter(|_| rest.is_empty())
        .ok_or_else(|| D::Error::custom("a frame is pairs of hexadecimal digits"))
}
