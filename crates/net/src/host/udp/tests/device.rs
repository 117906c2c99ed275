//! Sockets of one interface.

use super::*;
use crate::link::tables::IfIndex;

/// Our address on a link, and that of a neighbour there.
fn on(i: IfIndex, is_v4: bool) -> (IpAddr, IpAddr) {
    match is_v4 {
        true => (addr4(i, 1).into(), addr4(i, 9).into()),
        false => (addr6(i, 1).into(), addr6(i, 9).into()),
    }
}

fn of(device: IfIndex) -> Settings {
    Settings { device, ..Settings::default() }
}

/// A neighbour on a link sends.
fn hear_by(bench: &mut Bench, i: IfIndex, from: IpAddr, to: (IpAddr, u16), bytes: &[u8]) {
    bench.inject(i, frame_from(i, from, &udp(from, to.0, (53, to.1), bytes)));
    bench.run();
}

#[test]
fn a_socket_of_an_interface_has_what_comes_by_it_whatever_address_that_is_for() {
    for is_v4 in [true, false] {
        let mut bench = Bench::new(2);
        let ((own, near), (other, far)) = (on(1, is_v4), on(2, is_v4));
        let at = |device| Bind { settings: of(device), ..to_bind(any(own)) };
        assert_eq!(bind(bench.cpu(), &at(9)), Err(Error::NoInterface));
        let [first, second] = [1, 2].map(|device| bind(bench.cpu(), &at(device)).unwrap());
        assert_eq!(bind(bench.cpu(), &at(2)), Err(Error::AddrInUse));
        assert_eq!(bind(bench.cpu(), &at(0)), Err(Error::AddrInUse), "it would take the same");
        hear_by(&mut bench, 1, near, (own, PORT), b"one");
        hear_by(&mut bench, 1, near, (other, PORT), b"two");
        hear_by(&mut bench, 2, far, (own, PORT), b"three");
        assert_eq!(read_all(&mut bench, &[first]), [b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(read_all(&mut bench, &[second]), [b"three".to_vec()]);
        // It moves to the other interface with the setting.
        close(bench.cpu(), first).unwrap();
        change(bench.cpu(), second, |settings| settings.device = 1).unwrap();
        hear_by(&mut bench, 1, near, (own, PORT), b"four");
        hear_by(&mut bench, 2, far, (own, PORT), b"five");
        assert_eq!(read_all(&mut bench, &[second]), [b"four".to_vec()]);
    }
}

#[test]
fn a_socket_of_an_interface_sends_by_it_or_not_at_all_and_learns_of_errors() {
    for is_v4 in [true, false] {
        let mut bench = Bench::new(2);
        let ((own, near), (_, far)) = (on(1, is_v4), on(2, is_v4));
        let id = bind(bench.cpu(), &Bind { settings: of(1), ..to_bind(any(own)) }).unwrap();
        let send_by = |bench: &mut Bench, to| send_to(bench.cpu(), id, SocketAddr::new(to, 53), b"x");
        assert_eq!(send_by(&mut bench, far), Err(Error::NetworkUnreachable));
        assert_eq!(send_by(&mut bench, near), Ok(()));
        bench.run();
        assert_eq!((bench.sent(1).len(), bench.sent(2).len()), (1, 0));
        let wanted = |device, to| Connect { settings: of(device), ..to_connect(SocketAddr::new(to, 53)) };
        assert_eq!(connect(bench.cpu(), &wanted(1, far)), Err(Error::NetworkUnreachable));
        let peer = connect(bench.cpu(), &wanted(1, near)).unwrap();
        let port = local(bench.cpu(), peer).unwrap().port();
        send(bench.cpu(), peer, b"hello").unwrap();
        bench.run();
        assert_eq!(bench.sent(1).len(), 1);
        hear_by(&mut bench, 1, near, (own, port), b"answer");
        hear_by(&mut bench, 2, near, (own, port), b"by another link");
        assert_eq!(read_all(&mut bench, &[peer]), [b"answer".to_vec()]);
    }
}
