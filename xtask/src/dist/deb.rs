//! The Debian packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Release, files, put, strip, write as write_file};
use crate::run::{capture, root};

const LIBRARY: &str = "libpantala_preload.so";
const MAINTAINER: &str = "the pantala developers <maintainers@pantala.invalid>";
const DESCRIPTION: &str = "network stack in user space: router, firewall, host, laboratory
 pantala forwards packets, filters them in the language of ipfw, translates
 addresses, terminates TCP and UDP, and serves programs, without a kernel
 module. One CPU owns a packet's whole way; there is no lock in it. Devices
 are AF_XDP sockets of any NIC, TAP, memif and others. It also generates
 traffic, runs packetdrill scripts and simulates networks.";

/// Both packages, at this revision.
pub(super) struct Packages {
    pub(super) pantala: PathBuf,
    pub(super) symbols: PathBuf,
}

/// Builds both packages into `folder`.
pub(super) fn write_revision(release: &Release, revision: &str, folder: &Path) -> Result<Packages> {
    let tree = release.work.join(format!("deb{revision}"));
    let symbols = release.work.join(format!("deb-dbgsym{revision}"));
    programs(release, &tree, &symbols)?;
    let version = format!("{}-{revision}", release.version);
    documents(release, &tree)?;
    for (name, tree) in [("pantala", &tree), ("pantala-dbgsym", &symbols)] {
        let doc = tree.join("usr/share/doc").join(name);
        changes(release, &version, &doc)?;
        write_file(&doc.join("copyright"), copyright()?.as_bytes(), 0o644)?;
    }
    let architecture = capture({
        let mut dpkg = Command::new("dpkg");
        dpkg.arg("--print-architecture");
        dpkg
    })?;
    let architecture = architecture.trim();
    let depends = depends(&tree.join("usr/bin/pantala"))?;
    let about = format!(
        "Depends: {depends}\nRecommends: tcpdump, libpcap0.8\nSuggests: pantala-dbgsym\nSection: net\nPriority: optional\n\
         Description: {DESCRIPTION}\n"
    );
    let control = |name: &str, about: &str| {
        format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n\
             Maintainer: {MAINTAINER}\n{about}"
        )
    };
    for script in ["postinst", "prerm", "postrm"] {
        put(&root().join("packaging/debian").join(script), &tree.join("DEBIAN").join(script), 0o755)?;
    }
    let of_symbols = format!(
        "Depends: pantala (= {version})\nSection: debug\nPriority: optional\nDescription: debug symbols for pantala\n"
    );
    Ok(Packages {
        pantala: package(release, &tree, &control("pantala", &about), folder)?,
        symbols: package(release, &symbols, &control("pantala-dbgsym", &of_symbols), folder)?,
    })
}

/// Builds both packages into `folder`.
pub(super) fn write(release: &Release, folder: &Path) -> Result<Packages> {
    println!("Debian packages");
    write_revision(release, "1", folder)
}

/// Puts programs and libraries into the tree, and their symbols into the other one.
fn programs(release: &Release, tree: &Path, symbols: &Path) -> Result<()> {
    let places =
        [("pantala", "usr/bin/pantala", 0o755), (LIBRARY, "usr/lib/pantala/libpantala_preload.so", 0o644)];
    for (name, place, mode) in places {
        let place = tree.join(place);
        put(&release.built.join(name), &place, mode)?;
        let id = build_id(&place)?;
        let (first, rest) = id.split_at(2);
        let debug = symbols.join(format!("usr/lib/debug/.build-id/{first}/{rest}.debug"));
        fs::create_dir_all(debug.parent().unwrap_or(&debug))?;
        let mut objcopy = Command::new("objcopy");
        objcopy.arg("--only-keep-debug").arg("--compress-debug-sections").arg(&place).arg(&debug);
        capture(objcopy)?;
        strip(&place)?;
    }
    Ok(())
}

