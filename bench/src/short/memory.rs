//! Two hosts, or two of another stack, in memory: how many connections a second, by the clock.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use dev::sys::affinity;
use hdrhistogram::Histogram;
use net::netisr::Netisr;

use super::pair::Pair;
use super::{Pairs, Seen, Wanted};
use crate::clock::cpu_time;

/// The result of an interval.
#[derive(Clone, Debug)]
pub struct Rate {
    /// Answers in a second.
    pub each_second: f64,
    /// Answers in a second of processor time, of both ends together.
    pub each_cpu_second: f64,
    /// Latency of responses, in nanoseconds.
    pub latency: Histogram<u32>,
}

/// Warm-up as a divisor of the measured time.
const WARM_UP: u32 = 4;

/// One thread for both ends, on this processor.
///
/// # Errors
///
/// When connections fail.
pub fn together(wanted: &Wanted, processor: usize, time: Duration) -> Result<Rate> {
    affinity::pin_to(processor)?;
    let mut pairs = Pairs::new(wanted)?;
    let pair = pairs.cpus.first_mut().ok_or_else(|| anyhow!("no CPU"))?;
    run(pair, time / WARM_UP);
    pair.seen();
    let (began, worked) = (Instant::now(), cpu_time());
    run(pair, time);
    let (took, worked) = (began.elapsed(), cpu_time() - worked);
    rate(pair.seen(), took, worked)
}

/// Turns of both by the clock, which goes on from where the two began.
fn run(pair: &mut Pair, time: Duration) {
    let (began, start) = (Instant::now(), pair.now);
    while began.elapsed() < time {
        pair.now = start + began.elapsed();
        pair.client.turn(pair.now);
        pair.server.turn(pair.now);
    }
}

/// A thread for each end, the server on the first processor.
///
/// # Errors
///
/// When connections fail, or there are not so many processors.
pub fn apart(wanted: &Wanted, [serves, asks]: [usize; 2], time: Duration) -> Result<Rate> {
    let mut pairs = Pairs::new(wanted)?;
    let pair = pairs.cpus.first_mut().ok_or_else(|| anyhow!("no CPU"))?;
    let (began, start) = (Instant::now(), pair.now);
    let turn = |netisr: &mut Netisr, processor, until: Duration| -> Result<Duration> {
        affinity::pin_to(processor)?;
        let worked = cpu_time();
        while began.elapsed() < until {
            netisr.turn(start + began.elapsed());
        }
        Ok(cpu_time() - worked)
    };
    let both = |pair: &mut Pair, until| -> Result<Duration> {
        let Pair { client, server, .. } = pair;
        thread::scope(|scope| {
            let server = scope.spawn(move || turn(server, serves, until));
            let asked = turn(client, asks, until)?;
            Ok(asked + server.join().map_err(|_| anyhow!("the server died"))??)
        })
    };
    both(pair, time / WARM_UP)?;
    pair.seen();
    let since = began.elapsed();
    let worked = both(pair, since + time)?;
    rate(pair.seen(), began.elapsed() - since, worked)
}

pub(super) fn rate(seen: Seen, took: Duration, worked: Duration) -> Result<Rate> {
    let Seen { answered, failed, latency, .. } = seen;
    ensure!(failed == 0 && answered > 0, "{failed} connections failed, {answered} answers came");
    let each = |time: Duration| answered as f64 / time.as_secs_f64();
    Ok(Rate { each_second: each(took), each_cpu_second: each(worked), latency })
}
