//! The faces on a netisr that a thread of the test turns: no device and no call of the system, so that miri can run all of it
//! (`cargo xtask miri`), the threads, their wake-ups and the memory that they share.

mod hand;
mod task;

use core::future::Future;
use core::net::{IpAddr, SocketAddr};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::scope;

use net::app::{App, AppContext, Handle};
use net::channel::Client;
use net::sock::Error;
use net::tcp::{self, Accepted, Listen};
use pkt::wake::Sleeper;

use self::hand::Turned;
use self::task::{read, read_to_end, write, write_all};
use super::{aio, blocking};

const ADDRS: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
/// More than a lane holds.
const SAID: usize = 300;
/// Datagrams one after the other, each a byte longer; each takes miri a second.
const DATAGRAMS: usize = if cfg!(miri) { 4 } else { 9 };

/// Does the same at both addresses of a netisr that all tests share: to make one takes miri longer than to talk to it.
fn each(port: u16, what: impl Fn(&Turned, SocketAddr)) {
    static SHARED: OnceLock<Turned> = OnceLock::new();
    each_of(SHARED.get_or_init(Turned::new), port, what);
}

fn each_of(turned: &Turned, port: u16, what: impl Fn(&Turned, SocketAddr)) {
    for addr in ADDRS.map(|addr| addr.parse::<IpAddr>().unwrap()) {
        what(turned, (addr, port).into());
    }
}

fn bytes() -> Vec<u8> {
    (0..SAID).map(|at| (at * 7).to_le_bytes()[0]).collect()
}

/// Says all, and hears the same.
fn converse(mut near: blocking::TcpStream) {
    let mut mouth = near.try_clone().unwrap();
    scope(|scope| {
        scope.spawn(move || {
            mouth.write_all(&bytes()).unwrap();
            mouth.shutdown(Shutdown::Write).unwrap();
        });
        let mut heard = Vec::new();
        near.read_to_end(&mut heard).unwrap();
        assert!(heard == bytes());
    });
}

#[test]
fn threads_say_more_to_each_other_than_a_lane_holds() {
    each(80, |turned, at| {
        let listener = blocking::TcpListener::bind(&turned.sockets, at).unwrap();
        scope(|scope| {
            scope.spawn(|| {
                let (mut far, _) = listener.accept().unwrap();
                let mut heard = Vec::new();
                far.read_to_end(&mut heard).unwrap();
                far.write_all(&heard).unwrap();
            });
            converse(blocking::TcpStream::connect(&turned.sockets, at).unwrap());
        });
    });
}

#[test]
fn tasks_say_more_to_each_other_than_a_lane_holds() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    each(81, |turned, at| {
        runtime.block_on(async {
            let listener = aio::TcpListener::bind(&turned.sockets, at).await.unwrap();
            let serve = async {
                let (far, _) = listener.accept().await.unwrap();
                let heard = read_to_end(&far).await.unwrap();
                write_all(&far, &heard).await.unwrap();
            };
            let ask = async {
                let near = aio::TcpStream::connect(&turned.sockets, at).await.unwrap();
                write_all(&near, &bytes()).await.unwrap();
                near.shutdown(Shutdown::Write).unwrap();
                assert!(read_to_end(&near).await.unwrap() == bytes());
            };
            tokio::join!(serve, ask);
        });
    });
}

#[test]
fn datagrams_go_from_thread_to_thread_whole() {
    each(82, |turned, at| {
        let server = blocking::UdpSocket::bind(&turned.sockets, at).unwrap();
        let client = blocking::UdpSocket::bind(&turned.sockets, (at.ip(), 0)).unwrap();
        scope(|scope| {
            let answers = scope.spawn(|| {
                for len in 0..DATAGRAMS {
                    let (count, from) = server.recv_from(&mut [0; 16]).unwrap();
                    assert_eq!((count, from), (len, client.local_addr().unwrap()));
                }
                server.send_to(b"all", client.local_addr().unwrap()).unwrap();
            });
            for len in 0..DATAGRAMS {
                assert_eq!(client.send_to(&[7; 16][..len], at).unwrap(), len);
            }
            assert_eq!(client.recv_from(&mut [0; 16]).unwrap(), (3, at));
            answers.join().unwrap();
        });
    });
}

/// Polls once, and gives it up; whether it was done by then is luck.
fn drop_polled(future: impl Future) {
    drop(pin!(future).poll(&mut Context::from_waker(Waker::noop())));
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there; what it gives up others do, too")]
fn what_is_given_up_halfway_is_free_for_the_next_and_loses_nothing() {
    let own = Turned::new();
    each_of(&own, 80, |turned, at| {
        let sockets = &turned.sockets;
        let listener = blocking::TcpListener::bind(sockets, at).unwrap();
        let listens = aio::TcpListener::bind(sockets, (at.ip(), 1));
        drop_polled(listens);
        // More often than there are lanes.
        for _ in 0..2 * hand::LANES {
            let near = blocking::TcpStream::connect(sockets, at).unwrap();
            let (far, _) = listener.accept().unwrap();
            let waits = aio::UdpSocket::bind(sockets, (at.ip(), 0));
            drop_polled(waits);
            drop((near, far));
        }
        drop_polled(aio::TcpStream::connect(sockets, at));
        let second = core::iter::repeat_with(|| blocking::TcpListener::bind(sockets, (at.ip(), 1)));
        drop(second.flatten().next());
    });
}

/// Writes without waiting.
fn written_now(to: &aio::TcpStream) -> Option<usize> {
    match pin!(write(to, &[7; 4000])).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(written) => Some(written.unwrap()),
        Poll::Pending => None,
    }
}

