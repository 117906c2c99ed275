//! Peers in a host's namespace: well behaved, slow, silent, and rude ones. They report every second how often
//! each kind of exchange went well, broke, or brought wrong bytes.

mod talk;

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use super::loads::{Account, Cause};
use crate::args::Args;
use crate::peers::process::{go_on, pause, watch_for_interrupts};

use self::talk::Wrong;

/// Bytes of the large file.
pub const LARGE: usize = 2 << 20;
/// Between two accounts.
const TELL: Duration = Duration::from_secs(1);
/// The longest that a peer is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Ways to break that are told apart.
const WHYS_MAX: usize = 12;
/// Connections that a server has at once.
const SERVED_MAX: u64 = 512;

/// Bytes of a stream from this position on; no two positions near each other have the same neighbours.
pub fn pattern(from: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let mixed = (at as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        mixed[at % 8]
    };
    (from..from + len).map(byte).collect()
}

/// One kind of exchange, and how often it went how.
#[derive(Default)]
pub struct Tally {
    well: AtomicU64,
    broken: AtomicU64,
    wrong: AtomicU64,
    /// How those broke.
    why: Mutex<BTreeMap<String, u64>>,
    causes: Mutex<BTreeMap<Cause, u64>>,
}

impl Tally {
    fn broke(&self, error: &anyhow::Error) {
        *self.causes.lock().unwrap_or_else(PoisonError::into_inner).entry(talk::cause(error)).or_default() +=
            1;
        let how = format!("{error:#}");
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        let how = if why.len() < WHYS_MAX || why.contains_key(&how) { how } else { "others".to_owned() };
        *why.entry(how).or_default() += 1;
    }
}

/// `--agent server` or `--agent client`; what follows are the addresses of those to talk to.
pub fn run(role: &str, args: &mut Args) -> Result<bool> {
    let addresses: Vec<IpAddr> =
        args.words(|_| true).iter().map(|word| word.parse().context("an address")).collect::<Result<_>>()?;
    watch_for_interrupts()?;
    match role {
        "server" => serve(&addresses)?,
        "client" => {
            ensure!(
                addresses.len().is_multiple_of(3),
                "addresses of router, server and program, for each family"
            );
            work(
                addresses.chunks(3).flat_map(|family| talk::kinds(family[0], family[1], family[2])).collect(),
            )?;
        }
        "knocker" => work(addresses.into_iter().map(talk::knocks).collect())?,
        "lonely" => work(addresses.into_iter().map(talk::lonely).collect())?,
        _ => anyhow::bail!("there is no agent `{role}`"),
    }
    Ok(true)
}

/// One kind of exchange, to be had again and again.
pub struct Kind {
    pub name: String,
    /// Between the end of one and the beginning of the next.
    pub gap: Duration,
    /// At once.
    pub threads: usize,
    pub talk: Box<dyn Fn(u64) -> Result<()> + Send + Sync>,
}

/// Has all kinds of exchanges until the user ends it; then those that have begun come to their end.
fn work(kinds: Vec<Kind>) -> Result<()> {
    let tallies: Vec<Tally> = kinds.iter().map(|_| Tally::default()).collect();
    std::thread::scope(|scope| {
        for (kind, tally) in kinds.iter().zip(&tallies) {
            for first in 0..kind.threads {
                scope.spawn(move || again_and_again(kind, first as u64, tally));
            }
        }
        while pause(TELL).is_ok() {
            say(&kinds, &tallies);
        }
    });
    say(&kinds, &tallies);
    Ok(())
}

fn again_and_again(kind: &Kind, first: u64, tally: &Tally) {
    let mut number = first;
    while go_on().is_ok() {
        match (kind.talk)(number) {
            Ok(()) => &tally.well,
            Err(error) if error.is::<Wrong>() => {
                eprintln!("{}: {error:#}", kind.name);
                &tally.wrong
            }
            Err(error) => {
                tally.broke(&error);
                &tally.broken
            }
        }
        .fetch_add(1, Ordering::Relaxed);
        number += kind.threads as u64;
        let _ = pause(kind.gap);
    }
}

fn say(kinds: &[Kind], tallies: &[Tally]) {
    let mut sums = BTreeMap::<&str, Account>::new();
    for (kind, tally) in kinds.iter().zip(tallies) {
        let sum = sums.entry(&kind.name).or_default();
        kind.name.clone_into(&mut sum.name);
        sum.well += tally.well.load(Ordering::Relaxed);
        sum.broken += tally.broken.load(Ordering::Relaxed);
        sum.wrong += tally.wrong.load(Ordering::Relaxed);
        for (how, count) in &*tally.why.lock().unwrap_or_else(PoisonError::into_inner) {
            *sum.why.entry(how.clone()).or_default() += count;
        }
        for (cause, count) in &*tally.causes.lock().unwrap_or_else(PoisonError::into_inner) {
            *sum.causes.entry(*cause).or_default() += count;
        }
    }
    if let Ok(line) = serde_json::to_string(&sums.into_values().collect::<Vec<_>>()) {
        println!("{line}");
    }
}

/// Sends back what comes, over TCP and UDP, at each address.
fn serve(addresses: &[IpAddr]) -> Result<()> {
    static SERVED: AtomicU64 = AtomicU64::new(0);
    for address in addresses {
        let at = SocketAddr::new(*address, 7000);
        let listener = TcpListener::bind(at)?;
        let socket = UdpSocket::bind(at)?;
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
            while let Ok((len, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..len], from);
            }
        });
    }
    while pause(TELL).is_ok() {}
    // Exchanges in progress come to their end.
    let ends = std::time::Instant::now() + PATIENCE;
    while SERVED.load(Ordering::Relaxed) > 0 && std::time::Instant::now() < ends {
        std::thread::sleep(TELL);
    }
    Ok(())
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut bytes = vec![0; 16 << 10];
    loop {
        match stream.read(&mut bytes)? {
            0 => return stream.shutdown(std::net::Shutdown::Write),
            len => stream.write_all(&bytes[..len])?,
        }
    }
}
