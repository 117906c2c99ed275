//! The original packetdrill, if `PACKETDRILL` says where it is, runs scripts against the shared object: ours, and those of
//! the folders that `DRILL_SCRIPTS` names.
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use drill::script::IpVersion;
use sim::drill::{Setup, run};

/// Which addresses a script is run with, and the link's MTU: those of IPv6 are wider, so that segments are as long.
const LINKS: [(&str, u16); 3] = [("ipv4", 1500), ("ipv6", 1520), ("ipv4-mapped-ipv6", 1500)];
/// Wall-clock seconds after which a script that has not ended is killed.
const KILLED_AFTER: &str = "60";

/// Scripts of `sim` that the original can read, but not pass, and what it says: it is older, or knows another dialect.
const OTHERWISE: &[(&str, &str)] = &[
    // It has no such names.
    ("client/data.pkt", "TCPI_ESTABLISHED"),
    ("server/class-ipv4.pkt", "IPTOS_DSCP_CS1"),
    ("server/data.pkt", "Unknown system call"),
    ("server/urgent.pkt", "SIOCATMARK"),
    // It takes ECT(0) for 1 in what it expects; that is ECT(1) (RFC 3168 §5).
    ("client/probes.pkt", "ip_ecn"),
    ("server/linux.pkt", "ip_ecn"),
    // It waits for a call no longer than a wall-clock second.
    ("client/silence.pkt", "blocking system call is in progress"),
    // Without a socket there is no connection for it, nor one that is counted from another number.
    ("closed/echo.pkt", "no matching socket"),
    ("closed/rst.pkt", "tcp_ack_seq"),
    ("closed/syn.pkt", "tcp_ack_seq"),
    // It asks the connection that a reset seems to begin, and not the listener.
    ("listen/asked.pkt", "can't find getsockopt"),
    // Segments that follow each other are not one for it.
    ("server/linux-segments.pkt", "ipv4_total_length"),
];

fn scripts(folder: &str) -> Vec<PathBuf> {
    below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
}

/// The scripts of a folder and of those in it.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            paths.extend(below(&path));
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            paths.push(path);
        }
    }
    paths.sort();
    paths
}

/// The original, and what it runs the code of scripts with.
struct Original {
    program: PathBuf,
    python: Option<&'static str>,
}

impl Original {
    /// It is where `PACKETDRILL` says.
    fn found() -> Option<Self> {
        let Some(program) = std::env::var_os("PACKETDRILL") else {
            harness::skip("PACKETDRILL does not say where the original packetdrill is");
            return None;
        };
        let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        Some(Self { program: program.into(), python: ["python3", "python"].into_iter().find(runs) })
    }

    /// Whether it can read a script.
    fn reads(&self, path: &Path) -> bool {
        Command::new(&self.program).arg("--dry_run").arg(path).output().unwrap().status.success()
    }

    /// Runs a script against a host with these flags.
    fn run(&self, path: &Path, flags: &str, arguments: &[String]) -> Output {
        let library = std::env::current_exe().unwrap().parent().unwrap().join("libpantala_packetdrill.so");
        Command::new("timeout")
            .args(["-s", "KILL", KILLED_AFTER])
            .arg(&self.program)
            .env("LD_PRELOAD", &library)
            .arg(format!("--so_filename={}", library.display()))
            .arg(format!("--so_flags={flags}"))
            .args(self.python.map(|python| format!("--code_command={python}")))
            .args(arguments)
            .arg(path)
            .output()
            .unwrap()
    }

