//! The package in a clean Debian: installed, started, upgraded, removed, purged.
//!
//! The Debian is a folder that `mmdebstrap` fills; commands run there by chroot(8), in a network namespace of their own.

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::deb::{self, Packages};
use super::{Release, write};
use crate::run::{follow, gist, has};
use crate::setup::{self, Needed};

const LIMIT: Duration = Duration::from_secs(600);
const NEEDED: &[Needed] = &[
    Needed { program: "mmdebstrap", package: "mmdebstrap", why: "a clean Debian" },
    Needed { program: "unshare", package: "util-linux", why: "a network of its own" },
    Needed { program: "skopeo", package: "skopeo", why: "the OCI image, read by another" },
    Needed { program: "lintian", package: "lintian", why: "the package, read by another" },
];
/// A stack that needs no NIC.
const CONFIG: &str = "# kept\nthreads = 1\n\n[[interface]]\nname    = \"lan\"\ndevice  = \"memif:/run/pantala/lan.sock\"\naddress = [\"10.9.0.1/24\"]\n";

/// Runs the package's whole life; answers whether all went as it should.
pub(super) fn run(release: &Release, packages: &Packages, folder: &Path) -> Result<bool> {
    setup::install(NEEDED)?;
    ensure!(setup::is_root(), "--try needs root");
    inspect(packages, folder)?;
    let debian = Debian::new(release)?;
    let before = debian.files()?;
    println!("installing");
    debian.install(&packages.pantala)?;
    ensure!(debian.says("pantala --version")?.contains(&release.version), "another version answers");
    debian.says("getent passwd pantala")?;
    for page in ["man8/pantala.8.gz", "man5/pantala.toml.5.gz", "man8/pantala-ipfw.8.gz"] {
        ensure!(debian.has(&format!("usr/share/man/{page}")), "{page} is missing");
    }
    let examples = debian.says(
        "for file in /usr/share/doc/pantala/examples/*.toml; do pantala check -c $file || exit 1; done",
    )?;
    println!("  each example is a good configuration:\n{}", indented(&examples));
    println!("starting");
    write(&debian.root.join("etc/pantala/pantala.toml"), CONFIG.as_bytes(), 0o644)?;
    let shown = debian.says(START)?;
    ensure!(shown.contains("10.9.0.1"), "it does not run:\n{shown}");
    println!("upgrading");
    let next = deb::write_revision(release, "2", &release.work)?;
    debian.install(&next.pantala)?;
    ensure!(
        debian.says("dpkg-query -W -f '${Version}' pantala")?.trim_end().ends_with("-2"),
        "it is not the new one"
    );
    let kept = fs::read_to_string(debian.root.join("etc/pantala/pantala.toml"))?;
    ensure!(kept == CONFIG, "the configuration was changed:\n{kept}");
    println!("removing");
    debian.says("dpkg --remove pantala")?;
    ensure!(!debian.has("usr/bin/pantala"), "the program is still there");
    ensure!(debian.has("etc/pantala/pantala.toml"), "the configuration is gone");
    debian.says("dpkg --purge pantala")?;
    let left: Vec<_> = debian.files()?.difference(&before).cloned().collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    println!("installed, started, upgraded with its configuration, removed, purged: nothing is left behind");
    Ok(true)
}

/// Starts it as the user of its unit would, asks it, and ends it.
const START: &str = "pantala up -c /etc/pantala/pantala.toml & pid=$!; \
                     for try in $(seq 100); do pantala ifconfig && break; sleep 0.1; done; kill $pid; wait $pid";

/// Other programs read what was made.
fn inspect(packages: &Packages, folder: &Path) -> Result<()> {
    for package in [&packages.pantala, &packages.symbols] {
        if has("lintian") {
            let mut lintian = Command::new("lintian");
            lintian.args(["--allow-root", "--fail-on", "error", "--suppress-tags", SUPPRESSED]).arg(package);
            said("lintian", lintian)?;
        }
    }
    for layout in fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path()) {
        if layout.extension().is_some_and(|extension| extension == "oci") && has("skopeo") {
            let mut skopeo = Command::new("skopeo");
            skopeo.arg("inspect").arg(format!("oci:{}", layout.display()));
            println!("  skopeo reads the image:\n{}", indented(&said("skopeo", skopeo)?));
        }
    }
    Ok(())
}

/// What a package for the Debian archive must have, and this one has not: bugs that it closes, an address that takes mail.
const SUPPRESSED: &str = "initial-upload-closes-no-bugs,bogus-mail-host,unknown-section";

/// Runs a command; answers what it said, or fails with it.
fn said(name: &str, command: Command) -> Result<String> {
    let done = follow(&format!("dist-{name}"), command, LIMIT)?;
    ensure!(done.status.success(), "{name} failed:\n{}", gist(&done.log));
    Ok(fs::read_to_string(&done.log)?)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// A clean Debian.
struct Debian {
    root: PathBuf,
}

impl Debian {
    fn new(release: &Release) -> Result<Self> {
        println!("a clean Debian (mmdebstrap)");
        let root = release.work.join("debian");
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--variant=apt", "bookworm"]).arg(&root);
        said("mmdebstrap", mmdebstrap).context("there is no clean Debian to try the package in")?;
        Ok(Self { root })
    }

    /// Runs a line of shell there; answers what it said.
    fn says(&self, line: &str) -> Result<String> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        unshare.arg(format!("--root={}", self.root.display())).args(["/bin/sh", "-c", line]);
        unshare
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive");
        said("chroot", unshare).with_context(|| line.to_owned())
    }

    fn install(&self, package: &Path) -> Result<()> {
        let name = package.file_name().context("a package without a name")?;
        fs::copy(package, self.root.join("tmp").join(name))?;
        let name = name.display();
        self.says(&format!("dpkg --install /tmp/{name} && rm /tmp/{name}")).map(drop)
    }

    fn has(&self, place: &str) -> bool {
        self.root.join(place).exists()
    }

    /// Files that a package could have left behind.
    fn files(&self) -> Result<BTreeSet<String>> {
        let list = self.says(
            "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /tmp \\) -prune -o -print",
        )?;
        // What dpkg itself notes, and the users' lists, to which the package's user was added and stays.
        const OTHERS: [&str; 5] =
            ["/var/lib/dpkg/", "/var/log/", "/etc/passwd-", "/etc/group-", "/var/cache/"];
        let is_of_package = |line: &&str| !OTHERS.iter().any(|other| line.starts_with(other));
        Ok(list.lines().filter(is_of_package).map(str::to_owned).collect())
    }
}
