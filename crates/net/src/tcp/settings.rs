//! What a connection is told before it begins. The defaults are FreeBSD's, where RFCs leave a choice.

use core::time::Duration;

use super::congestion::Algorithm;
use super::rtt::{self, Bounds};

/// How one connection behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The longest segment that we take, without options: what is announced.
    pub mss: u16,
    /// The longest that the path takes, without options.
    pub path_mss: u16,
    /// Bytes that may wait to be read.
    pub receive_buffer: u32,
    /// The most that [`Self::receive_buffer`] may become: what the window must be able to say.
    pub receive_buffer_max: u32,
    /// Bytes that may wait to be acknowledged.
    pub send_buffer: u32,
    /// Window scaling and timestamps (RFC 7323) are offered, and taken up.
    pub extensions: bool,
    /// Selective acknowledgments (RFC 2018) are offered, and taken up.
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: Ecn,
    /// Short segments do not wait for an acknowledgment (RFC 9293 §3.7.4).
    pub nodelay: bool,
    /// How the congestion window grows.
    pub algorithm: Algorithm,
    /// Segments that the congestion window begins with (RFC 6928).
    pub initial_segments: u32,
    /// The first retransmission timeout.
    pub initial_rto: Duration,
    /// Between which the others are kept.
    pub rto: Bounds,
    /// How often something is sent again at the most.
    pub retransmissions_max: u8,
    /// How long it may take until the connection stands.
    pub establish_within: Duration,
    /// How long an acknowledgment may wait for company (RFC 9293 §3.8.6.3: less than half a second).
    pub delayed_ack: Duration,
    /// The maximum segment lifetime: half of what TIME-WAIT lasts.
    pub msl: Duration,
    /// A reset anywhere in the window ends the connection, as in RFC 793. Else only at the left edge (RFC 5961 §3).
    pub insecure_rst: bool,
    /// A SYN in the window resets the connection, as in RFC 793. Else it is challenged (RFC 5961 §4).
    pub insecure_syn: bool,
}

/// Whether marks of routers are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Never.
    Off,
    /// If the other end asks.
    #[default]
    Passive,
    /// We ask.
    Active,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mss: 1460,
            path_mss: 1460,
            receive_buffer: 65_536,
            receive_buffer_max: 2 << 20,
            send_buffer: 32_768,
            extensions: true,
            sack: true,
            ecn: Ecn::Passive,
            nodelay: false,
            algorithm: Algorithm::Cubic,
            initial_segments: 10,
            initial_rto: rtt::INITIAL,
            rto: Bounds::default(),
            retransmissions_max: 12,
            establish_within: Duration::from_secs(75),
            delayed_ack: Duration::from_millis(40),
            msl: Duration::from_secs(30),
            insecure_rst: false,
            insecure_syn: false,
        }
    }
}