#[test]
fn what_is_given_up_was_neither_read_nor_written() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    each(84, |turned, at| {
        runtime.block_on(async {
            let listener = aio::TcpListener::bind(&turned.sockets, at).await.unwrap();
            drop_polled(listener.accept());
            let near = aio::TcpStream::connect(&turned.sockets, at).await.unwrap();
            let (far, _) = listener.accept().await.unwrap();
            assert!(pin!(read(&far, &mut [0; 8])).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            write_all(&near, b"said").await.unwrap();
            let mut heard = [0; 8];
            assert_eq!((read(&far, &mut heard).await.unwrap(), &heard[..4]), (4, &b"said"[..]));
            // Whatever there was room for, and what waited for room was not written.
            let count: usize = core::iter::from_fn(|| written_now(&far)).sum();
            far.shutdown(Shutdown::Write).unwrap();
            let all = read_to_end(&near).await.unwrap();
            assert_eq!((all.len(), all.iter().all(|byte| *byte == 7)), (count, true));
        });
    });
}

#[test]
fn a_datagram_of_a_cancelled_receive_is_read_by_the_next() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    each(85, |turned, at| {
        runtime.block_on(async {
            let server = aio::UdpSocket::bind(&turned.sockets, at).await.unwrap();
            let client = aio::UdpSocket::bind(&turned.sockets, (at.ip(), 0)).await.unwrap();
            drop_polled(server.recv_from(&mut [0; 8]));
            client.send_to(b"said", at).await.unwrap();
            let mut heard = [0; 8];
            assert_eq!(server.recv_from(&mut heard).await.unwrap(), (4, client.local_addr().unwrap()));
            assert_eq!(&heard[..4], b"said");
        });
    });
}

#[test]
fn blocked_calls_fail_when_the_netisr_ends() {
    let turned = Turned::new();
    let at: SocketAddr = (ADDRS[0].parse::<IpAddr>().unwrap(), 80).into();
    let listener = blocking::TcpListener::bind(&turned.sockets, at).unwrap();
    let near = blocking::TcpStream::connect(&turned.sockets, at).unwrap();
    let (far, _) = listener.accept().unwrap();
    scope(|scope| {
        let accepts = scope.spawn(|| listener.accept().err().unwrap().kind());
        let reads = scope.spawn(|| (&far).read(&mut [0; 8]).unwrap_err().kind());
        turned.stop();
        assert_eq!([accepts, reads].map(|waits| waits.join().unwrap()), [ErrorKind::NetworkDown; 2]);
    });
    drop(near);
}

#[test]
fn a_waiter_woken_by_the_end_of_a_netisr_sees_its_end() {
    let held = Arc::<Mutex<Option<Client>>>::default();
    let (looks, (tell, told)) = (Arc::clone(&held), channel());
    let mut sleeper = Sleeper::new(Box::new(move || {
        let is_over = looks.lock().unwrap().as_ref().is_some_and(Client::is_over);
        tell.send(is_over).unwrap();
    }));
    let (client, far) = net::channel::channel(hand::SIZE, sleeper.waker()).unwrap();
    let (mut netisr, _) = hand::netisr(&Sleeper::new(Box::new(|| ())));
    netisr.open(Box::new(far)).unwrap();
    *held.lock().unwrap() = Some(client);
    sleeper.prepare_sleep();
    drop(netisr);
    assert_eq!(told.try_recv(), Ok(true));
}

/// Says what it hears.
struct Echo(SocketAddr);

impl App for Echo {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        cx.listen(&Listen::at(self.0), 0).map(drop)
    }

    fn accepted(&mut self, _: &mut AppContext<'_>, _: u32, _: Accepted) -> u32 {
        0
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        let mut heard = [0; 64];
        while let Ok(count) = tcp::read(cx.cpu, conn.id, &mut heard) {
            if count == 0 {
                let _ = tcp::close(cx.cpu, conn.id);
                return;
            }
            assert_eq!(tcp::send(cx.cpu, conn.id, &heard[..count]), Ok(count));
        }
    }
}

#[test]
fn a_program_on_the_netisr_answers_a_thread() {
    each(86, |turned, at| {
        turned.begin(Box::new(Echo(at)));
        converse(blocking::TcpStream::connect(&turned.sockets, at).unwrap());
    });
}
