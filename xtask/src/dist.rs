//! Packages: for Debian, as a static program, and as an OCI image; each with what it is made of.
//!
//! | module | what it is |
//! |---|---|
//! | [`deb`] | the Debian packages `pantala` and `pantala-dbgsym` |
//! | [`image`] | the OCI image layout |
//! | [`sbom`] | the list of components, as CycloneDX |
//! | [`lifecycle`] | the package in a clean Debian: installed, upgraded, removed, purged |

mod deb;
mod image;
mod lifecycle;
mod sbom;

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::args::Args;
use crate::manual;
use crate::run::{capture, cargo, follow, gist, root};
use crate::setup::{self, Needed};

/// Time for two release builds on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const MUSL: &str = "x86_64-unknown-linux-musl";

const NEEDED: &[Needed] = &[
    Needed { program: "dpkg-deb", package: "dpkg", why: "building the packages" },
    Needed { program: "objcopy", package: "binutils", why: "splitting off debug symbols" },
];

/// What all packages are made of.
struct Release {
    version: String,
    /// Seconds since 1970 of the commit: what packages say of their time.
    epoch: String,
    /// Programs and libraries, with their debug symbols.
    built: PathBuf,
    /// The manual, as [`manual::write`] lays it out.
    manual: PathBuf,
    /// A folder for trees that packages are made from.
    work: PathBuf,
}

/// `cargo xtask dist`
pub fn command(args: &mut Args) -> Result<bool> {
    let tries = args.flag("--try");
    let only_debian = args.flag("--only-debian");
    let folder = args.word().map_or_else(|| root().join("target/packages"), Into::into);
    args.finish()?;
    setup::install(NEEDED)?;
    let folder = std::path::absolute(folder)?;
    remake(&folder)?;
    let release = Release::build()?;
    let packages = deb::write(&release, &folder)?;
    if !only_debian {
        let program = static_program()?;
        archive(&release, &program, &folder)?;
        image::write_image(&release, &program, &folder)?;
    }
    sbom::write_components(&release.version, &folder)?;
    sums(&folder)?;
    list(&folder)?;
    if tries { lifecycle::run(&release, &packages, &folder) } else { Ok(true) }
}

impl Release {
    fn build() -> Result<Self> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"]).current_dir(root());
        let epoch = capture(git)?.trim().to_owned();
        println!("pantala {version}: the program and the library for unmodified programs");
        build("dist-build", &["--package", "pantala", "--package", "preload"])?;
        let work = root().join("target/dist-trees");
        remake(&work)?;
        println!("manual and completions");
        let manual = work.join("manual");
        manual::write(&manual)?;
        Ok(Self { version, epoch, built: root().join("target/dist"), manual, work })
    }
}

fn build(name: &str, args: &[&str]) -> Result<()> {
    let mut command = cargo(["build", "--profile", "dist", "--locked"]);
    command.args(args);
    let done = follow(name, command, BUILD_LIMIT)?;
    ensure!(done.status.success(), "pantala does not build:\n{}", gist(&done.log));
    Ok(())
}

/// Builds the program that needs no library.
fn static_program() -> Result<PathBuf> {
    println!("the static program ({MUSL})");
    let added = setup::succeeds(Command::new("rustup").args(["target", "add", MUSL]).current_dir(root()));
    ensure!(added, "no standard library for {MUSL}: rustup target add {MUSL}");
    build("dist-musl", &["--package", "pantala", "--target", MUSL])?;
    Ok(root().join("target").join(MUSL).join("dist/pantala"))
}

/// The static program, the manual and the licences as an archive.
fn archive(release: &Release, program: &Path, folder: &Path) -> Result<()> {
    let name = format!("pantala-{}-{MUSL}", release.version);
    let tree = release.work.join(&name);
    put(program, &tree.join("pantala"), 0o755)?;
    strip(&tree.join("pantala"))?;
    for text in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        put(&root().join(text), &tree.join(text), 0o644)?;
    }
    put(&root().join("packaging/pantala.service"), &tree.join("pantala.service"), 0o644)?;
    copy_tree(&release.manual, &tree)?;
    tar(release, &release.work, &name, &folder.join(format!("{name}.tar.gz")))
}

/// Writes a compressed archive of `what` below `folder`; the same tree makes the same archive.
fn tar(release: &Release, folder: &Path, what: &str, to: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=posix"]);
    tar.arg("--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime");
    tar.arg(format!("--mtime=@{}", release.epoch)).arg("--use-compress-program=gzip -n -9");
    tar.arg("-C").arg(folder).arg("-cf").arg(to).arg(what);
    capture(tar).map(drop)
}

/// Removes symbols that no program needs.
fn strip(file: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("--strip-unneeded").arg(file);
    capture(strip).map(drop)
}

/// Makes an empty folder.
fn remake(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// Copies a file to a place whose folders are made, with this mode.
fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| from.display().to_string())?;
    write(to, &bytes, mode)
}

fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::write(to, bytes).with_context(|| to.display().to_string())?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &to)?;
        } else {
            put(&entry.path(), &to, 0o644)?;
        }
    }
    Ok(())
}

/// All files below a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(self::files(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes `SHA256SUMS`, for `sha256sum --check`.
fn sums(folder: &Path) -> Result<()> {
    let mut text = String::new();
    for file in files(folder)? {
        let name = file.strip_prefix(folder).unwrap_or(&file).display();
        text += &format!("{}  {name}\n", sha256(&fs::read(&file)?));
    }
    write(&folder.join("SHA256SUMS"), text.as_bytes(), 0o644)
}

/// Shows what was made.
fn list(folder: &Path) -> Result<()> {
    println!("\n{}", folder.display());
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kib = if entry.file_type()?.is_dir() {
            files(&entry.path())?.iter().map(|file| Ok(fs::metadata(file)?.len())).sum::<Result<u64>>()?
                / 1024
        } else {
            entry.metadata()?.len() / 1024
        };
        println!("  {kib:>8} KiB  {}", entry.file_name().display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_that_of_sha256sum() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn sums_name_each_file_below_the_folder() {
        let folder = std::env::temp_dir().join(format!("pt-sums-{}", std::process::id()));
        write(&folder.join("b/c"), b"", 0o644).unwrap();
        write(&folder.join("a"), b"1", 0o644).unwrap();
        sums(&folder).unwrap();
        let text = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
        let names: Vec<_> = text.lines().filter_map(|line| line.split("  ").nth(1)).collect();
        assert_eq!(names, ["a", "b/c"]);
        fs::remove_dir_all(folder).unwrap();
    }
}
