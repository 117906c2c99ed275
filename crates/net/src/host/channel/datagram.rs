//! Datagrams on a lane: each whole, behind a header with its length and its destination or source.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use pkt::byte_channel::{Broken, Reader, Writer};

use super::bytes::{Put, RECORD, Record, Take};
use super::record::Link;
use crate::fib::FIBS_MAX;
use crate::host::dgram::Settings;
use crate::ip::ip_tx::IpTxParams;
use crate::link::tables::IfIndex;

/// The longest datagram that a lane takes, of either family: what IPv4 can say. IPv6 could say 20 bytes more.
pub const DATAGRAM_MAX: usize = 65_507;
/// Bytes in front of each: the longest fits a lane of 64 KiB.
pub const HEAD: usize = 27;
/// Bytes more in front of one that names our end.
pub const HEAD_LOCAL: usize = 19;

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Destination, or source; `None`: the connected peer.
    pub peer: Option<SocketAddr>,
    /// The interface, where the address means something only with its link; else 0.
    pub zone: IfIndex,
    /// The address and the interface of our end: of what is sent, as far as they are named; of what has come, unless it leaves
    /// no room for them (`IP_PKTINFO`, `IPV6_PKTINFO`).
    pub local: Option<Link>,
    /// Bytes behind it.
    pub len: u16,
    /// Its options.
    pub how: SendParams,
}

/// The options of a datagram, as set when it was written. For a received one
/// [`Self::tx_params`] has the received fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendParams {
    /// Time to live and type of service, or hop limit and traffic class (`IP_TTL`, `IP_TOS`).
    pub tx_params: IpTxParams,
    /// Time to live, or hop limit, if it goes to a group (`IP_MULTICAST_TTL`, `IPV6_MULTICAST_HOPS`).
    pub group_hops: u8,
    /// Listeners of the group on this host receive it, too (`IP_MULTICAST_LOOP`, `IPV6_MULTICAST_LOOP`).
    pub group_loop: bool,
    /// It may go to everybody on a link (`SO_BROADCAST`).
    pub may_broadcast: bool,
}

impl Default for SendParams {
    fn default() -> Self {
        let Settings { tx_params, group_hops, no_loop, may_broadcast, .. } = Settings::default();
        Self { tx_params, group_hops, group_loop: !no_loop, may_broadcast }
    }
}

impl SendParams {
    /// Returns the options of a socket with these settings.
    pub(super) const fn of(self, settings: Settings) -> Settings {
        let Self { tx_params, group_hops, group_loop, may_broadcast } = self;
        Settings { tx_params, group_hops, no_loop: !group_loop, may_broadcast, ..settings }
    }
}

/// Bits of the first byte.
const HAS_PEER: u8 = 1;
const GROUP_LOOP: u8 = 2;
const MAY_BROADCAST: u8 = 4;
const HAS_LOCAL: u8 = 8;
/// The upper half of it is the number of the routing table.
const FIB_SHIFT: u8 = 4;
const _: () = assert!(FIBS_MAX <= 1 << (8 - FIB_SHIFT));

