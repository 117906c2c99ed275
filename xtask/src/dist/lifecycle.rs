//! The package in a clean Debian under its systemd: installed, started, reloaded, killed, upgraded, removed, purged.
//!
//! The Debian is a folder that `mmdebstrap` fills. Its systemd runs as process 1 of namespaces of its own, with the folder as
//! root; commands run beside it.

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::deb::{self, Packages};
use super::{Release, write};
use crate::run::{follow, gist, has};
use crate::setup::{self, Needed};

const LIMIT: Duration = Duration::from_secs(600);
/// Within this systemd runs, and what is killed runs again.
const PATIENCE: Duration = Duration::from_secs(30);
const NEEDED: &[Needed] = &[
    Needed { program: "mmdebstrap", package: "mmdebstrap", why: "a clean Debian" },
    Needed { program: "unshare", package: "util-linux", why: "namespaces of its own" },
    Needed { program: "skopeo", package: "skopeo", why: "the OCI image, read by another" },
    Needed { program: "lintian", package: "lintian", why: "the package, read by another" },
];
/// A stack that needs no NIC.
const CONFIG: &str = "# kept\nthreads = 1\n\n[[interface]]\nname    = \"lan\"\ndevice  = \"tap:pt0\"\naddress = [\"10.9.0.1/24\"]\n";

/// Runs the package's whole life; answers whether all went as it should.
pub(super) fn run(release: &Release, packages: &Packages, folder: &Path) -> Result<bool> {
    setup::install(NEEDED)?;
    ensure!(setup::is_root(), "--try needs root");
    inspect(packages, folder)?;
    let debian = Debian::boot(release)?;
    let before = debian.files()?;
    install(&debian, release, packages)?;
    serve(&debian)?;
    upgrade(&debian, release)?;
    remove(&debian, &before)?;
    println!(
        "installed, started, reloaded, killed, upgraded with its configuration, removed, purged: nothing is left behind"
    );
    Ok(true)
}

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
            println!("skopeo reads the image:\n{}", indented(&said("skopeo", skopeo)?));
        }
    }
    Ok(())
}

/// What a package for the Debian archive must have, and this one has not: bugs that it closes, an address that takes mail.
const SUPPRESSED: &str = "initial-upload-closes-no-bugs,bogus-mail-host,unknown-section";

fn install(debian: &Debian, release: &Release, packages: &Packages) -> Result<()> {
    println!("installing");
    debian.install(&packages.pantala)?;
    ensure!(debian.says("pantala --version")?.contains(&release.version), "another version answers");
    debian.says("getent passwd pantala")?;
    for page in ["man8/pantala.8.gz", "man5/pantala.toml.5.gz", "man8/pantala-ipfw.8.gz"] {
        ensure!(debian.has(&format!("usr/share/man/{page}")), "{page} is missing");
    }
    let check =
        "for file in /usr/share/doc/pantala/examples/*.toml; do pantala check -c $file || exit 1; done";
    println!("  each example is a good configuration:\n{}", indented(&debian.says(check)?));
    ensure!(!debian.is_active("pantala.service")?, "it runs without a configuration");
    Ok(())
}

/// What the unit promises.
fn serve(debian: &Debian) -> Result<()> {
    println!("starting");
    write(&debian.config(), CONFIG.as_bytes(), 0o644)?;
    debian.says("systemctl enable --now pantala.service")?;
    println!("{}", indented(&debian.says("systemctl status --no-pager pantala.service")?));
    debian.shows("pantala ifconfig", "inet 10.9.0.1")?;
    let status =
        "grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' /proc/$(systemctl show -P MainPID pantala)/status";
    let status = debian.says(status)?;
    ensure!(status.contains("Seccomp:\t2") && !status.contains("Uid:\t0"), "its rights are:\n{status}");

    println!("started by its socket");
    debian.says("systemctl stop pantala.service && systemctl start pantala.socket")?;
    ensure!(!debian.is_active("pantala.service")?, "it runs before it is asked");
    debian.shows("pantala ifconfig", "inet 10.9.0.1")?;
    ensure!(debian.is_active("pantala.service")?, "it answered, and does not run");

    println!("reloaded with a mistake");
    write(&debian.config(), format!("{CONFIG}nonsense\n").as_bytes(), 0o644)?;
    ensure!(debian.says("systemctl reload pantala").is_err(), "a bad configuration was taken");
    debian.shows("systemctl show -P StatusText pantala", "not reloaded: /etc/pantala/pantala.toml:8:9")?;
    write(&debian.config(), CONFIG.as_bytes(), 0o644)?;
    debian.says("systemctl reload pantala")?;
    debian.shows("systemctl show -P StatusText pantala", "1 CPU, 1 interface")?;

    println!("killed");
    debian.says("kill -9 $(systemctl show -P MainPID pantala)")?;
    debian.shows_soon("systemctl show -P NRestarts pantala", "1")?;
    debian.shows_soon("systemctl show -P StatusText pantala", "1 CPU, 1 interface")
}

fn upgrade(debian: &Debian, release: &Release) -> Result<()> {
    println!("upgrading");
    let before = debian.says("systemctl show -P MainPID pantala")?;
    let next = deb::write_revision(release, "2", &release.work)?;
    debian.install(&next.pantala)?;
    debian.shows("dpkg-query -W pantala", "-2")?;
    let kept = fs::read_to_string(debian.config())?;
    ensure!(kept == CONFIG, "the configuration was changed:\n{kept}");
    ensure!(debian.is_active("pantala.service")?, "it does not run any more");
    ensure!(debian.says("systemctl show -P MainPID pantala")? != before, "the old program still runs");
    Ok(())
}

