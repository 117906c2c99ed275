//! Measures the rate at which a program forwards between two veth pairs: see [`bench::veth`]. Needs root.

use core::fmt::Write as _;
use core::time::Duration;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bench::frames::Family;
use bench::program::{self, Misused};
use bench::veth::count::count;
use bench::veth::doorbells::{Doorbells, doorbells};
use bench::veth::frames::SINK_MAC;
use bench::veth::generator::{Generator, Variety};
use bench::veth::lab::Lab;
use bench::veth::layout::Layout;
use bench::veth::measure::{Flow, Most, measure, saturate};
use bench::veth::overload::{Outcome, Step, overload};
use bench::veth::routers::{self, Kind};

const USAGE: &str = "veth ROUTER [--overload yes | --doorbells yes | --count FRAMES] [--family 4|6] [--layout one|two|split] [--window MS] [--flows N] [--to N]";

/// After which everything is at rest.
const REST: Duration = Duration::from_millis(200);

/// The command line.
struct Wanted {
    kind: Kind,
    family: Family,
    layout: Layout,
    window: Duration,
    variety: Variety,
    what: Measurement,
}

/// The measurement.
#[derive(Clone, Copy)]
enum Measurement {
    /// The most that is forwarded.
    Rate,
    Overload,
    Doorbells,
    /// A number of frames in one thread, to be counted from outside.
    Count(u32),
}

fn main() -> ExitCode {
    program::run(USAGE, |args| run(&wanted(args)?))
}

fn wanted(args: &[&str]) -> Result<Wanted> {
    let mut args = args.iter();
    let kind = Kind::named(args.next().context(Misused)?)?;
    let mut wanted = Wanted {
        kind,
        family: Family::Ip4,
        layout: Layout::One,
        window: Duration::from_millis(400),
        variety: Variety::default(),
        what: Measurement::Rate,
    };
    while let Some(option) = args.next() {
        let value = args.next().context(Misused)?;
        match (*option, *value) {
            ("--family", family) => wanted.family = program::read(family)?,
            ("--layout", name) => wanted.layout = Layout::named(name)?,
            ("--window", ms) => wanted.window = Duration::from_millis(ms.parse()?),
            ("--overload", "yes") => wanted.what = Measurement::Overload,
            ("--count", frames) => wanted.what = Measurement::Count(frames.parse()?),
            ("--doorbells", "yes") => wanted.what = Measurement::Doorbells,
            ("--flows", flows) => wanted.variety.flows = mask(flows)?,
            ("--to", destinations) => wanted.variety.destinations = mask(destinations)?,
            _ => return Err(Misused.into()),
        }
    }
    Ok(wanted)
}

fn mask(count: &str) -> Result<u16> {
    let count: u32 = count.parse()?;
    anyhow::ensure!(count.is_power_of_two() && count <= 65536, "{count} is no power of two up to 65536");
    Ok(u16::try_from(count - 1)?)
}

fn run(wanted: &Wanted) -> Result<String> {
    let mut lab = Lab::new(wanted.family, wanted.layout)?;
    if wanted.kind.is_bridge() {
        lab.to = SINK_MAC;
    }
    if let Measurement::Count(frames) = wanted.what {
        return count(&lab, wanted.kind, frames).map(|()| String::new());
    }
    let mut router = routers::start(wanted.kind, &lab)?;
    let mut generator = Generator::start(&lab, wanted.variety)?;
    let mut text = String::new();
    match wanted.what {
        Measurement::Overload => {
            let outcome = overload(&lab, &mut generator, router.thread().as_ref(), wanted.window)?;
            say_outcome(&mut text, &outcome)?;
        }
        Measurement::Doorbells => {
            say_doorbells(&mut text, &doorbells(&lab, &mut generator, &*router, wanted.window)?)?;
        }
        Measurement::Rate | Measurement::Count(_) => {
            let most = saturate(&lab, &mut generator)?;
            say(&mut text, &most, &measure(&lab, &generator, router.thread().as_ref(), wanted.window)?)?;
        }
    }
    generator.hold()?;
    std::thread::sleep(REST);
    for (name, value) in router.figures() {
        writeln!(text, "{name} = {value:.1}")?;
    }
    Ok(text)
}

/// One `NAME = VALUE` a line.
fn say(text: &mut String, most: &Most, flow: &Flow) -> core::fmt::Result {
    writeln!(text, "delivered = {:.0}\noffered = {:.0}", flow.delivered, flow.offered)?;
    writeln!(text, "bottleneck = {}", if most.is_the_routers { "router" } else { "generator" })?;
    if let Some(each) = flow.each {
        writeln!(text, "thread = {each:.0}")?;
    }
    for (cpu, share) in flow.cpus.iter().enumerate() {
        writeln!(text, "cpu{cpu} = {share}")?;
    }
    Ok(())
}

fn say_doorbells(text: &mut String, counted: &Doorbells) -> core::fmt::Result {
    say(text, &counted.most, &counted.flow)?;
    if let Some((loaded, singly)) = counted.each {
        writeln!(text, "doorbells a frame = {loaded:.4}\ndoorbells a frame singly = {singly:.4}")?;
    }
    if let Some(ping) = counted.ping {
        writeln!(text, "ping us = {:.1}", ping.as_secs_f64() * 1e6)?;
    }
    Ok(())
}

/// A line for each load, and what a table has to know of all of them.
fn say_outcome(text: &mut String, outcome: &Outcome) -> core::fmt::Result {
    let Outcome { most, steps, afterwards, generator } = outcome;
    writeln!(text, "most = {:.0}", most.delivered)?;
    for Step { wanted, flow, pings: (sent, answered) } in steps.iter().chain([afterwards]) {
        let Flow { offered, delivered, .. } = flow;
        writeln!(
            text,
            "load {wanted}x = offered {offered:.0} ({:.1}x) delivered {delivered:.0}, pings answered {answered}/{sent}",
            offered / most.delivered
        )?;
    }
    let delivered = || steps.iter().map(|step| step.flow.delivered);
    let plateau = delivered().fold(0.0, f64::max);
    let worst = delivered().fold(f64::INFINITY, f64::min);
    if let Some(Step { flow, .. }) = steps.last() {
        writeln!(text, "delivered = {:.0}\noffered = {:.0}", flow.delivered, flow.offered)?;
        writeln!(text, "percent of the plateau = {:.1}", 100.0 * flow.delivered / plateau)?;
        writeln!(text, "times offered = {:.1}", flow.offered / plateau)?;
    }
    for (name, step) in [("thread first", steps.first()), ("thread last", steps.last())] {
        if let Some(each) = step.and_then(|step| step.flow.each) {
            writeln!(text, "{name} = {each:.0}")?;
        }
    }
    writeln!(text, "worst percent = {:.1}\ngenerator = {generator:.0}", 100.0 * worst / plateau)?;
    let first = steps.first().map_or(f64::NAN, |step| step.flow.delivered);
    writeln!(text, "percent afterwards = {:.1}", 100.0 * afterwards.flow.delivered / first)?;
    let (sent, answered) = steps
        .iter()
        .chain([afterwards])
        .fold((0, 0), |sum, step| (sum.0 + step.pings.0, sum.1 + step.pings.1));
    writeln!(text, "pings lost = {}", sent - answered)?;
    Ok(())
}
