//! One path in one family: pings, datagrams, a transfer each way.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::thread;
use std::time::Instant;

use super::lab::{Attachment, Host, Path};
use super::router::Router;
use super::traffic::{self, Transfer};
use super::{Narrator, Options};
use crate::api::{Counters, Netisr};
use crate::cli::Failure;
use crate::interrupt::Stop;

/// Echo requests per path and family; the first pays for address resolution, like any first packet.
const PINGS: u16 = 200;
/// Datagrams per path and family.
const DATAGRAMS: u32 = 4000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// The measurement.
pub(crate) struct Measured {
    pub(crate) path: String,
    pub(crate) family: Family,
    /// Sorted round-trip times of the pings that came back.
    pub(crate) pings: Result<Vec<Duration>, String>,
    /// Datagrams that came back unchanged.
    pub(crate) datagrams: Result<u32, String>,
    /// There and back.
    pub(crate) transfers: [Result<Transfer, String>; 2],
    /// pantala's work meanwhile.
    pub(crate) work: Work,
}

/// The difference of pantala's counters between two moments.
pub(crate) struct Work {
    /// By CPU.
    pub(crate) packets: Vec<u64>,
    pub(crate) handoffs: u64,
    /// By reason; none that is zero.
    pub(crate) drops: Vec<(String, u64)>,
}

/// Sends all kinds of traffic along one path, and shows how it goes.
pub(crate) fn path(
    path: &Path<'_>,
    family: Family,
    options: &Options,
    router: &Router,
    stop: &Stop,
    say: &mut Narrator<'_>,
) -> Result<Measured, Failure> {
    let Path { from, to } = path;
    let before = Snapshot::take(router);
    say.live(&format!("{path} {family}  pings"))?;
    let pings = traffic::ping(&from.netns, to.addr(family), PINGS);
    say.live(&format!("{path} {family}  datagrams"))?;
    let datagrams = traffic::udp(&from.netns, &to.netns, to.addr(family), DATAGRAMS);
    let transfers = both_ways(path, family, options.transfer_bytes, router, stop, say)?;
    let work = Snapshot::take(router).since(&before);
    say.live("")?;
    let mut pings = pings.map_err(|why| why.to_string());
    if let Ok(times) = &mut pings {
        times.sort_unstable();
    }
    Ok(Measured {
        path: path.to_string(),
        family,
        pings,
        datagrams: datagrams.map_err(|why| why.to_string()),
        transfers: transfers.map(|transfer| transfer.map_err(|why| why.to_string())),
        work,
    })
}

/// A transfer each way, both at once, with a line of progress.
fn both_ways(
    path: &Path<'_>,
    family: Family,
    bytes: u64,
    router: &Router,
    stop: &Stop,
    say: &mut Narrator<'_>,
) -> Result<[io::Result<Transfer>; 2], Failure> {
    let Path { from, to } = path;
    let arrived = AtomicU64::new(0);
    let (arrived, begun) = (&arrived, Instant::now());
    thread::scope(|scope| {
        let there = scope
            .spawn(|| traffic::transfer((&from.netns, &to.netns), to.addr(family), bytes, arrived, stop));
        let back = scope
            .spawn(|| traffic::transfer((&to.netns, &from.netns), from.addr(family), bytes, arrived, stop));
        let mut shown = Instant::now();
        let every = if say.is_live() { Duration::from_millis(250) } else { Duration::from_secs(2) };
        while !(there.is_finished() && back.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            if shown.elapsed() >= every {
                shown = Instant::now();
                let progress = progress(arrived.load(Ordering::Relaxed), 2 * bytes, begun.elapsed(), router);
                let line = format!("{path} {family}  {progress}");
                if say.is_live() { say.live(&line)? } else { say.line(&format!("  {line}\n"))? }
            }
        }
        let died = |_| io::Error::other("the transfer died");
        Ok([
            there.join().map_err(died).and_then(|done| done),
            back.join().map_err(died).and_then(|done| done),
        ])
    })
}

fn progress(arrived: u64, of: u64, since: Duration, router: &Router) -> String {
    let netisrs = router.netisrs();
    let packets: Vec<String> = netisrs.iter().map(|n| format!("cpu{} {}", n.cpu, n.packets)).collect();
    let handoffs: u64 = netisrs.iter().map(|n| n.handoffs_out).sum();
    let drops = router.counters().drops;
    let drops: u64 = drops.iter().filter(|drop| !is_natural(&drop.reason)).map(|drop| drop.count).sum();
    let (arrived_mb, of_mb, rate) = (arrived / 1_000_000, of / 1_000_000, gigabits(arrived, since));
    let packets = packets.join(", ");
    format!(
        "{arrived_mb}/{of_mb} MB at {rate:.2} Gbit/s; packets {packets}; hand-offs {handoffs}; drops {drops}"
    )
}

/// Gigabits per second.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(crate) fn gigabits(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8e-9 / took.as_secs_f64().max(1e-9)
}

/// Pantala's counters at one moment.
struct Snapshot {
    netisrs: Vec<Netisr>,
    counters: Counters,
}

impl Snapshot {
    fn take(router: &Router) -> Self {
        Self { netisrs: router.netisrs(), counters: router.counters() }
    }

    fn since(&self, before: &Self) -> Work {
        let was = |reason: &str| {
            before.counters.drops.iter().find(|drop| drop.reason == reason).map_or(0, |d| d.count)
        };
        let drops =
            self.counters.drops.iter().map(|drop| (drop.reason.clone(), drop.count - was(&drop.reason)));
        let pairs = || self.netisrs.iter().zip(&before.netisrs);
        Work {
            packets: pairs().map(|(now, then)| now.packets - then.packets).collect(),
            handoffs: pairs().map(|(now, then)| now.handoffs_out - then.handoffs_out).sum(),
            drops: drops.filter(|(reason, count)| *count > 0 && !is_natural(reason)).collect(),
        }
    }
}

/// Whether a packet that ended for this reason had done what it was for.
fn is_natural(reason: &str) -> bool {
    reason.ends_with("_done")
}

impl Host {
    fn addr(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.v4(),
            Family::V6 => self.v6(),
        }
    }
}

impl core::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (from, to) = (self.from, self.to);
        write!(f, "{} {} ⇄ {} {}", from.name, from.attachment, to.attachment, to.name)
    }
}

impl core::fmt::Display for Attachment {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Xdp => "AF_XDP",
            Self::Tap => "TAP",
        })
    }
}

impl core::fmt::Display for Family {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Expected replies: all of them.
pub(crate) const WANTED: (usize, u32) = (PINGS as usize, DATAGRAMS);
