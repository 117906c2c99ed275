//! A peer that puts any frame on the wire: the user's end of a TAP whose other end pantala takes over by AF_XDP.

use core::net::IpAddr;
use std::io::{IoSlice, IoSliceMut};

use dev::netns::Netns;
use dev::sys::tun::Tap;
use dev::sys::vnet_hdr::VNET_HDR_LEN;
use wire::ether::{EtherType, HEADER_LEN, Header, Mac};

use crate::wait::{PATIENCE, within};

/// The peer.
pub(crate) struct Raw {
    tap: Tap,
    /// Its own address.
    pub(crate) mac: Mac,
}

/// The name of the interface that it makes.
pub(crate) const DEVICE: &str = "raw0";

impl Raw {
    /// Makes the interface in `router`, up.
    pub(crate) fn plug_in(router: &Netns) -> Self {
        let tap = router.run(|| Tap::open(DEVICE, 1)).unwrap().unwrap();
        router.netlink().unwrap().set_up(DEVICE, true).unwrap();
        Self { tap, mac: Mac([2, 0xbb, 0, 0, 0, 0x66]) }
    }

    /// Sends a frame with this payload.
    pub(crate) fn send(&self, dst: Mac, ethertype: EtherType, payload: &[u8]) {
        self.send_as(self.mac, dst, ethertype, payload);
    }

    /// Sends with another source address.
    pub(crate) fn send_as(&self, src: Mac, dst: Mac, ethertype: EtherType, payload: &[u8]) {
        let header = Header { dst, src, ethertype }.to_bytes();
        let parts = [IoSlice::new(&[0; VNET_HDR_LEN]), IoSlice::new(&header), IoSlice::new(payload)];
        within(PATIENCE, || self.tap.queues[0].writev(&parts).unwrap()).unwrap();
    }

    /// Sends an IP packet.
    pub(crate) fn send_ip(&self, dst: Mac, packet: &[u8]) {
        let is_v4 = packet[0] >> 4 == 4;
        self.send(dst, if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 }, packet);
    }

    /// Waits for a frame that `wanted` recognises, and answers what it made of it.
    pub(crate) fn await_frame<T>(&self, wanted: impl Fn(Header, &[u8]) -> Option<T>) -> Option<T> {
        within(PATIENCE, || {
            let frame = self.receive()?;
            wanted(Header::parse(&frame).ok()?, &frame[HEADER_LEN..])
        })
    }

    /// All frames that wait.
    pub(crate) fn drain(&self) -> Vec<Vec<u8>> {
        core::iter::from_fn(|| self.receive()).collect()
    }

    /// The next frame, without the virtio header.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 65_536];
        let len = self.tap.queues[0].readv(&mut [IoSliceMut::new(&mut frame)]).unwrap()?;
        frame.truncate(len);
        Some(frame.split_off(VNET_HDR_LEN))
    }
}

/// Source and destination of an IP packet.
pub(crate) fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let v4 = || wire::ip4::Header::parse(packet).ok().map(|ip| (ip.src.into(), ip.dst.into()));
    v4().or_else(|| wire::ip6::Header::parse(packet).ok().map(|ip| (ip.src.into(), ip.dst.into())))
}