impl Head {
    /// The room that it and the bytes behind it need.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.head_len() + self.len as usize
    }

    const fn head_len(&self) -> usize {
        if self.local.is_some() { HEAD + HEAD_LOCAL } else { HEAD }
    }

    /// It takes up the first [`Self::head_len`] bytes.
    fn encode(&self) -> Record {
        let nobody = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).into();
        let peer = self.peer.unwrap_or(nobody);
        let SendParams { tx_params, group_hops, group_loop, may_broadcast } = self.how;
        let bits = [
            (self.peer.is_some(), HAS_PEER),
            (group_loop, GROUP_LOOP),
            (may_broadcast, MAY_BROADCAST),
            (self.local.is_some(), HAS_LOCAL),
        ];
        let bits = bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum::<u8>();
        let flags = bits | tx_params.fib << FIB_SHIFT;
        let put = Put::new(flags).short(self.len).short(self.zone);
        let put = put.byte(tx_params.hops).byte(tx_params.class).byte(group_hops).addr(peer);
        self.local.into_iter().fold(put, Put::link).done()
    }

    /// `None` if it is none.
    fn decode(record: &Record) -> Option<Self> {
        let mut take = Take::from(record);
        let (flags, len, zone) = (take.byte(), take.short(), take.short());
        let has = |bit| flags & bit != 0;
        let tx_params = IpTxParams { hops: take.byte(), class: take.byte(), fib: flags >> FIB_SHIFT };
        let group_hops = take.byte();
        let how = SendParams {
            tx_params,
            group_hops,
            group_loop: has(GROUP_LOOP),
            may_broadcast: has(MAY_BROADCAST),
        };
        let peer = take.addr()?;
        let local = if has(HAS_LOCAL) { Some(take.link()?) } else { None };
        Some(Self { peer: has(HAS_PEER).then_some(peer), zone, local, len, how })
    }
}

/// Writes a datagram; false if there is no room for all of it. It is read after [`Writer::publish`].
///
/// # Errors
///
/// [`Broken`].
pub fn put(to: &mut Writer, head: &Head, pieces: [&[u8]; 2]) -> Result<bool, Broken> {
    if to.free()? < head.room() {
        return Ok(false);
    }
    to.write(&head.encode()[..head.head_len()])?;
    for piece in pieces {
        to.write(piece)?;
    }
    Ok(true)
}

/// The room that a datagram of so many bytes needs, if it does not name our end.
#[must_use]
pub const fn room(len: usize) -> usize {
    HEAD + len
}

/// Shows the first datagram to `what`, in two pieces where it stands, which says whether it is read with that; `None` if
/// there is none. It is given back with the next [`Reader::release`].
///
/// # Errors
///
/// [`Broken`]; it is also that when there is a part of a datagram, since only whole ones are published.
pub fn take<R>(
    from: &mut Reader,
    what: impl FnOnce(&Head, [&[u8]; 2]) -> (bool, R),
) -> Result<Option<R>, Broken> {
    from.read_in_place(|pieces| {
        if pieces[0].is_empty() {
            return (0, Ok(None));
        }
        let Some((head, bytes)) = first(pieces) else { return (0, Err(Broken)) };
        let (is_read, done) = what(&head, bytes);
        (if is_read { head.room() } else { 0 }, Ok(Some(done)))
    })?
}

/// Bytes that begin in one place of the ring and perhaps go on in another.
type Pieces<'a> = [&'a [u8]; 2];

/// The head of the first datagram, and its bytes.
fn first(pieces: Pieces<'_>) -> Option<(Head, Pieces<'_>)> {
    let has_local = pieces[0].first()? & HAS_LOCAL != 0;
    let [front, rest] = split(pieces, if has_local { HEAD + HEAD_LOCAL } else { HEAD })?;
    let mut record: Record = [0; RECORD];
    let (one, two) = record.split_at_mut(front[0].len());
    one.copy_from_slice(front[0]);
    two.get_mut(..front[1].len())?.copy_from_slice(front[1]);
    let head = Head::decode(&record)?;
    let [bytes, _] = split(rest, head.len.into())?;
    Some((head, bytes))
}

/// Splits at byte `at`; `None` if there are not so many bytes.
fn split([a, b]: Pieces<'_>, at: usize) -> Option<[Pieces<'_>; 2]> {
    match at.checked_sub(a.len()) {
        None => a.split_at_checked(at).map(|(front, rest)| [[front, &[]], [rest, b]]),
        Some(at) => b.split_at_checked(at).map(|(front, rest)| [[a, front], [rest, &[]]]),
    }
}

#[cfg(test)]
mod tests {
    use pkt::byte_channel::lanes;

    use super::*;

