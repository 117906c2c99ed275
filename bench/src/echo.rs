//! A host whose program sends back the datagrams that come: what a socket of UDP costs, there and back.

use core::net::SocketAddr;

use anyhow::{Context, Result};
use net::app::{App, AppContext, Handle};
use net::fib::Prefix;
use net::sock::Error;
use net::udp::{self, Bind, Datagram, Id, Settings, To};

use crate::frames::{DESTINATIONS, FRAME_LEN, Family, PORT};
use crate::router::Router;

/// Datagrams that are read, and sent, in one call.
const AT_ONCE: usize = 64;
/// Bytes of a datagram's headers.
const HEADERS4: usize = 14 + 20 + 8;
const HEADERS6: usize = 14 + 40 + 8;

/// A host with an unconnected socket; its peers are behind the second interface.
///
/// # Errors
///
/// When there is no memory for the buffers, or the socket cannot be made.
pub fn host(family: Family) -> Result<Router> {
    let nets = || 1..=DESTINATIONS;
    let frames = nets().filter_map(|net| family.datagram_to_router(net)).collect();
    let routes = nets().filter_map(|net| Prefix::new(family.addr(net, 0), family.prefix_len()));
    let mut host = Router::with(family, routes, frames)?;
    let bind = Bind {
        addr: (family.addr(0, 1), PORT).into(),
        zone: 0,
        only_v6: false,
        is_shared: false,
        settings: Settings::default(),
    };
    let len = FRAME_LEN - if family == Family::Ip4 { HEADERS4 } else { HEADERS6 };
    // There is room for no more than are sent at once.
    let bytes = vec![0; AT_ONCE * len].into();
    host.begin(Box::new(Echo { bind, bytes })).context("the program cannot begin")?;
    Ok(host)
}

/// Reads as many as there are, in batches, and sends them back.
struct Echo {
    bind: Bind,
    bytes: Box<[u8]>,
}

impl Echo {
    /// Sends a batch back, if there is one; answers whether there was.
    fn answer(&mut self, cx: &mut AppContext<'_>, socket: Id) -> bool {
        let nobody = SocketAddr::from(([0; 4], 0));
        let (mut came, mut count) = ([(nobody, 0); AT_ONCE], 0);
        let read = udp::recv_batch(cx.cpu, socket, &mut self.bytes, |got, bytes| {
            if let Some(place) = came.get_mut(count) {
                *place = (got.from, bytes.len());
                count += 1;
            }
        });
        if read.is_err() {
            return false;
        }
        let mut batch = [Datagram { to: None, bytes: &[], segment: 0 }; AT_ONCE];
        let mut rest = &self.bytes[..];
        for (datagram, (from, len)) in batch.iter_mut().zip(&came[..count]) {
            let (bytes, behind) = rest.split_at(*len);
            *datagram = Datagram { to: Some(To::from(*from)), bytes, segment: 0 };
            rest = behind;
        }
        // What cannot be sent is missed where answers are counted.
        udp::send_batch(cx.cpu, socket, &batch[..count], |_, _| ()).is_ok()
    }
}

impl App for Echo {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        let socket = udp::bind(cx.cpu, &self.bind)?;
        cx.hold(socket, 0);
        Ok(())
    }

    fn datagrams(&mut self, cx: &mut AppContext<'_>, socket: Handle<Id>) {
        while self.answer(cx, socket.id) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_datagrams_come_back_and_all_buffers_too() {
        for family in [Family::Ip4, Family::Ip6] {
            for packets in [1, 32, 256] {
                let mut host = host(family).unwrap();
                assert_eq!(host.forward(3, packets), 3 * packets, "{family:?}, {packets} a turn");
                assert_eq!(host.buffers_out(), 0);
            }
        }
    }
}
