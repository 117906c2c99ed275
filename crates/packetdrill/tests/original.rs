//! The original packetdrill, if `PACKETDRILL` says where it is, runs scripts of ours against the shared object.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its files fails")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use drill::script::IpVersion;
use sim::drill::{Setup, run};

const VERSIONS: [(&str, IpVersion); 2] = [("ipv4", IpVersion::Ipv4), ("ipv6", IpVersion::Ipv6)];

/// The scripts. Both interpreters know all that stands in them.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are scripts");
    paths
}

#[test]
fn our_own_interpreter_passes_the_scripts_that_the_original_is_given() {
    for path in scripts() {
        let text = std::fs::read_to_string(&path).unwrap();
        let script = drill::parse(&path.display().to_string(), &text, &[])
            .unwrap_or_else(|errors| panic!("{}", errors[0]));
        // The longest segment that the scripts expect is that of IPv4.
        for (_, version) in VERSIONS {
            if let Err(failure) = run(&script, &Setup { version, ..Setup::default() }) {
                panic!("{}:{failure}", path.display());
            }
        }
    }
}

#[test]
fn the_original_passes_them_with_the_shared_object() {
    let Some(original) = std::env::var_os("PACKETDRILL") else {
        let why = "PACKETDRILL does not say where the original packetdrill is";
        let _ = writeln!(std::io::stderr(), "SKIPPED: scripts run by the original: {why}");
        return;
    };
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libpantala_packetdrill.so");
    for path in scripts() {
        for (name, version) in VERSIONS {
            // Links of IPv6 are wider, so that its segments are as long.
            let mtu = if version == IpVersion::Ipv6 { 1520 } else { 1500 };
            let output = Command::new(&original)
                .env("LD_PRELOAD", &library)
                .arg(format!("--so_filename={}", library.display()))
                .arg(format!("--so_flags=mtu={mtu}"))
                .args([format!("--ip_version={name}"), format!("--mtu={mtu}")])
                .arg(&path)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} with {name}: {said}", path.display());
        }
    }
}