fn build_id(file: &Path) -> Result<String> {
    let mut readelf = Command::new("readelf");
    readelf.arg("--notes").arg(file);
    let said = capture(readelf)?;
    let id = said.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    let id = id.with_context(|| format!("{} has no build ID", file.display()))?;
    ensure!(id.len() > 2, "{}: the build ID is {id}", file.display());
    Ok(id.to_owned())
}

/// The changes of the packaging, which are those of the release.
fn changes(release: &Release, version: &str, doc: &Path) -> Result<()> {
    let mut date = Command::new("date");
    date.args(["-R", "-u", "-d", &format!("@{}", release.epoch)]).env("LC_ALL", "C");
    let date = capture(date)?;
    let text = format!(
        "pantala ({version}) unstable; urgency=medium\n\n  * The changes are in changelog.gz.\n\n -- {MAINTAINER}  {date}"
    );
    let file = doc.join("changelog.Debian");
    write_file(&file, text.as_bytes(), 0o644)?;
    gzip(&file)
}

/// The newest version of glibc that a program asks for.
fn depends(program: &Path) -> Result<String> {
    let mut objdump = Command::new("objdump");
    objdump.arg("--private-headers").arg(program);
    let said = capture(objdump)?;
    let newest = newest_glibc(&said).context("it needs no glibc")?;
    Ok(format!("libc6 (>= {}.{}), libgcc-s1", newest.0, newest.1))
}

fn newest_glibc(headers: &str) -> Option<(u32, u32)> {
    let versions = headers.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    let number = |version: &str| {
        let mut parts = version.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    versions.filter_map(number).max()
}

/// Puts units, the manual, completions, examples and the papers of a package into the tree.
fn documents(release: &Release, tree: &Path) -> Result<()> {
    let packaging = root().join("packaging");
    for unit in ["pantala.service", "pantala.socket"] {
        put(&packaging.join(unit), &tree.join("lib/systemd/system").join(unit), 0o644)?;
    }
    put(&packaging.join("pantala.sysusers"), &tree.join("usr/lib/sysusers.d/pantala.conf"), 0o644)?;
    for page in files(&release.manual.join("man"))? {
        let place = page.strip_prefix(&release.manual).unwrap_or(&page);
        let place = tree.join("usr/share").join(place);
        put(&page, &place, 0o644)?;
        gzip(&place)?;
    }
    let completions = release.manual.join("completions");
    for (file, place) in [
        ("pantala.bash", "usr/share/bash-completion/completions/pantala"),
        ("_pantala", "usr/share/zsh/vendor-completions/_pantala"),
        ("pantala.fish", "usr/share/fish/vendor_completions.d/pantala.fish"),
    ] {
        put(&completions.join(file), &tree.join(place), 0o644)?;
    }
    let doc = tree.join("usr/share/doc/pantala");
    put(&root().join("README.md"), &doc.join("README.md"), 0o644)?;
    put(&root().join("CHANGELOG.md"), &doc.join("changelog"), 0o644)?;
    gzip(&doc.join("changelog"))?;
    for (name, text) in examples()? {
        write_file(&doc.join("examples").join(name), text.as_bytes(), 0o644)?;
    }
    for file in ["alerts.yaml", "grafana.json"] {
        put(&root().join("docs/guide/monitoring").join(file), &doc.join("examples").join(file), 0o644)?;
    }
    Ok(())
}

fn gzip(file: &Path) -> Result<()> {
    let mut gzip = Command::new("gzip");
    gzip.args(["-n", "-9", "-f"]).arg(file);
    capture(gzip).map(drop)
}

/// In the machine-readable form of Debian, with the text of the licence that is not on every Debian.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT"))?;
    let mut text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: pantala\n\n\
                    Files: *\nCopyright: 2026 The pantala developers\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n"
        .to_owned();
    for line in mit.lines().skip_while(|line| !line.starts_with("Permission")) {
        text += &if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") };
    }
    text += "\nLicense: Apache-2.0\n On Debian systems, the licence is in /usr/share/common-licenses/Apache-2.0.\n";
    Ok(text)
}

