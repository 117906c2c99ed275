//! The bodies about datagrams.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io::ErrorKind;

use crate::sockets::datagram_api::{Datagrams, Socket};

const SHORT: Duration = Duration::from_millis(20);
/// Datagrams of each sender.
const COUNT: usize = 40;

/// The unspecified address of a family.
pub(crate) fn any(like: SocketAddr) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// A socket that waits at each address, and one that knows where.
fn each<F: Datagrams>(face: &F, what: impl Fn(F::Socket, F::Socket, SocketAddr)) {
    for addr in face.addrs() {
        let server = face.bind_udp((addr, 0).into()).unwrap();
        let at = server.addr();
        assert_eq!((at.ip(), at.port() > 0), (addr, true));
        what(server, face.client_udp(any(at)).unwrap(), at);
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(37) ^ at >> 8 ^ len).to_le_bytes()[0]).collect()
}

pub(crate) fn a_datagram_arrives_whole_with_its_source_and_is_answered<F: Datagrams>(face: &F) {
    each(face, |server, client, at| {
        let mut into = vec![0; 65_536];
        for len in [0, 1, 1400, 1500, 9000, 65_507] {
            assert_eq!(client.send_to(&bytes(len), at).unwrap(), len);
            let (count, from) = server.recv_from(&mut into).unwrap();
            assert!(into[..count] == bytes(len), "{count} of {len} bytes");
            assert_eq!((from.port(), from.is_ipv4()), (client.addr().port(), at.is_ipv4()));
            server.send_to(&into[..count], from).unwrap();
            let (count, from) = client.recv_from(&mut into).unwrap();
            assert!((count, from) == (len, at) && into[..count] == bytes(len));
        }
    });
}

pub(crate) fn what_one_sends_to_one_comes_in_its_order<F: Datagrams>(face: &F) {
    each(face, |server, _, at| {
        let clients: Vec<_> = (0..5).map(|_| face.client_udp(any(at)).unwrap()).collect();
        let ports: Vec<u16> = clients.iter().map(|client| client.addr().port()).collect();
        // Until each has found its way: what waits for a neighbour is not much.
        for client in &clients {
            client.send_to(b"found", at).unwrap();
            let (_, from) = server.recv_from(&mut [0; 8]).unwrap();
            server.send_to(b"found", from).unwrap();
            client.recv_from(&mut [0; 8]).unwrap();
        }
        for len in 0..COUNT {
            clients.iter().for_each(|client| assert_eq!(client.send_to(&bytes(len), at).unwrap(), len));
        }
        let mut next = vec![0; clients.len()];
        for _ in 0..clients.len() * COUNT {
            let mut into = [0; 100];
            let (count, from) = server.recv_from(&mut into).unwrap();
            let client = ports.iter().position(|port| *port == from.port()).unwrap();
            assert_eq!((count, &into[..count]), (next[client], &bytes(count)[..]));
            next[client] += 1;
        }
    });
}

pub(crate) fn what_there_is_no_room_for_is_gone_with_its_datagram<F: Datagrams>(face: &F) {
    each(face, |server, client, at| {
        client.send_to(&bytes(100), at).unwrap();
        client.send_to(&bytes(7), at).unwrap();
        let mut into = [0; 10];
        assert_eq!(server.peek_from(&mut into).unwrap().0, 10);
        assert_eq!((server.recv_from(&mut into).unwrap().0, &into[..]), (10, &bytes(100)[..10]));
        assert_eq!((server.recv_from(&mut into).unwrap().0, &into[..7]), (7, &bytes(7)[..]));
    });
}

pub(crate) fn a_connected_socket_hears_its_peer_alone<F: Datagrams>(face: &F) {
    each(face, |server, client, at| {
        assert_eq!(client.peer().unwrap_err().kind(), ErrorKind::NotConnected);
        assert_eq!(client.send(b"to whom?").unwrap_err().raw_os_error(), Some(89), "EDESTADDRREQ");
        client.connect(at).unwrap();
        assert_eq!((client.peer().unwrap(), client.addr().ip().is_unspecified()), (at, false));
        let stranger = face.bind_udp((at.ip(), 0).into()).unwrap();
        stranger.send_to(b"a stranger", client.addr()).unwrap();
        client.send(b"one").unwrap();
        let mut into = [0; 20];
        let (count, from) = server.recv_from(&mut into).unwrap();
        assert_eq!((&into[..count], from), (&b"one"[..], client.addr()));
        server.send_to(b"two", from).unwrap();
        let (count, from) = client.recv_from(&mut into).unwrap();
        assert_eq!((&into[..count], from), (&b"two"[..], at));
        // And then another one; not the stranger, whose datagram may still be on its way.
        let another = face.bind_udp((at.ip(), 0).into()).unwrap();
        client.connect(another.addr()).unwrap();
        client.send(b"three").unwrap();
        let (count, from) = another.recv_from(&mut into).unwrap();
        assert_eq!((&into[..count], from), (&b"three"[..], client.addr()));
        another.send_to(b"four", from).unwrap();
        assert_eq!(client.recv_from(&mut into).unwrap(), (4, another.addr()));
    });
}

