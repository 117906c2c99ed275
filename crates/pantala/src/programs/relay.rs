//! A connection of a program: bytes both ways, and its end.

use core::cell::Cell;
use core::convert::Infallible;
use core::future::{pending, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::coop::consume_budget;
use wire::program::SockOpt;

use super::pair::{hung_up, is_hung_up};
use super::registry::{Held, Registry};
use crate::sockets::aio::TcpStream;

/// Why a relay ended.
enum End {
    /// The program has closed its socket, after all that it wrote was taken over.
    Closed,
    /// The program has closed its socket before it read all, or wants a reset (`SO_LINGER` of no time).
    Abandoned,
    /// The connection has failed.
    Failed(Errno),
}

/// Relays until the program has closed its socket or the connection has failed. An end of the stream in one direction goes
/// over alone.
pub(super) async fn run(registry: &Registry, held: &Held, unix: Rc<UnixStream>, tcp: TcpStream) {
    let tcp = Rc::new(tcp);
    registry.set_stream(held.id, &tcp);
    registry.set_unix(held.id, &unix);
    let is_read = Cell::new(false);
    let both = async {
        tokio::try_join!(up(registry, held, &unix, &tcp), down((registry, held), &tcp, &unix, &is_read))
    };
    match both.await {
        Ok((never, _)) => match never {},
        // The program may still be open and ask: shut down in both directions, it is as if it had hung up.
        Err(End::Closed) if is_read.get() => registry.end(held, None),
        Err(End::Closed) => {}
        //= https://www.rfc-editor.org/rfc/rfc1122#section-4.2.2.13
        //# If such a host issues a CLOSE call while received data is still
        //# pending in TCP, or if new data is received after CLOSE is called,
        //# its TCP SHOULD send a RST to show that data was lost.
        Err(End::Abandoned) => drop(tcp.set_linger(Some(Duration::ZERO))),
        // Noted before the program sees the hang-up and asks.
        Err(End::Failed(why)) => registry.end(held, Some(why)),
    }
}

/// From the program to the network.
async fn up(registry: &Registry, held: &Held, unix: &UnixStream, tcp: &TcpStream) -> Result<Infallible, End> {
    loop {
        consume_budget().await;
        unix.readable().await.map_err(program)?;
        let (rest, count) = {
            let mut scratch = registry.scratch.borrow_mut();
            let most = scratch.len().min(registry.buffer(held.id, SockOpt::SendBuffer));
            match unix.try_read(&mut scratch[..most]) {
                Ok(count) => (write_now(tcp, &scratch[..count])?, count),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => continue,
                Err(why) => return Err(program(why)),
            }
        };
        if count == 0 {
            break;
        }
        held.process.add_sent(count);
        if !rest.is_empty() {
            let mut writer = tcp;
            writer.write_all(&rest).await.map_err(network)?;
        }
    }
    // Closed with a reset, it sends no FIN.
    if !(registry.resets(held.id) && is_hung_up(unix)) {
        tcp.shutdown(std::net::Shutdown::Write).map_err(network)?;
        hung_up(unix.as_fd()).await.map_err(program)?;
    }
    Err(if registry.resets(held.id) { End::Abandoned } else { End::Closed })
}

/// Writes what there is room for, and returns the rest.
fn write_now(mut tcp: &TcpStream, bytes: &[u8]) -> Result<Vec<u8>, End> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    // The caller waits with its own waker for what is left.
    match Pin::new(&mut tcp).poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
        Poll::Ready(Ok(count)) => Ok(bytes[count..].to_vec()),
        Poll::Pending => Ok(bytes.to_vec()),
        Poll::Ready(Err(why)) => Err(network(why)),
    }
}

/// From the network to the program.
async fn down(
    (registry, held): (&Registry, &Held),
    tcp: &TcpStream,
    unix: &UnixStream,
    is_read: &Cell<bool>,
) -> Result<Infallible, End> {
    loop {
        consume_budget().await;
        let mut rest = Vec::new();
        let count = poll_fn(|context| {
            let mut scratch = registry.scratch.borrow_mut();
            let most = scratch.len().min(registry.buffer(held.id, SockOpt::ReceiveBuffer));
            let (mut reader, mut into) = (tcp, ReadBuf::new(&mut scratch[..most]));
            ready!(Pin::new(&mut reader).poll_read(context, &mut into)).map_err(network)?;
            let bytes = into.filled();
            rest = match unix.try_write(bytes) {
                Ok(count) => bytes[count..].to_vec(),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => bytes.to_vec(),
                Err(why) => return Err(program(why)).into(),
            };
            Ok(bytes.len()).into()
        })
        .await?;
        if count == 0 {
            break;
        }
        held.process.add_received(count);
        let mut left = &rest[..];
        while !left.is_empty() {
            unix.writable().await.map_err(program)?;
            match unix.try_write(left) {
                Ok(count) => left = &left[count..],
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(program(why)),
            }
        }
    }
    is_read.set(true);
    shutdown(unix, Shutdown::Write).map_err(|why| program(why.into()))?;
    // The program's end closes the relay.
    pending().await
}

/// An error at the program's socket: it has no reader any more.
fn program(_: io::Error) -> End {
    End::Abandoned
}

fn network(why: io::Error) -> End {
    End::Failed(Errno::from_io_error(&why).unwrap_or(Errno::CONNRESET))
}