/// The configurations of the guides, each a file, and the rules that they name.
fn examples() -> Result<Vec<(String, String)>> {
    let mut examples = Vec::new();
    for guide in files(&root().join("docs/guide"))? {
        if guide.extension().is_some_and(|extension| extension == "md") {
            let stem = guide.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
            examples.extend(examples_of(&stem.unwrap_or_default(), &fs::read_to_string(&guide)?));
        }
    }
    Ok(examples)
}

fn examples_of(stem: &str, guide: &str) -> Vec<(String, String)> {
    let (mut examples, mut count, mut rules) = (Vec::new(), 0, None);
    for (language, block) in blocks(guide) {
        if language == "toml" && block.contains("[[interface]]") {
            count += 1;
            let number = if count == 1 { String::new() } else { format!("-{count}") };
            rules = block
                .lines()
                .find_map(|line| line.strip_prefix("rules = "))
                .map(|name| name.replace('"', ""));
            examples.push((format!("{stem}{number}.toml"), block));
        } else if language == "ipfw" {
            // The rules follow the configuration that names them.
            examples.extend(rules.take().map(|name| (name, block)));
        }
    }
    examples
}

/// The blocks of a page, with their languages.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(language) = lines.find_map(|line| line.strip_prefix("```")) {
        let block = lines.by_ref().take_while(|line| *line != "```");
        blocks.push((language, block.map(|line| format!("{line}\n")).collect()));
    }
    blocks
}

/// Makes a package of a tree.
fn package(release: &Release, tree: &Path, control: &str, folder: &Path) -> Result<PathBuf> {
    let (mut sums, mut bytes) = (String::new(), 0);
    for file in files(tree)?.iter().filter(|file| !file.starts_with(tree.join("DEBIAN"))) {
        let name = file.strip_prefix(tree).unwrap_or(file);
        let content = fs::read(file)?;
        bytes += content.len();
        sums += &format!("{:x}  {}\n", md5::compute(&content), name.display());
    }
    let (before, description) = control.split_once("Description:").unwrap_or((control, ""));
    let control = format!("{before}Installed-Size: {}\nDescription:{description}", bytes.div_ceil(1024));
    write_file(&tree.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    write_file(&tree.join("DEBIAN/md5sums"), sums.as_bytes(), 0o644)?;
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", &release.epoch);
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(tree).arg(folder);
    let said = capture(build)?;
    // dpkg-deb: building package 'pantala' in '…/pantala_0.1.0-1_amd64.deb'.
    let file = said.trim().rsplit('\'').nth(1).context("dpkg-deb does not say what it has made")?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_the_one_that_is_needed() {
        let headers = "  Version References:\n required from libc.so.6:\n 0x0d696918 0x00 05 GLIBC_2.8\n GLIBC_2.34 GLIBC_2.4";
        assert_eq!(newest_glibc(headers), Some((2, 34)));
        assert_eq!(newest_glibc("NEEDED libc.so"), None);
    }

    #[test]
    fn the_guides_have_examples() {
        let examples = examples().unwrap();
        let names: Vec<_> = examples.iter().map(|(name, _)| &**name).collect();
        assert!(names.contains(&"office-gateway.toml") && names.contains(&"office.ipfw"), "{names:?}");
    }

    #[test]
    fn the_rules_that_a_configuration_names_are_those_behind_it() {
        let text = "a\n```toml\n[[interface]]\nrules = \"r\"\n```\n```sh\nc\n```\n```ipfw\nadd 1\n```\n```ipfw\nadd 2\n```\n";
        let files = examples_of("x", text);
        let files: Vec<_> = files.iter().map(|(name, block)| (&**name, &**block)).collect();
        assert_eq!(files, [("x.toml", "[[interface]]\nrules = \"r\"\n"), ("r", "add 1\n")]);
    }
}
