//! Programs that the checks need, and their installation.

use core::time::Duration;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::run;

/// A program that checks use, the Debian package that brings it, and what for.
pub struct Needed {
    /// Its name, or its absolute path.
    pub program: &'static str,
    pub package: &'static str,
    pub why: &'static str,
}

const NEEDED: &[Needed] = &[
    Needed {
        program: "traceroute",
        package: "traceroute",
        why: "a Linux host's view of the path, end to end",
    },
    Needed {
        program: "tracepath",
        package: "iputils-tracepath",
        why: "errors of datagrams, as an unmodified program asks for them",
    },
    Needed { program: "dpdk-testpmd", package: "dpdk-dev", why: "DPDK at the other end of memif" },
    Needed { program: "radvd", package: "radvd", why: "a Linux router that advertises itself, end to end" },
    Needed { program: "rdisc6", package: "ndisc6", why: "router advertisements of ours, read by another" },
    Needed { program: "vtysh", package: "frr", why: "routes of FRR (20 MB installed)" },
    Needed { program: "bird", package: "bird2", why: "routes of BIRD, and a neighbour of FRR" },
    Needed { program: "udhcpc", package: "udhcpc", why: "a DHCP client of others" },
    Needed { program: "dhclient", package: "isc-dhcp-client", why: "another DHCP client" },
    Needed {
        program: "dhcpcd",
        package: "dhcpcd-base",
        why: "a third one, which reads router advertisements",
    },
    Needed { program: "dnsmasq", package: "dnsmasq-base", why: "a DHCP server of others" },
    Needed {
        program: "kea-dhcp6",
        package: "kea-dhcp6-server",
        why: "a DHCPv6 server that delegates prefixes",
    },
    Needed { program: "udhcpd", package: "udhcpd", why: "another DHCP server" },
    Needed { program: "nft", package: "nftables", why: "a Linux host that falls silent, end to end" },
    Needed { program: "tcpdump", package: "tcpdump", why: "what it selects and prints, beside our captures" },
    Needed {
        program: "tshark",
        package: "tshark",
        why: "frames of tunnels, dissected; captures that it starts",
    },
    Needed {
        program: "chromedriver",
        package: "chromium-driver",
        why: "the dashboard in a browser (400 MB installed)",
    },
    Needed { program: "iperf3", package: "iperf3", why: "throughput, with another at the other end" },
    Needed { program: "nfcapd", package: "nfdump", why: "a collector of flows" },
    Needed { program: "sfcapd", package: "nfdump-sflow", why: "a collector of samples" },
    Needed { program: "nginx", package: "nginx-light", why: "an unmodified program on pantala" },
    Needed { program: "haproxy", package: "haproxy", why: "another, before nginx" },
    Needed { program: "redis-server", package: "redis-server", why: "another" },
    Needed { program: "memcached", package: "memcached", why: "another, with threads" },
    Needed { program: "apache2", package: "apache2-bin", why: "a server that forks for its connections" },
    Needed {
        program: "/usr/share/postgresql-common/pg_wrapper",
        package: "postgresql",
        why: "another, and pgbench (60 MB installed)",
    },
    Needed { program: "sockperf", package: "sockperf", why: "ping-pong over UDP and TCP" },
    Needed { program: "caddy", package: "caddy", why: "a program of Go" },
    Needed { program: "go", package: "golang-go", why: "programs of Go of our own (500 MB installed)" },
    Needed { program: "gcc", package: "gcc", why: "a statically linked program" },
    Needed { program: "clang-14", package: "clang-14", why: "XDP programs of the tests, compiled again" },
    Needed { program: "mandoc", package: "mandoc", why: "man pages, read by another" },
    Needed { program: "zsh", package: "zsh", why: "its completions" },
    Needed { program: "fish", package: "fish", why: "its completions" },
    Needed { program: "valgrind", package: "valgrind", why: "instructions per packet" },
];

const UPDATE_LIMIT: Duration = Duration::from_secs(120);
const INSTALL_LIMIT: Duration = Duration::from_secs(300);

/// Installs what is missing, if this is Debian and we are root; says loudly what stays missing.
///
/// Nothing here fails: a check that misses something is skipped, and counts as skipped.
pub fn packages() -> Result<()> {
    println!("set-up: programs that the checks use");
    install(NEEDED)
}

/// Installs the missing ones of a list.
pub fn install(needed: &[Needed]) -> Result<()> {
    let missing: Vec<&Needed> = needed.iter().filter(|needed| !run::has(needed.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if run::has("apt-get") && is_root() {
        apt(&["update"], UPDATE_LIMIT)?;
        let names: Vec<&str> = missing.iter().map(|needed| needed.package).collect();
        let _none = NoServices::begin();
        apt(&[&["install", "--yes", "--no-install-recommends"], &*names].concat(), INSTALL_LIMIT)?;
    }
    for Needed { program, package, why } in missing.iter().filter(|needed| !run::has(needed.program)) {
        eprintln!("  MISSING: `{program}` ({why}); as root: apt-get install {package}");
    }
    Ok(())
}

/// Keeps packages that are installed from starting their services, as long as it lives: the checks start what they need
/// themselves, in network namespaces. A policy of the machine's own stays as it is.
struct NoServices(Option<&'static Path>);

impl NoServices {
    fn begin() -> Self {
        // What `invoke-rc.d` asks; 101 forbids.
        let policy = Path::new("/usr/sbin/policy-rc.d");
        let is_ours = !policy.exists()
            && std::fs::write(policy, "#!/bin/sh\nexit 101\n").is_ok()
            && std::fs::set_permissions(policy, Permissions::from_mode(0o755)).is_ok();
        Self(is_ours.then_some(policy))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = self.0 {
            // It may be gone already.
            let _ = std::fs::remove_file(policy);
        }
    }
}

fn apt(args: &[&str], limit: Duration) -> Result<()> {
    eprintln!("  apt-get {}", args.join(" "));
    let mut command = Command::new("apt-get");
    command.args(["--quiet"]).args(args).env("DEBIAN_FRONTEND", "noninteractive");
    let done = run::follow("apt-get", command, limit)?;
    if !done.status.success() {
        eprintln!("  apt-get failed:\n{}", run::gist(&done.log));
    }
    Ok(())
}

/// Whether this process may do what root may.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    uids.split_whitespace().nth(1) == Some("0")
}

/// A nightly toolchain with miri, installed if rustup can. `None`: why not.
pub fn miri() -> Result<(), &'static str> {
    if !run::has("rustup") {
        return Err("no rustup");
    }
    if has_miri() {
        return Ok(());
    }
    println!("  rustup: installing a nightly toolchain with miri");
    let mut rustup = Command::new("rustup");
    rustup.args(["toolchain", "install", "nightly", "--profile", "minimal"]);
    rustup.args(["--component", "miri", "--component", "rust-src"]);
    let _ = run::follow("rustup", rustup, INSTALL_LIMIT);
    if has_miri() { Ok(()) } else { Err("no nightly toolchain with miri") }
}

/// Whether there is a nightly toolchain.
pub fn has_nightly() -> bool {
    run::has("rustup") && succeeds(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]))
}

fn has_miri() -> bool {
    succeeds(Command::new("rustup").args(["run", "nightly", "cargo", "miri", "--version"]))
}

/// Whether a quick question is answered with yes.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
