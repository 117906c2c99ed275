//! Offers a router in memory 1, 2, 4 and 10 times what it can forward: `overload ip4|ip6 MILLISECONDS`, each load for so
//! long. Says what became of it, one `NAME = VALUE` a line.
//!
//! One thread forwards. The other calls it through the port that the control path uses, every 10 ms.

use core::fmt::Write as _;
use core::time::Duration;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use bench::frames::Family;
use bench::overload::{Overload, Slice, Step};
use bench::program::{self, Misused};
use dev::sys::affinity;
use net::msg::{Msg, Remote};

/// Between two calls.
const CALL_EVERY: Duration = Duration::from_millis(10);
/// After which a call counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    program::run("overload ip4|ip6 MILLISECONDS", |args| match args {
        [family, ms] => run(program::read(family)?, Duration::from_millis(program::read(ms)?)),
        _ => Err(Misused.into()),
    })
}

fn run(family: Family, each: Duration) -> Result<String> {
    let (mut router, remote) = Overload::new(family)?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    ensure!(processors > 1, "who calls needs a CPU of his own");
    let forwarder = thread::spawn(move || -> Result<(Vec<Step>, (f64, usize))> {
        affinity::pin_to(processors - 1)?;
        let steps = router.run(each);
        let capacity = steps.first().map_or(0.0, |step| step.median(Slice::rate));
        Ok((steps, router.afterwards(capacity)))
    });
    affinity::pin_to(0)?;
    let (mut calls, mut lost) = (Vec::new(), 0);
    while !forwarder.is_finished() {
        match call(&remote) {
            Ok(took) => calls.push(took),
            Err(RecvTimeoutError::Timeout) => lost += 1,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        thread::sleep(CALL_EVERY);
    }
    let (steps, afterwards) = forwarder.join().map_err(|_| anyhow!("the forwarding thread died"))??;
    let mut text = String::new();
    say(&mut text, &steps, afterwards)?;
    let (median, worst) = median_and_worst(calls);
    writeln!(
        text,
        "control calls lost = {lost}\ncontrol call us = {median:.1}\nworst control call us = {worst:.1}"
    )?;
    Ok(text)
}

/// Has the netisr run something, and answers how long that took there and back.
fn call(remote: &Remote) -> Result<Duration, RecvTimeoutError> {
    let (tell, told) = sync_channel(1);
    let began = Instant::now();
    let call = move |_: &mut net::netisr::Netisr| _ = tell.try_send(());
    remote.send(Msg::Call(Box::new(call))).map_err(|_| RecvTimeoutError::Timeout)?;
    told.recv_timeout(PATIENCE).map(|()| began.elapsed())
}

fn say(text: &mut String, steps: &[Step], (through, missing): (f64, usize)) -> core::fmt::Result {
    for Step { load, slices } in steps {
        let step = Step { load: *load, slices: slices.clone() };
        let answers = slices.iter().flat_map(|slice| slice.answers.clone()).collect();
        let (answer, worst) = median_and_worst(answers);
        let (asked, answered) =
            slices.iter().fold((0, 0), |sum, slice| (sum.0 + slice.pings.0, sum.1 + slice.pings.1));
        writeln!(
            text,
            "load {load}x = offered {:.0} delivered {:.0}, pings answered {answered}/{asked} in {answer:.1} us (worst {worst:.1})",
            step.median(offered),
            step.median(Slice::rate)
        )?;
    }
    let plateau = steps.iter().map(|step| step.median(Slice::rate)).fold(0.0, f64::max);
    if let Some(heaviest) = steps.iter().rfind(|step| step.load.is_finite()) {
        let (offered, delivered) = (heaviest.median(offered), heaviest.median(Slice::rate));
        writeln!(text, "offered = {offered:.0}\ndelivered = {delivered:.0}")?;
        writeln!(text, "percent of the plateau = {:.1}", 100.0 * delivered / plateau)?;
        writeln!(text, "times offered = {:.1}", offered / plateau)?;
        writeln!(
            text,
            "doorbells a frame = {:.4}",
            heaviest.median(|slice| slice.doorbells as f64 / slice.frames.1 as f64)
        )?;
    }
    let slices = || steps.iter().flat_map(|step| &step.slices);
    writeln!(text, "pings lost = {}", slices().map(|slice| slice.pings.0 - slice.pings.1).sum::<usize>())?;
    let (answer, _) = median_and_worst(slices().flat_map(|slice| slice.answers.clone()).collect());
    writeln!(text, "answer us = {answer:.1}")?;
    writeln!(text, "percent afterwards = {:.2}\nbuffers missing = {missing}", 100.0 * through)
}

fn offered(slice: &Slice) -> f64 {
    slice.frames.0 / slice.took.as_secs_f64()
}

/// In microseconds.
fn median_and_worst(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let us = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e6);
    (us(times.get(times.len() / 2)), us(times.last()))
}
