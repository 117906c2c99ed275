//! Man pages and completions, written by the crate `manual`.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::args::Args;
use crate::run::{cargo, root};

/// `cargo xtask man`
pub fn command(args: &mut Args) -> Result<bool> {
    let folder = args.word().map_or_else(|| root().join("target/man"), Into::into);
    args.finish()?;
    write(&std::path::absolute(folder)?)?;
    Ok(true)
}

/// Writes the manual below `folder`.
pub fn write(folder: &Path) -> Result<()> {
    let status = cargo(["run", "--quiet", "--package", "manual", "--"]).arg(folder).status()?;
    ensure!(status.success(), "the manual cannot be written");
    Ok(())
}
