//! The command line: words, `--flags`, and `--options` with a value.

use anyhow::{Context, Result};

/// The rest of the command line.
pub struct Args(Vec<String>);

/// Arguments that the command does not know.
#[derive(Debug)]
pub struct Unknown(Vec<String>);

impl core::fmt::Display for Unknown {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "what is `{}`? See `cargo xtask --help`", self.0.join(" "))
    }
}

impl core::error::Error for Unknown {}

impl Args {
    pub fn from_env() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// Takes the next word that is not an option.
    pub fn word(&mut self) -> Option<String> {
        let at = self.0.iter().position(|arg| !arg.starts_with('-'))?;
        Some(self.0.remove(at))
    }

    /// Takes the words that are `known`; others are left to be refused.
    pub fn words(&mut self, known: impl Fn(&str) -> bool) -> Vec<String> {
        self.0.extract_if(.., |arg| known(arg)).collect()
    }

    /// Takes a flag; whether it was there.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|arg| arg != name);
        self.0.len() < before
    }

    /// Takes an option and its number.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        Ok(Some(value.parse().with_context(|| format!("{name} wants a number, not `{value}`"))?))
    }

    /// Takes an option and its word.
    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.0.iter().position(|arg| arg == name) else { return Ok(None) };
        let value = self.0.drain(at..(at + 2).min(self.0.len())).nth(1);
        Ok(Some(value.with_context(|| format!("{name} wants a value"))?))
    }

    /// Refuses arguments that were not used.
    pub fn finish(&mut self) -> Result<()> {
        let rest = core::mem::take(&mut self.0);
        if rest.is_empty() { Ok(()) } else { Err(Unknown(rest).into()) }
    }
}