pub(crate) fn a_connected_socket_gets_connection_refused<F: Datagrams>(face: &F) {
    each(face, |server, client, at| {
        client.connect(at).unwrap();
        drop(server);
        // What closes it is told to netisrs, which are quick, but not asked.
        client.set_read_timeout(Some(SHORT));
        let why = core::iter::repeat_with(|| {
            client.send(b"anybody?").and_then(|_| client.recv_from(&mut [0; 8])).unwrap_err()
        });
        let why = why.map(|why| why.kind()).find(|kind| *kind != ErrorKind::WouldBlock);
        assert_eq!(why, Some(ErrorKind::ConnectionRefused));
        while client.take_error().is_some() {}
        assert_eq!(
            client.recv_from(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "it is told once"
        );
    });
}

pub(crate) fn an_unconnected_socket_gets_no_error_of_one_destination<F: Datagrams>(face: &F) {
    each(face, |server, client, at| {
        let gone = face.bind_udp((at.ip(), 0).into()).unwrap();
        let nobody = gone.addr();
        drop(gone);
        for _ in 0..20 {
            client.send_to(b"anybody?", nobody).unwrap();
        }
        client.send_to(b"somebody", at).unwrap();
        let (count, from) = server.recv_from(&mut [0; 20]).unwrap();
        server.send_to(b"yes", from).unwrap();
        assert_eq!((count, client.recv_from(&mut [0; 20]).unwrap()), (8, (3, at)));
    });
}

pub(crate) fn a_peek_leaves_a_datagram_where_it_is<F: Datagrams>(face: &F) {
    each(face, |server, client, at| {
        client.send_to(b"look", at).unwrap();
        for _ in 0..3 {
            assert_eq!(server.peek_from(&mut [0; 8]).unwrap().0, 4);
        }
        assert_eq!(server.recv_from(&mut [0; 8]).unwrap().0, 4);
        server.set_read_timeout(Some(SHORT));
        assert_eq!(server.peek_from(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

pub(crate) fn a_receive_call_ends_at_its_timeout<F: Datagrams>(face: &F) {
    each(face, |server, client, at| {
        server.set_nonblocking(true);
        assert_eq!(server.recv_from(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        server.set_nonblocking(false);
        server.set_read_timeout(Some(SHORT));
        assert_eq!(server.recv_from(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.send_to(b"late", at).unwrap();
        server.set_read_timeout(None);
        assert_eq!(server.recv_from(&mut [0; 8]).unwrap().0, 4);
    });
}

pub(crate) fn a_place_is_bound_once_and_only_if_it_is_ours<F: Datagrams>(face: &F) {
    each(face, |server, _, at| {
        let again = face.bind_udp(at).err().unwrap();
        assert_eq!((again.kind(), again.raw_os_error()), (ErrorKind::AddrInUse, Some(98)));
        drop(server);
        drop(face.bind_udp(at).unwrap());
    });
    let foreign = face.bind_udp(([198, 51, 100, 7], 0).into()).err().unwrap();
    assert_eq!((foreign.kind(), foreign.raw_os_error()), (ErrorKind::AddrNotAvailable, Some(99)));
}

pub(crate) fn what_cannot_be_a_datagram_is_refused<F: Datagrams>(face: &F) {
    each(face, |_, client, at| {
        let long = client.send_to(&vec![0; 65_536], at).unwrap_err();
        assert_eq!(long.raw_os_error(), Some(90), "EMSGSIZE");
        let nowhere = client.send_to(b"x", (at.ip(), 0).into()).unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::InvalidInput);
    });
    let (four, six) = (face.addrs()[0], face.addrs()[1]);
    let client = face.client_udp(any((four, 0).into())).unwrap();
    assert!(client.send_to(b"x", (six, 9).into()).is_err(), "of the other family");
    let everybody = client.send_to(b"x", (Ipv4Addr::BROADCAST, 9).into()).unwrap_err();
    assert_eq!(everybody.kind(), ErrorKind::PermissionDenied);
}
