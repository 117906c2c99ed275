//! Writes man pages and completions below a folder: `cargo xtask man`.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "it talks to the person who started it")]

use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).context("usage: manual FOLDER")?;
    // The same source makes the same pages: https://reproducible-builds.org/specs/source-date-epoch/
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let epoch =
        epoch.map(|text| text.parse().context("SOURCE_DATE_EPOCH is no number of seconds")).transpose()?;
    let date = epoch.map(manual::date).unwrap_or_default();
    let count = manual::write(&folder, &date)?;
    println!("{count} files below {}", folder.display());
    Ok(())
}
