//! Contests: programs that do the same work, and the claims on their numbers.

use core::time::Duration;

use anyhow::Result;

/// One piece of work, and the programs that do it in turn.
pub struct Contest {
    /// `TOPIC/NAME`, for `--only`; its topic's section of the document holds the outcome.
    pub id: &'static str,
    /// The workload: "64 bytes, IPv4, 2 routes".
    pub title: String,
    /// The unit that is counted per second.
    pub unit: &'static str,
    /// The environment that all cases share, if any.
    pub bed: Option<Box<dyn Bed>>,
    /// In the order of their turns.
    pub cases: Vec<Box<dyn Case>>,
    pub claims: Vec<Claim>,
}

/// An environment that several cases share: made before the first of them is set up, taken away after the last.
pub trait Bed {
    /// # Errors
    ///
    /// Why the whole contest has to be skipped.
    fn set_up(&mut self) -> Result<()>;

    /// Takes away what is there of it, also after half a set-up.
    fn tear_down(&mut self);
}

/// A program that does the work, in one configuration.
pub trait Case {
    /// "pantala", "l3fwd, LPM".
    fn name(&self) -> String;

    /// Describes the use of each CPU: "cpu1: source, forwarding and sink".
    fn cpus(&self) -> String;

    /// In so many rounds at most it takes part: where no peer is to be beaten by a ratio, fewer do.
    fn rounds_max(&self) -> usize {
        usize::MAX
    }

    /// Builds what has to be built. Called once.
    ///
    /// # Errors
    ///
    /// Why the case has to be skipped: what is missing, and how it is had.
    fn set_up(&mut self) -> Result<()> {
        Ok(())
    }

    /// Starts the program, measures for `window`, and ends it.
    ///
    /// # Errors
    ///
    /// What went wrong. A case that fails in three rounds on end is given up.
    fn launch(&mut self, window: Duration) -> Result<Sample>;

    /// Takes away what [`Case::set_up`] made. Called once, whatever has happened.
    fn tear_down(&mut self) {}
}

/// The result of one launch.
#[derive(Clone, Debug)]
pub struct Sample {
    /// In units of the contest per second.
    pub rate: f64,
    pub source: Source,
    /// Other numbers of interest, by name: "stages, cycles".
    pub figures: Vec<(&'static str, f64)>,
}

/// Where the work came from, and whether there was always more of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// There always was: what is measured is the program.
    Saturated,
    /// There was not: what is measured is the generator, and no ratio may be made of it.
    Bottleneck(String),
}

/// A claim on the numbers. Cases are named by their position.
#[derive(Clone, Debug)]
pub enum Claim {
    /// The rate of `of` divided by that of `to`, paired by rounds.
    Ratio { of: usize, to: usize, need: Need },
    /// A figure of `of` divided by the same of `to`, paired by rounds.
    FigureRatio { of: usize, to: usize, figure: &'static str, need: Option<f64> },
    /// Cycles per unit that `of` takes longer than `minus`, paired by rounds: two stages less one stage is one stage.
    Difference { what: &'static str, of: usize, minus: usize, at_most: Option<f64> },
    /// A figure of a case, in the machine's fast state.
    Ceiling { of: usize, figure: &'static str, at_most: f64 },
}

/// When a ratio is what it should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    /// A median of 1.25 or more, and the lower quartile above 1.
    Ahead,
    /// A median of so much or more.
    AtLeast(f64),
    /// Nothing is claimed.
    Shown,
}

impl Sample {
    /// A rate whose source was never the bottleneck, and nothing else.
    pub fn saturated(rate: f64) -> Self {
        Self { rate, source: Source::Saturated, figures: Vec::new() }
    }
}
