//! Clippy and rustdoc while the tests are built, so that nothing is compiled once more for them.
//!
//! A copy of this program stands [in the place of the compiler](cargo): cargo starts it for each crate of the workspace. It starts clippy's
//! driver, which compiles what it has looked at, and beside it rustdoc. Their warnings are those of the crate: cargo prints them, and
//! prints them again when there is nothing to build.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::report::Row;
use crate::run::{self, Finished};
use crate::tally::Tally;

/// Name of the copy.
const NAME: &str = "rustc-clippy-rustdoc";
/// The variable that says where the toolchain's programs are.
const TOOLS: &str = "PANTALA_TOOLS";
/// The variable that says where pages are written.
const PAGES: &str = "PANTALA_PAGES";

/// Returns cargo, in the project's top directory, which builds crates of the workspace as those of the tests are built. Others would be
/// other crates, to be built once more.
///
/// # Errors
///
/// There is no compiler, or no room for the copy.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<Command> {
    let mut command = run::cargo(args);
    let mut sysroot = Command::new("rustc");
    sysroot.args(["--print", "sysroot"]).current_dir(run::root());
    let tools = Path::new(run::capture(sysroot)?.trim()).join("bin");
    let folder = run::root().join("target/xtask");
    command.env("RUSTC_WORKSPACE_WRAPPER", copy(&folder)?).env(TOOLS, tools).env(PAGES, folder.join("doc"));
    Ok(command)
}

/// The copy. The file that this program was started from is replaced by what is built.
fn copy(folder: &Path) -> Result<PathBuf> {
    let own = format!("{NAME}.{}.{:?}", std::process::id(), std::thread::current().id());
    let (name, new) = (folder.join(NAME), folder.join(own));
    std::fs::create_dir_all(folder)?;
    std::fs::copy("/proc/self/exe", &new).with_context(|| new.display().to_string())?;
    std::fs::rename(&new, &name)?;
    Ok(name)
}

/// The row of a build: passed if nothing was warned of.
pub fn row(built: &Finished) -> Row {
    let text = std::fs::read_to_string(&built.log).unwrap_or_default();
    let crates: Vec<&str> = text.lines().filter_map(warned).collect();
    let passed = crates.is_empty() && built.status.success();
    if !passed {
        eprintln!("{}\n  all of it: {}", gist(&text), built.log.display());
    }
    let note = if crates.is_empty() { String::new() } else { format!("warnings: {}", crates.join(", ")) };
    let tally = if passed { Tally::PASSED } else { Tally::FAILED };
    Row { check: "clippy, docs".into(), tally, elapsed: built.elapsed, note }
}

/// The crate that a line of cargo's says warnings of.
fn warned(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("warning: `")?.split_once("` (")?;
    rest.contains(") generated ").then_some(name)
}

/// The lines from the first warning or error on, as many as are worth reading.
fn gist(text: &str) -> String {
    let is_news = |line: &&str| line.starts_with("warning") || line.starts_with("error");
    let lines: Vec<&str> = text.lines().skip_while(|line| !is_news(line)).take(run::GIST_LINES).collect();
    lines.join("\n")
}

/// Does what the compiler would do, if this program was started in its place.
pub fn in_place_of_the_compiler() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let own = PathBuf::from(args.next()?);
    (own.file_name()? == NAME).then(|| {
        compile(&args.collect::<Vec<_>>()).unwrap_or_else(|error| {
            eprintln!("{NAME}: {error:#}");
            ExitCode::FAILURE
        })
    })
}

/// Compiles a crate: `args` are the compiler, and what it is told.
fn compile(args: &[OsString]) -> Result<ExitCode> {
    let tools = PathBuf::from(std::env::var_os(TOOLS).context(TOOLS)?);
    let pages = std::env::var_os(PAGES).context(PAGES)?;
    let documents = documents(args, &pages).map(|args| document(&tools, &args)).transpose()?;
    let compiled = Command::new(tools.join("clippy-driver")).args(args).status()?;
    let documented = documents.map(Child::wait_with_output).transpose()?;
    if let Some(output) = &documented {
        std::io::stderr().write_all(&output.stderr)?;
    }
    let is_well = compiled.success() && documented.is_none_or(|output| output.status.success());
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn document(tools: &Path, args: &[OsString]) -> Result<Child> {
    let mut rustdoc = Command::new(tools.join("rustdoc"));
    rustdoc.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(rustdoc.spawn()?)
}

/// Returns what rustdoc is to be told, where the compiler is told `args`; `None` if it is not a library or a program, but a test of it.
fn documents(args: &[OsString], pages: &OsStr) -> Option<Vec<OsString>> {
    let is_root = |arg: &OsString| {
        let path = Path::new(arg);
        path.ends_with("src/lib.rs")
            || path.ends_with("src/main.rs")
            || path.extension().is_some_and(|kind| kind == "rs")
                && path.parent().is_some_and(|folder| folder.ends_with("src/bin"))
    };
    if !args.iter().any(is_root) || args.iter().any(|arg| arg == "--test") {
        return None;
    }
    let mut told = Vec::new();
    let mut args = args.iter().skip(1);
    while let Some(arg) = args.next() {
        if arg == "-C" || arg == "--out-dir" {
            args.next();
        } else if !arg.as_encoded_bytes().starts_with(b"--emit") {
            told.push(arg.clone());
        }
    }
    // For developers: modules link to private items.
    told.extend(
        ["--document-private-items", "-A", "rustdoc::private-intra-doc-links", "-o"].map(OsString::from),
    );
    told.push(pages.to_owned());
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &str) -> Option<String> {
        let args: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let told = documents(&args, OsStr::new("pages"))?;
        Some(told.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn libraries_and_programs_are_documented_and_tests_of_them_are_not() {
        let more = "--document-private-items -A rustdoc::private-intra-doc-links -o pages";
        assert_eq!(
            told(
                "rustc --crate-name net crates/net/src/lib.rs --emit=dep-info,link -C opt-level=1 --cfg a --out-dir o"
            ),
            Some(format!("--crate-name net crates/net/src/lib.rs --cfg a {more}"))
        );
        assert!(
            told("rustc crates/sim/src/bin/worlds.rs").is_some() && told("rustc xtask/src/main.rs").is_some()
        );
        for other in
            ["crates/net/src/lib.rs --test", "crates/dev/build.rs", "crates/p/tests/e2e/main.rs", "-vV"]
        {
            assert_eq!(told(&format!("rustc {other}")), None, "{other}");
        }
    }

    #[test]
    fn a_crate_with_warnings_is_named() {
        for (line, expected) in [
            ("warning: `net` (lib) generated 2 warnings", Some("net")),
            ("warning: `pantala` (test \"e2e\") generated 1 warning (1 duplicate)", Some("pantala")),
            ("warning: unused variable: `generated`", None),
            ("   Compiling net v0.1.0", None),
        ] {
            assert_eq!(warned(line), expected, "{line}");
        }
    }
}