    /// Whether a script has code, and there is nothing to run it with.
    fn lacks_python(&self, text: &str) -> bool {
        self.python.is_none() && text.contains("%{")
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn our_own_interpreter_passes_the_scripts_that_the_original_is_given() {
    for path in scripts("tests/scripts/both") {
        let text = std::fs::read_to_string(&path).unwrap();
        let script = drill::parse(&path.display().to_string(), &text, &[])
            .unwrap_or_else(|errors| panic!("{}", errors[0]));
        // The longest segment that the scripts expect is that of IPv4.
        for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
            if let Err(failure) = run(&script, &Setup { version, ..Setup::default() }) {
                panic!("{}:{failure}", path.display());
            }
        }
    }
}

fn the_original_passes_them_with_the_shared_object_and_those_that_it_alone_understands() {
    let Some(original) = Original::found() else { return };
    for path in scripts("tests/scripts") {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_asked = |version| asked(&text, "--ip_version=").is_none_or(|asked| asked == version);
        for (version, mtu) in LINKS {
            if original.lacks_python(&text) || !is_asked(version) {
                continue;
            }
            let arguments = [format!("--ip_version={version}"), format!("--mtu={mtu}")];
            let output = original.run(&path, &format!("mtu={mtu}"), &arguments);
            assert!(output.status.success(), "{} with {version}: {}", path.display(), said(&output));
        }
    }
}

fn the_original_passes_the_scripts_of_sim_that_it_can_read_but_for_those_that_it_takes_otherwise() {
    let Some(original) = Original::found() else { return };
    let mut passed = 0;
    for path in scripts("../sim/drill") {
        let text = std::fs::read_to_string(&path).unwrap();
        if !original.reads(&path) || original.lacks_python(&text) {
            continue;
        }
        let output = original.run(&path, "", &[]);
        let (is_ok, said) = (output.status.success(), said(&output));
        match OTHERWISE.iter().find(|(name, _)| path.ends_with(name)) {
            Some((_, why)) => assert!(!is_ok && said.contains(why), "{}: {said}", path.display()),
            None => assert!(is_ok, "{}: {said}", path.display()),
        }
        passed += usize::from(is_ok);
    }
    assert!(passed >= 10, "only {passed} pass");
}

/// Results of both interpreters on the scripts of others are counted and listed. None may be killed, or die of a signal.
fn scripts_of_others_come_to_an_end_with_the_original() {
    let Some(folders) = std::env::var_os("DRILL_SCRIPTS") else { return };
    let Some(original) = Original::found() else { return };
    let flags = std::env::var("PACKETDRILL_FLAGS").unwrap_or_default();
    let (mut report, mut counts) = (String::new(), [[0_usize; 2]; 3]);
    for path in std::env::split_paths(&folders).flat_map(|folder| below(&folder)) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let ours = drill::parse("", &text, &[drill::STANDARD])
            .map_err(|errors| errors[0].to_string())
            .and_then(|script| run(&script, &Setup::default()).map_err(|failure| failure.to_string()));
        let (theirs, why) = if original.reads(&path) {
            let mtu = asked(&text, "--mtu=").map_or_else(String::new, |mtu| format!("mtu={mtu}"));
            let output = original.run(&path, &format!("{flags},{mtu}"), &[]);
            assert!(output.status.code().is_some_and(|code| code < 124), "{}: {output:?}", path.display());
            (usize::from(!output.status.success()), said(&output))
        } else {
            (2, "it cannot be read".to_owned())
        };
        counts[theirs][usize::from(ours.is_err())] += 1;
        if theirs != 0 || ours.is_err() {
            let ours = ours.err().unwrap_or_default();
            report += &format!("{}\n  theirs: {}\n  ours: {ours}\n", path.display(), why.trim());
        }
    }
    let [pass, fail, unread] = counts;
    let _ = writeln!(
        std::io::stderr(),
        "{report}[ours passes, ours fails]: passes {pass:?}, fails {fail:?}, unread {unread:?}"
    );
}

/// Returns the value of an option in a script.
fn asked<'a>(text: &'a str, option: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(option))
}

harness::tests![
    our_own_interpreter_passes_the_scripts_that_the_original_is_given,
    the_original_passes_them_with_the_shared_object_and_those_that_it_alone_understands,
    the_original_passes_the_scripts_of_sim_that_it_can_read_but_for_those_that_it_takes_otherwise,
    scripts_of_others_come_to_an_end_with_the_original,
];
