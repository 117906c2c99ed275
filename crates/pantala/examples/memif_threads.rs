//! Threads with sockets of a stack of their own, over shared memory with another stack. Without words it makes that other
//! stack itself, asks its echo service a hundred times, and ends. With words it is the neighbour of a running pantala, which
//! `cargo xtask soak` loads so for hours:
//!
//! cargo run --example memif_threads [SOCKET ADDRESS/LENGTH ADDRESS6/LENGTH ROUTER ROUTER6]
//!
//! There it echoes at port 7001, over TCP and UDP, asks the router's echo service and web server without end, and says every
//! second how that goes. The word `rest` on its standard input ends the asking, the end of the input ends it.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::error::Error;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::io::{self, BufRead, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use pantala::sockets::Sockets;
use pantala::sockets::blocking::{TcpListener, TcpStream, UdpSocket};
use pantala::{Interface, Stack};

/// The longest that the other end is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two accounts.
const TELL: Duration = Duration::from_secs(1);
/// Between two exchanges of a thread.
const GAP: Duration = Duration::from_millis(150);
/// Connections that are echoed to at once.
const SERVED_MAX: u64 = 128;

/// Results of exchanges: good, broken, with wrong bytes.
#[derive(Default)]
struct Tally([AtomicU64; 3]);

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, address, address6, router, router6] = &words[..] else { return alone() };
    let memif = Interface::memif(format_args!("{socket},id=0,role=slave")).address(address).address(address6);
    let stack = Stack::builder()
        .threads(1)
        .interface(memif.rings(1))
        .route("0.0.0.0/0", router)
        .route("::/0", router6)
        .start()?;
    let sockets = stack.sockets()?;
    let rests = Arc::new(AtomicBool::new(false));
    for local in [address, address6] {
        let local = local.split('/').next().unwrap_or_default().parse()?;
        serve(&sockets, SocketAddr::new(local, 7001))?;
    }
    let tallies: Arc<[Tally; 3]> = Arc::default();
    let asking: Vec<_> = [router.parse()?, router6.parse()?]
        .into_iter()
        .flat_map(|router| ask(&sockets, router, &tallies, &rests))
        .collect();
    let (done, told) = (Arc::clone(&rests), Arc::clone(&tallies));
    let teller = std::thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(TELL);
            tell(&told);
        }
    });
    for line in io::stdin().lock().lines() {
        if line? == "rest" && !rests.swap(true, Ordering::Relaxed) {
            break;
        }
    }
    rests.store(true, Ordering::Relaxed);
    let _ = asking.into_iter().map(std::thread::JoinHandle::join).count();
    let _ = teller.join();
    tell(&tallies);
    println!("resting");
    io::stdin().lock().lines().for_each(drop);
    Ok(stack.stop()?)
}

/// Both ends of the memory in one process.
fn alone() -> Result<(), Box<dyn Error>> {
    let socket = std::env::temp_dir().join(format!("pantala-memif-threads-{}", std::process::id()));
    let end = |role, address| {
        let memif = Interface::memif(format_args!("{},id=0,role={role}", socket.display()));
        Stack::builder().threads(1).interface(memif.address(address)).start()
    };
    let (router, host) = (end("master", "192.0.2.1/24")?, end("slave", "192.0.2.2/24")?);
    let [serves, asks] = [router.sockets()?, host.sockets()?];
    let at = "192.0.2.1:7001".parse()?;
    serve(&serves, at)?;
    for number in 0..100 {
        exchange(&asks, at, number)?;
    }
    println!("100 connections were echoed to over shared memory");
    host.stop()?;
    router.stop()?;
    Ok(())
}

/// Sends back what comes.
fn serve(sockets: &Sockets, at: SocketAddr) -> io::Result<()> {
    static SERVED: AtomicU64 = AtomicU64::new(0);
    let (listener, datagrams) = (TcpListener::bind(sockets, at)?, UdpSocket::bind(sockets, at)?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Of too many, the newcomer is sent away.
            if SERVED.fetch_add(1, Ordering::Relaxed) < SERVED_MAX {
                std::thread::spawn(move || {
                    let _ = echo(stream);
                    SERVED.fetch_sub(1, Ordering::Relaxed);
                });
            } else {
                SERVED.fetch_sub(1, Ordering::Relaxed);
            }
        }
    });
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((count, from)) = datagrams.recv_from(&mut bytes) {
            let _ = datagrams.send_to(&bytes[..count], from);
        }
    });
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut bytes = vec![0; 16 << 10];
    loop {
        match stream.read(&mut bytes)? {
            0 => return stream.shutdown(Shutdown::Write),
            count => stream.write_all(&bytes[..count])?,
        }
    }
}

/// An exchange with the peer; tells whether the right bytes came back.
type Exchange = fn(&Sockets, SocketAddr, usize) -> io::Result<bool>;

/// Threads that ask until they may rest.
fn ask(
    sockets: &Sockets,
    router: IpAddr,
    tallies: &Arc<[Tally; 3]>,
    rests: &Arc<AtomicBool>,
) -> Vec<std::thread::JoinHandle<()>> {
    let kinds: [Exchange; 3] = [exchange, datagram, page];
    let threads = kinds.into_iter().zip([7, 7, 80]).enumerate().map(|(at, (kind, port))| {
        let (sockets, tallies, rests) = (sockets.clone(), Arc::clone(tallies), Arc::clone(rests));
        std::thread::spawn(move || {
            let mut number = 0;
            while !rests.load(Ordering::Relaxed) {
                let how = match kind(&sockets, SocketAddr::new(router, port), number) {
                    Ok(true) => 0,
                    Ok(false) => 2,
                    Err(_) => 1,
                };
                tallies[at].0[how].fetch_add(1, Ordering::Relaxed);
                number += 1;
                std::thread::sleep(GAP);
            }
        })
    });
    threads.collect()
}

/// Whether what was sent comes back; of each tenth connection nothing is read, and it is dropped as it is.
fn exchange(sockets: &Sockets, to: SocketAddr, number: usize) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(sockets, &to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let sent: Vec<u8> = (0..=250_u8).cycle().skip(number % 251).take(1000 + number * 7919 % 30_000).collect();
    stream.write_all(&sent)?;
    if number % 10 == 9 {
        return Ok(true);
    }
    let mut came = vec![0; sent.len()];
    stream.read_exact(&mut came)?;
    Ok(came == sent)
}

fn datagram(sockets: &Sockets, to: SocketAddr, number: usize) -> io::Result<bool> {
    let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind(sockets, SocketAddr::new(any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let (sent, mut came) = (vec![number.to_le_bytes()[0]; 1 + number % 1400], [0; 2048]);
    socket.send(&sent)?;
    let count = socket.recv(&mut came)?;
    Ok(came[..count] == sent)
}

fn page(sockets: &Sockets, to: SocketAddr, _: usize) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(sockets, &to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /small HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.1 503"))
}

/// One line of JSON.
fn tell(tallies: &[Tally; 3]) {
    let names = ["threads: echo", "threads: datagrams", "threads: pages"];
    let account = |(name, tally): (&str, &Tally)| {
        let [well, broken, wrong] = [0, 1, 2].map(|at| tally.0[at].load(Ordering::Relaxed));
        format!("{{\"name\":\"{name}\",\"well\":{well},\"broken\":{broken},\"wrong\":{wrong}}}")
    };
    let accounts: Vec<String> = names.into_iter().zip(tallies).map(account).collect();
    println!("[{}]", accounts.join(","));
}
