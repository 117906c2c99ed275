//! Settings of datagram sockets.

use super::queue::QUEUE_BYTES;
use crate::ip::ip_tx::IpTxParams;
use crate::link::tables::IfIndex;

/// The settings of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// IP header fields of its packets.
    pub tx_params: IpTxParams,
    /// Time to live, or hop limit, of what it sends to groups.
    pub group_hops: u8,
    /// The interface by which it sends to groups and to everybody on a link; 0: where the route leads, or the first.
    pub group_if: IfIndex,
    /// The only interface by which datagrams come and go (`SO_BINDTODEVICE`); 0: any.
    pub device: IfIndex,
    /// Datagrams to groups are not delivered to listeners on this host.
    pub no_loop: bool,
    /// It may send to everybody on a link.
    pub may_broadcast: bool,
    /// It may be bound to, and send from, addresses that are not ours (`IP_BINDANY`, `IPV6_BINDANY`).
    pub bind_any: bool,
    /// A datagram that is too big for a link on the path is not fragmented; the program gets an error.
    pub dont_fragment: bool,
    /// The program is told of all ICMP errors, also of those that say that a packet was too long on its way, or malformed.
    pub all_errors: bool,
    /// Bytes that may wait to be read, [`QUEUE_BYTES_MAX`](super::QUEUE_BYTES_MAX) at the most.
    pub queue_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tx_params: IpTxParams::default(),
            //= https://www.rfc-editor.org/rfc/rfc1112#section-6.1
            //# If the upper-layer protocol
            //# chooses not to specify a time-to-live, it should default to 1 for all
            //# multicast IP datagrams, so that an explicit choice is required to
            //# multicast beyond a single network.
            group_hops: 1,
            group_if: 0,
            device: 0,
            no_loop: false,
            may_broadcast: false,
            bind_any: false,
            dont_fragment: false,
            all_errors: false,
            queue_bytes: QUEUE_BYTES,
        }
    }
}
