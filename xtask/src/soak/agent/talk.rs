//! The exchanges that clients have.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};

use anyhow::{Context, Result};
use rustix::net::sockopt::set_socket_linger;

use super::super::loads::Cause;
use super::{Kind, LARGE, PATIENCE, pattern};
use crate::peers::process::{go_on, pause};

/// Bytes came that were never sent, or passed what must not pass.
#[derive(Debug)]
pub struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Wrong {}

/// A break whose cause no error of the operating system tells.
#[derive(Debug)]
struct Broken(Cause);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.words())
    }
}

impl core::error::Error for Broken {}

/// Returns the cause of an error.
pub fn cause(error: &anyhow::Error) -> Cause {
    if let Some(Broken(cause)) = error.chain().find_map(|error| error.downcast_ref()) {
        return *cause;
    }
    let kind = error.chain().find_map(|error| error.downcast_ref()).map(std::io::Error::kind);
    match kind {
        Some(ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe) => {
            Cause::Reset
        }
        Some(ErrorKind::ConnectionRefused) => Cause::Refused,
        Some(ErrorKind::UnexpectedEof) => Cause::EndedEarly,
        Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => Cause::Silent,
        _ => Cause::Other,
    }
}

/// Tells an answer that comes late, on a busy machine, from one that does not come: a read that has timed out is tried once
/// more, for as long again.
fn told_apart(mut stream: &TcpStream, why: std::io::Error) -> anyhow::Error {
    if !matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        return why.into();
    }
    match stream.read_exact(&mut [0]) {
        Ok(()) => Broken(Cause::Late).into(),
        Err(why) => why.into(),
    }
}

/// A slow reader takes so much at a time, so often, and then leaves.
const SLOW: (usize, Duration, u32) = (1024, Duration::from_millis(500), 40);
/// Connections that a burst opens and resets.
const BURST: u32 = 50;
const KNOCK: Duration = Duration::from_millis(300);

/// Everything that a client does with router, server behind it, and program beside it, over one family.
pub fn kinds(router: IpAddr, server: IpAddr, program: IpAddr) -> Vec<Kind> {
    let relay = SocketAddr::new(router, if router.is_ipv4() { 8080 } else { 8086 });
    let [web, echo] = [80, 7].map(|port| SocketAddr::new(router, port));
    let (far, beside) = (SocketAddr::new(server, 7000), SocketAddr::new(program, 7001));
    vec![
        kind("web: small files", 500, 2, move |_| files(web)),
        kind("web: a large file", 5000, 1, move |_| large(web)),
        kind("web: slow readers", 100, 8, move |_| slow(web)),
        kind("web: silent clients", 100, 4, move |number| silent(web, number)),
        kind("web: opened and reset", 5000, 1, move |_| burst(web)),
        kind("relay: echo, half-closed", 700, 2, move |number| stream(relay, number)),
        kind("relay: reset amid it", 1000, 1, move |number| cut(relay, number)),
        kind("relay: never read", 5000, 1, move |_| deaf(relay)),
        kind("echo service", 700, 1, move |number| stream(echo, number)),
        kind("NAT or forwarding: echo", 700, 2, move |number| stream(far, number)),
        kind("NAT or forwarding: reset", 1500, 1, move |number| cut(far, number)),
        kind("sockets of threads: echo", 700, 2, move |number| stream(beside, number)),
        kind("datagrams to the router", 300, 1, move |number| datagram(echo, number)),
        kind("datagrams through it", 300, 1, move |number| datagram(far, number)),
        kind("datagrams to threads", 300, 1, move |number| datagram(beside, number)),
    ]
}

/// Connections that rules deny.
pub fn knocks(to: IpAddr) -> Kind {
    kind("denied connections", 500, 1, move |_| {
        match TcpStream::connect_timeout(&SocketAddr::new(to, 22), KNOCK) {
            Ok(_) => Err(Wrong("a connection that rules deny was opened".to_owned()).into()),
            // A refusal is an answer of the host behind the firewall.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                Err(Wrong("a SYN that rules deny arrived".to_owned()).into())
            }
            Err(_) => Ok(()),
        }
    })
}

/// Datagrams over a link that comes and goes.
pub fn lonely(router: IpAddr) -> Kind {
    kind("datagrams over the flapping link", 300, 1, move |number| {
        datagram(SocketAddr::new(router, 7), number)
    })
}

fn kind(
    name: &str,
    gap_ms: u64,
    threads: usize,
    talk: impl Fn(u64) -> Result<()> + Send + Sync + 'static,
) -> Kind {
    Kind { name: name.to_owned(), gap: Duration::from_millis(gap_ms), threads, talk: Box::new(talk) }
}

fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).context("connect")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Ten requests on one connection.
fn files(web: SocketAddr) -> Result<()> {
    let mut stream = connect(web)?;
    for _ in 0..10 {
        stream.write_all(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n")?;
        let length = head(&mut stream)?;
        body(&mut stream, length)?;
    }
    Ok(())
}

fn large(web: SocketAddr) -> Result<()> {
    let mut stream = connect(web)?;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
    let length = head(&mut stream)?;
    right(length == LARGE, "the length of the large file")?;
    body(&mut stream, length)
}

/// Takes a little now and then, and leaves with most of it unread.
fn slow(web: SocketAddr) -> Result<()> {
    let mut stream = connect(web)?;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")?;
    head(&mut stream)?;
    let (len, gap, times) = SLOW;
    for at in 0..times as usize {
        if pause(gap).is_err() {
            break;
        }
        let mut came = vec![0; len];
        stream.read_exact(&mut came)?;
        right(came == pattern(at * len, len), "bytes of the large file")?;
    }
    Ok(())
}

/// Says nothing, or half of a request.
fn silent(web: SocketAddr, number: u64) -> Result<()> {
    let mut stream = connect(web)?;
    if number.is_multiple_of(2) {
        stream.write_all(b"GET /small HTTP/1.1\r\nHo")?;
    }
    let _ = pause(Duration::from_secs(15));
    Ok(())
}

fn burst(web: SocketAddr) -> Result<()> {
    for _ in 0..BURST {
        abort(&connect(web)?)?;
    }
    Ok(())
}

/// Sends, closes its half, and reads what comes back.
fn stream(to: SocketAddr, number: u64) -> Result<()> {
    let stream = connect(to)?;
    let len = 1000 + usize::try_from(number * 7919 % 200_000)?;
    let sent = pattern(0, len);
    let mut came = Vec::with_capacity(len);
    std::thread::scope(|scope| -> Result<()> {
        let sends = scope.spawn(|| -> std::io::Result<()> {
            (&stream).write_all(&sent)?;
            stream.shutdown(Shutdown::Write)
        });
        (&stream).read_to_end(&mut came).map_err(|why| told_apart(&stream, why)).context("read")?;
        let sent = sends.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?;
        sent.context("write")
    })?;
    right(came == sent, "what an echo brought")
}

/// Resets in the middle of sending.
fn cut(to: SocketAddr, number: u64) -> Result<()> {
    let mut stream = connect(to)?;
    stream.write_all(&pattern(0, 1000 + usize::try_from(number * 104_729 % 60_000)?))?;
    let mut bytes = [0; 100];
    stream.read_exact(&mut bytes).map_err(|why| told_apart(&stream, why)).context("read")?;
    right(bytes == *pattern(0, 100), "the first bytes of an echo")?;
    abort(&stream)
}

/// Sends until nothing more is taken, and never reads.
fn deaf(to: SocketAddr) -> Result<()> {
    let mut stream = connect(to)?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let bytes = pattern(0, 64 << 10);
    while go_on().is_ok() && stream.write_all(&bytes).is_ok() {}
    let _ = pause(Duration::from_secs(5));
    Ok(())
}

fn datagram(to: SocketAddr, number: u64) -> Result<()> {
    let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    for turn in 0..20_u64 {
        let sent = pattern(usize::try_from(number * 20 + turn)?, 1 + usize::try_from(turn * 70)?);
        socket.send(&sent)?;
        let mut came = [0; 2048];
        let len = socket.recv(&mut came).map_err(lost)?;
        right(came[..len] == sent, "a datagram")?;
    }
    Ok(())
}

/// A datagram whose reply does not come in time: either was lost, or the machine is busy.
fn lost(why: std::io::Error) -> anyhow::Error {
    let is_late = matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    if is_late { Broken(Cause::Lost).into() } else { why.into() }
}

/// Closes with a reset.
fn abort(stream: &TcpStream) -> Result<()> {
    Ok(set_socket_linger(stream, Some(Duration::ZERO))?)
}

/// Reads the head of an answer; answers how long its body is.
fn head(stream: &mut TcpStream) -> Result<usize> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
        right(head.len() < 4096, "the length of a head")?;
    }
    let head = String::from_utf8_lossy(&head);
    let refused = head.starts_with("HTTP/1.1 503");
    anyhow::ensure!(!refused, Broken(Cause::NoRoom));
    right(head.starts_with("HTTP/1.1 200"), "the status of an answer")?;
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.trim().parse().ok());
    length.context("an answer without a length")
}

fn body(stream: &mut TcpStream, length: usize) -> Result<()> {
    let mut came = vec![0; length];
    stream.read_exact(&mut came)?;
    right(came == pattern(0, length), "the bytes of a file")
}

fn right(is_right: bool, what: &str) -> Result<()> {
    if is_right { Ok(()) } else { Err(Wrong(format!("wrong: {what}")).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_cause() {
        for (kind, expected) in [
            (ErrorKind::ConnectionReset, Cause::Reset),
            (ErrorKind::BrokenPipe, Cause::Reset),
            (ErrorKind::ConnectionRefused, Cause::Refused),
            (ErrorKind::UnexpectedEof, Cause::EndedEarly),
            (ErrorKind::WouldBlock, Cause::Silent),
            (ErrorKind::AddrInUse, Cause::Other),
        ] {
            assert_eq!(cause(&anyhow::Error::from(std::io::Error::from(kind)).context("read")), expected);
        }
        assert_eq!(cause(&anyhow::Error::from(Broken(Cause::Late)).context("read")), Cause::Late);
        assert_eq!(cause(&lost(ErrorKind::WouldBlock.into())), Cause::Lost);
    }
}