    fn heads(len: u16) -> [Head; 3] {
        let peer = |addr: &str| addr.parse().ok();
        [
            Head { peer: None, zone: 0, local: None, len, how: SendParams::default() },
            Head {
                peer: peer("192.0.2.1:53"),
                zone: 0,
                local: None,
                len,
                how: SendParams { group_loop: false, ..SendParams::default() },
            },
            Head {
                peer: peer("[fe80::1]:65535"),
                zone: 9,
                local: None,
                len,
                how: SendParams {
                    tx_params: IpTxParams { hops: 1, class: 255, fib: 15 },
                    group_hops: 2,
                    group_loop: false,
                    may_broadcast: true,
                },
            },
        ]
    }

    fn read(rx: &mut Reader) -> Option<(Head, Vec<u8>)> {
        take(rx, |head, pieces| (true, (*head, pieces.concat()))).unwrap()
    }

    #[test]
    fn what_is_put_is_taken_wherever_the_ring_begins_again() {
        let (near, far) = lanes(1, 64).unwrap();
        let ((mut tx, _back), (_forth, mut rx)) = (near.take(0).unwrap(), far.take(0).unwrap());
        for len in (0..=37).cycle().take(500) {
            for head in heads(len) {
                let bytes = vec![u8::try_from(len).unwrap() ^ 0x55; len.into()];
                let (one, two) = bytes.split_at(bytes.len() / 3);
                assert_eq!(put(&mut tx, &head, [one, two]), Ok(true));
                let _ = tx.publish();
                assert_eq!(take(&mut rx, |found, _| (false, *found)), Ok(Some(head)), "it stays");
                assert_eq!(read(&mut rx), Some((head, bytes)));
                assert_eq!(read(&mut rx), None);
                assert_eq!(rx.release(), Ok(false));
            }
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_not_begun() {
        let (near, far) = lanes(1, 64).unwrap();
        let ((mut tx, _back), (_forth, mut rx)) = (near.take(0).unwrap(), far.take(0).unwrap());
        let [head, ..] = heads(20);
        assert_eq!(put(&mut tx, &head, [&[1; 20], &[]]), Ok(true));
        assert_eq!(put(&mut tx, &head, [&[2; 20], &[]]), Ok(false));
        assert_eq!(put(&mut tx, &Head { len: 0, ..head }, [&[], &[]]), Ok(false), "17 bytes are left");
        let _ = tx.publish();
        assert_eq!((read(&mut rx), read(&mut rx)), (Some((head, vec![1; 20])), None));
    }

    #[test]
    fn a_part_of_a_datagram_is_none() {
        let record = heads(20)[1].encode();
        let head = &record[..HEAD];
        for bytes in [&head[..HEAD - 1], &[head, &[1; 19]].concat(), &[255; 40]] {
            let (near, far) = lanes(1, 64).unwrap();
            let ((mut tx, _back), (_forth, mut rx)) = (near.take(0).unwrap(), far.take(0).unwrap());
            tx.write(bytes).unwrap();
            let _ = tx.publish();
            assert_eq!(take(&mut rx, |_, _| (true, ())), Err(Broken));
        }
    }

    #[test]
    fn a_datagram_may_name_our_end() {
        let (near, far) = lanes(1, 128).unwrap();
        let ((mut tx, _back), (_forth, mut rx)) = (near.take(0).unwrap(), far.take(0).unwrap());
        for addr in ["192.0.2.7", "2001:db8::7", "::"] {
            for head in heads(20) {
                let head = Head { local: Some(Link { addr: addr.parse().unwrap(), ifindex: 3 }), ..head };
                assert_eq!(head.room(), room(20) + HEAD_LOCAL);
                assert_eq!(put(&mut tx, &head, [&[7; 20], &[]]), Ok(true));
                let _ = tx.publish();
                assert_eq!(read(&mut rx), Some((head, vec![7; 20])));
                assert_eq!(rx.release(), Ok(false));
            }
        }
    }

    #[test]
    fn the_longest_fits_a_lane_as_it_is() {
        assert_eq!(room(DATAGRAM_MAX).next_power_of_two(), super::super::LANE_BYTES);
    }
}
