//! Small programs of our own upon DPDK's libraries: `bench/peers/*.c`.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run::{self, capture, root};

const BUILD_LIMIT: Duration = Duration::from_secs(120);

/// Builds `bench/peers/NAME.c` for this processor, and answers where the program is.
///
/// # Errors
///
/// When the compiler or the libraries are missing.
pub fn program(name: &str) -> Result<PathBuf> {
    let source = root().join("bench/peers").join(name).with_extension("c");
    let program = root().join("target/peers").join(name);
    compile(&program, &root(), &[&source], &[], &["-march=native"])?;
    Ok(program)
}

/// Compiles and links against DPDK, unless `program` is made of just that already. Sources and headers are read in `dir`.
pub fn compile(
    program: &Path,
    dir: &Path,
    sources: &[&Path],
    headers: &[&Path],
    flags: &[&str],
) -> Result<()> {
    let version = capture(pkg_config("--modversion")).context("no libdpdk: apt-get install dpdk-dev")?;
    let stamp = program.with_extension("made-of");
    let texts: Vec<String> = sources
        .iter()
        .chain(headers)
        .map(|file| fs::read_to_string(dir.join(file)))
        .collect::<Result<_, _>>()?;
    let recipe = format!("{version}{flags:?}\n{}", texts.concat());
    if fs::read_to_string(&stamp).is_ok_and(|made_of| made_of == recipe) {
        return Ok(());
    }
    eprintln!("  building {} upon DPDK {}", program.display(), version.trim());
    let mut gcc = Command::new("gcc");
    gcc.arg("-O3").args(words(&capture(pkg_config("--cflags"))?));
    // Ours come last and win: Debian's flags name the oldest processor.
    gcc.args(flags).args(sources).arg("-o").arg(program).args(words(&capture(pkg_config("--libs"))?));
    gcc.current_dir(dir);
    let done = run::follow("peers-gcc", gcc, BUILD_LIMIT)?;
    ensure!(done.status.success(), "{} does not build:\n{}", program.display(), run::gist(&done.log));
    fs::write(stamp, recipe)?;
    Ok(())
}

fn pkg_config(what: &str) -> Command {
    let mut command = Command::new("pkg-config");
    command.args([what, "libdpdk"]);
    command
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}
