//! Common parts of all programs here: read arguments, print the result, or report an error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is where programs talk")]

use core::fmt;
use std::process::ExitCode;

use anyhow::{Context, Result};

/// Runs a program: `answer` makes of the arguments what is printed. `usage` begins with the program's name.
///
/// The exit code is 0, or 1 with a reason, or 2 with the usage if the answer was [`Misused`].
pub fn run(usage: &str, answer: impl FnOnce(&[&str]) -> Result<String>) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match answer(&args) {
        Ok(text) => {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            print!("{text}{end}");
            ExitCode::SUCCESS
        }
        Err(error) if error.is::<Misused>() => {
            eprintln!("usage: {usage}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{}: {error:#}", usage.split(' ').next().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

/// The arguments are not those that the program takes.
#[derive(Clone, Copy, Debug)]
pub struct Misused;

impl fmt::Display for Misused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these are not its arguments")
    }
}

impl core::error::Error for Misused {}

/// An argument that is a number, or something else that is read from text.
///
/// # Errors
///
/// [`Misused`].
pub fn read<T: core::str::FromStr>(arg: &str) -> Result<T> {
    arg.parse().ok().context(Misused)
}

/// Extent of a program that counts instructions and measures times: `[--rounds N] [--uncounted]`.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Slices of each row.
    pub rounds: usize,
    /// Whether instructions are counted.
    pub is_counted: bool,
}

impl Scope {
    /// Reads it; there are so many `rounds` if nothing else is said.
    ///
    /// # Errors
    ///
    /// [`Misused`].
    pub fn read(args: &[&str], rounds: usize) -> Result<Self> {
        let mut scope = Self { rounds, is_counted: true };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--rounds" => scope.rounds = read(args.next().context(Misused)?)?,
                "--uncounted" => scope.is_counted = false,
                _ => return Err(Misused.into()),
            }
        }
        Ok(scope)
    }
}
