//! `pantala demo`: a small real network on this machine, with pantala in its middle.
//!
//! Hosts are network namespaces of this kernel, and speak through its ordinary sockets; the router between them is
//! this program, started as a user would start it. Nothing has a name in the file system but one temporary folder,
//! so nothing is left behind, whatever happens.

mod lab;
mod measure;
mod report;
mod router;
mod traffic;

use core::time::Duration;
use std::time::Instant;

use crate::cli::Failure;
use crate::interrupt::Stop;
use crate::term::Term;
use lab::Lab;
use measure::Family;
use report::Report;
use router::Router;

/// The extent of the demo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Bytes of each TCP transfer.
    pub(crate) transfer_bytes: u64,
    /// Print the report as JSON, and nothing else.
    pub(crate) json: bool,
}

/// Builds the network, sends traffic through it, and reports. Fails if anything was not right.
pub(crate) fn run(options: &Options, term: &mut Term) -> Result<(), Failure> {
    let begun = Instant::now();
    let stop = Stop::on_signals().map_err(failed("watch for signals"))?;
    let mut say = Narrator { term, quiet: options.json };
    say.line("pantala demo: Linux hosts in network namespaces, and pantala between them\n")?;
    let lab = Lab::build().map_err(Failure::Failed)?;
    for missing in &lab.missing {
        say.line(&format!("  cannot show {missing}\n"))?;
    }
    let mut router = Router::start(&lab).map_err(Failure::Failed)?;
    lab.attach_taps().map_err(Failure::Failed)?;
    say.line(&lab.picture())?;
    say.line(&router.devices().map_err(Failure::Failed)?)?;

    let mut report = Report::new(&lab.missing);
    for path in lab.paths() {
        for family in [Family::V4, Family::V6] {
            if stop.is_set() {
                break;
            }
            report.add(measure::path(&path, family, options, &router, &stop, &mut say)?);
        }
    }
    report.stopped = stop.is_set();
    report.router_ended_well = router.end();
    drop(lab);
    report.took = begun.elapsed();
    let text = if options.json { report.json() } else { report.text() };
    say.term.show(&text)?;
    if report.is_right() { Ok(()) } else { Err(Failure::Said) }
}

/// Says what happens, unless only the report is wanted.
pub(crate) struct Narrator<'t> {
    pub(crate) term: &'t mut Term,
    quiet: bool,
}

impl Narrator<'_> {
    pub(crate) fn line(&mut self, text: &str) -> std::io::Result<()> {
        if self.quiet { Ok(()) } else { self.term.show(text) }
    }

    /// Replaces the line that was shown last, on a terminal; elsewhere shows nothing.
    pub(crate) fn live(&mut self, text: &str) -> std::io::Result<()> {
        if self.quiet || !self.term.is_live() { Ok(()) } else { self.term.show(&format!("\r\x1b[K  {text}")) }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.term.is_live()
    }
}

fn failed(doing: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::Failed(format!("cannot {doing}: {error}"))
}

/// Longest time without progress before a step of the demo has failed.
const PATIENCE: Duration = Duration::from_secs(10);