fn remove(debian: &Debian, before: &BTreeSet<String>) -> Result<()> {
    println!("removing");
    debian.says("dpkg --remove pantala")?;
    ensure!(!debian.has("usr/bin/pantala"), "the program is still there");
    ensure!(debian.config().exists(), "the configuration is gone");
    ensure!(debian.says("pgrep -x pantala").is_err(), "it still runs");
    debian.says("dpkg --purge pantala")?;
    let left: Vec<_> = debian.files()?.difference(before).cloned().collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

/// Runs a command; answers what it said, or fails with it.
fn said(name: &str, command: Command) -> Result<String> {
    let done = follow(&format!("dist-{name}"), command, LIMIT)?;
    ensure!(done.status.success(), "{name} failed:\n{}", gist(&done.log));
    Ok(fs::read_to_string(&done.log)?)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// A clean Debian, whose systemd runs until this is dropped.
struct Debian {
    root: PathBuf,
    /// `unshare`, whose child is process 1 there.
    outside: Child,
    init: String,
}

/// Becomes systemd with the folder `$0` as its root.
const BOOT: &str = r#"set -e
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount -t sysfs sysfs "$0/sys"
mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
mount -t tmpfs tmpfs "$0/run"
mkdir -p "$0/dev/net"
[ -e "$0/dev/net/tun" ] || mknod "$0/dev/net/tun" c 10 200
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$0" /lib/systemd/systemd --unit=multi-user.target"#;

impl Debian {
    fn boot(release: &Release) -> Result<Self> {
        println!("a clean Debian (mmdebstrap), booted");
        let root = release.work.join("debian");
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap
            .args(["--variant=apt", "--include=systemd,systemd-sysv,dbus,procps", "bookworm"])
            .arg(&root);
        said("mmdebstrap", mmdebstrap).context("there is no clean Debian to try the package in")?;
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup"]);
        unshare.args(["sh", "-c", BOOT]).arg(&root);
        let outside = unshare.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let children = format!("/proc/{0}/task/{0}/children", outside.id());
        let mut debian = Self { root, outside, init: String::new() };
        let begun = Instant::now();
        while debian.init.is_empty()
            || debian.says("systemctl is-system-running | grep -E 'running|degraded'").is_err()
        {
            ensure!(begun.elapsed() < PATIENCE, "systemd does not run there");
            thread::sleep(Duration::from_millis(200));
            debian.init = fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
        }
        Ok(debian)
    }

    /// Runs a line of shell there; answers what it said.
    fn says(&self, line: &str) -> Result<String> {
        let mut nsenter = Command::new("nsenter");
        nsenter.args([
            "--target", &self.init, "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "chroot",
        ]);
        nsenter.arg(&self.root).args(["env", "-i", "container=other", "DEBIAN_FRONTEND=noninteractive"]);
        nsenter.args(["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", line]);
        said("chroot", nsenter).with_context(|| line.to_owned())
    }

    /// Fails unless a line of shell says this.
    fn shows(&self, line: &str, what: &str) -> Result<()> {
        let said = self.says(line)?;
        if said.contains(what) { Ok(()) } else { bail!("`{line}` does not say {what}:\n{said}") }
    }

    fn shows_soon(&self, line: &str, what: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.shows(line, what) {
                Err(_) if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(200)),
                shown => return shown,
            }
        }
    }

    fn is_active(&self, unit: &str) -> Result<bool> {
        Ok(self.says(&format!("systemctl is-active {unit} || true"))?.trim_end() == "active")
    }

    fn install(&self, package: &Path) -> Result<()> {
        let name = package.file_name().context("a package without a name")?;
        fs::copy(package, self.root.join("root").join(name))?;
        let name = name.display();
        self.says(&format!("dpkg --install /root/{name} && rm /root/{name}")).map(drop)
    }

    fn config(&self) -> PathBuf {
        self.root.join("etc/pantala/pantala.toml")
    }

    fn has(&self, place: &str) -> bool {
        self.root.join(place).exists()
    }

    /// Files that a package could have left behind.
    fn files(&self) -> Result<BTreeSet<String>> {
        let list = self.says(
            "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /tmp \\) -prune -o -print; ls -d /run/pantala* || true",
        )?;
        // What dpkg and systemd themselves note, and copies of the users' lists, to which the package's user was added.
        const OTHERS: [&str; 8] = [
            "/var/lib/dpkg/",
            "/var/lib/systemd/",
            "/var/log/",
            "/var/cache/",
            "/var/tmp/",
            "/etc/passwd-",
            "/etc/group-",
            "/etc/.pwd.lock",
        ];
        let is_of_package = |line: &&str| {
            let is_shadow = line.starts_with("/etc/shadow") || line.starts_with("/etc/gshadow");
            line.starts_with('/') && !is_shadow && !OTHERS.iter().any(|other| line.starts_with(other))
        };
        Ok(list.lines().filter(is_of_package).map(str::to_owned).collect())
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        // Process 1 goes with it, and with process 1 all others.
        let _ = self.outside.kill();
        let _ = self.outside.wait();
    }
}
