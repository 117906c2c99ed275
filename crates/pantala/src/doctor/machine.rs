//! The machine: kernel, rights, memory, CPUs.

use std::fs;
use std::path::{Path, PathBuf};

use dev::sys::caps::{CapabilitySet, effective};
use dev::sys::uring::Uring;
use dev::sys::xsk::XskSocket;
use rustix::process::{Resource, getrlimit};

use super::Finding;

const MACHINE: &str = "machine";
const CPU: &str = "/sys/devices/system/cpu";
/// `openat2`, `close_range` and BPF's capabilities are there from this release on.
const KERNEL_LEAST: (u32, u32) = (5, 9);
/// AF_XDP counts its memory against the limit of locked memory up to the release before.
const MEMCG_SINCE: (u32, u32) = (5, 11);
/// Huge pages of 2 MiB that hold the packet buffers of a CPU, with room for an interface or two.
const HUGE_PAGES_WANTED: u64 = 32;
/// Descriptors of one CPU with rings, for connections of the admin API and for programs.
const DESCRIPTORS_WANTED: u64 = 1024;

/// Files of `/proc` and `/sys`, under another root in tests.
pub(super) struct Files(PathBuf);

impl Files {
    /// Returns those of this machine.
    pub(super) fn here() -> Self {
        Self(PathBuf::from("/"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name.trim_start_matches('/'))
    }

    /// The text of a file without white space around it, if it can be read.
    fn read(&self, name: impl AsRef<Path>) -> Option<String> {
        let text = fs::read_to_string(self.path(&name.as_ref().to_string_lossy())).ok()?;
        Some(text.trim().to_owned())
    }
}

/// Looks at all of it, for netisrs on these CPUs.
pub(super) fn examine(files: &Files, cpus: &[usize]) -> Vec<Finding> {
    let release = release(files);
    let mut findings = vec![kernel(files, release)];
    findings.extend(rights());
    let io_uring = Uring::open().map_err(|why| why.to_string()).err().map(|why| no_io_uring(files, &why));
    findings.extend([tun(files), io_uring, af_xdp(), jit(files)].into_iter().flatten());
    findings.push(huge_pages(files));
    findings.extend(limits(release));
    findings
        .extend([governor(files, cpus), isolation(files, cpus), siblings(files, cpus)].into_iter().flatten());
    findings.extend([clock(files), mitigations(files), irqbalance(files)].into_iter().flatten());
    findings
}

/// The release of the kernel, as two numbers.
fn release(files: &Files) -> Option<(u32, u32)> {
    let text = files.read("/proc/sys/kernel/osrelease")?;
    let mut numbers = text.split(|byte: char| !byte.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn kernel(files: &Files, release: Option<(u32, u32)>) -> Finding {
    let text = files.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    match release {
        Some(release) if release < KERNEL_LEAST => {
            let (major, minor) = KERNEL_LEAST;
            Finding::failure(
                MACHINE,
                format!("kernel {text} is older than {major}.{minor}"),
                &["install a newer kernel"],
            )
        }
        Some(_) => Finding::ok(MACHINE, format!("kernel {text}")),
        None => Finding::warning(MACHINE, "the release of the kernel cannot be read", &[]),
    }
}

/// Whether this process may do what `up` does.
fn rights() -> Option<Finding> {
    const WANTED: [(&str, CapabilitySet); 3] = [
        ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
        ("CAP_NET_RAW", CapabilitySet::NET_RAW),
        ("CAP_BPF", CapabilitySet::BPF),
    ];
    let held = effective().ok()?;
    let missing: Vec<&str> =
        WANTED.iter().filter(|(_, cap)| !held.contains(*cap)).map(|(name, _)| *name).collect();
    Some(if missing.is_empty() {
        Finding::ok(MACHINE, "this user may open devices")
    } else {
        let text = format!("this user has no {}", missing.join(", "));
        Finding::warning(MACHINE, text, &["sudo pantala up", "or `unshare -rn`, for a network of your own"])
    })
}

fn tun(files: &Files) -> Option<Finding> {
    let there = files.path("/dev/net/tun").exists();
    (!there).then(|| {
        Finding::warning(MACHINE, "/dev/net/tun is not there: no TAP can be made", &["modprobe tun"])
    })
}

/// Frames of a TAP cannot be read and written in batches.
fn no_io_uring(files: &Files, why: &str) -> Finding {
    let is_disabled = files.read("/proc/sys/kernel/io_uring_disabled").is_some_and(|value| value != "0");
    let mend: &[&str] = if is_disabled {
        &["sysctl -w kernel.io_uring_disabled=0"]
    } else {
        &[
            "use a kernel with CONFIG_IO_URING=y",
            "or let the container's system call filter pass io_uring_setup",
        ]
    };
    Finding::warning(
        MACHINE,
        format!("no io_uring ({why}): TAP devices need a system call for each frame"),
        mend,
    )
}

fn af_xdp() -> Option<Finding> {
    let why = XskSocket::new().err()?;
    let text = format!("no AF_XDP socket: {why}");
    Some(Finding::warning(
        MACHINE,
        text,
        &["run as root", "or use a kernel with CONFIG_XDP_SOCKETS=y, or a TAP as device"],
    ))
}

/// Programs on interfaces are compiled, or interpreted.
fn jit(files: &Files) -> Option<Finding> {
    let value = files.read("/proc/sys/net/core/bpf_jit_enable")?;
    (value == "0").then(|| {
        Finding::warning(
            MACHINE,
            "the kernel interprets BPF programs: AF_XDP and TAP steering cost more for each packet",
            &["sysctl -w net.core.bpf_jit_enable=1"],
        )
    })
}

fn huge_pages(files: &Files) -> Finding {
    let meminfo = files.read("/proc/meminfo").unwrap_or_default();
    let number = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    match number("HugePages_Free") {
        Some(free) if free > 0 => Finding::ok(
            MACHINE,
            format!("{free} huge pages of {} kB are free", number("Hugepagesize").unwrap_or(0)),
        ),
        _ => Finding::warning(
            MACHINE,
            "no free huge pages: packet buffers lie in pages of 4 kB, which costs misses in the TLB",
            &[&format!("sysctl -w vm.nr_hugepages={HUGE_PAGES_WANTED}")],
        ),
    }
}

fn limits(release: Option<(u32, u32)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let descriptors = getrlimit(Resource::Nofile).maximum;
    if let Some(most) = descriptors.filter(|most| *most < DESCRIPTORS_WANTED) {
        findings.push(Finding::warning(
            MACHINE,
            format!("a process may open {most} files"),
            &["LimitNOFILE=65536 in the unit, or `ulimit -Hn 65536`"],
        ));
    }
    let is_counted = release.is_some_and(|release| release < MEMCG_SINCE);
    let locked = getrlimit(Resource::Memlock).maximum;
    if let Some(most) = locked.filter(|_| is_counted) {
        findings.push(Finding::warning(
            MACHINE,
            format!("a process may lock {} kB of memory, and AF_XDP's buffers count", most >> 10),
            &["LimitMEMLOCK=infinity in the unit, or `ulimit -Hl unlimited`"],
        ));
    }
    findings
}

/// Governors that do not run CPUs at full speed.
fn governor(files: &Files, cpus: &[usize]) -> Option<Finding> {
    let of = |cpu: &usize| files.read(format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"));
    let slow: Vec<String> = cpus.iter().filter_map(of).filter(|governor| governor != "performance").collect();
    let first = slow.first()?;
    let text = format!("CPU frequency: {first} on {}", crate::plural::counted(slow.len() as u64, "CPU"));
    Some(Finding::warning(MACHINE, text, &["cpupower frequency-set -g performance"]))
}

/// The kernel's threads and interrupts on the CPUs of netisrs.
fn isolation(files: &Files, cpus: &[usize]) -> Option<Finding> {
    let isolated = files.read(format!("{CPU}/isolated")).unwrap_or_default();
    if !isolated.is_empty() {
        return Some(Finding::ok(MACHINE, format!("CPUs {isolated} are isolated from other threads")));
    }
    (cpus.len() > 1).then(|| {
        let (first, last) = (cpus.get(1).copied().unwrap_or(1), cpus.last().copied().unwrap_or(1));
        let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
        let boot = format!("isolcpus={range} nohz_full={range} on the kernel's command line");
        let text = "no CPU is isolated: other threads run on the CPUs of netisrs, and add to latency";
        Finding::warning(MACHINE, text, &[&boot, "and `cpus = […]` with these CPUs in the configuration"])
    })
}

/// Two netisrs on one core share it.
fn siblings(files: &Files, cpus: &[usize]) -> Option<Finding> {
    let mut cores: Vec<String> = cpus
        .iter()
        .filter_map(|cpu| files.read(format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")))
        .collect();
    let threads = cores.len();
    cores.sort_unstable();
    cores.dedup();
    (cores.len() < threads).then(|| {
        let first: Vec<&str> = cores.iter().filter_map(|core| core.split([',', '-']).next()).collect();
        let text = format!("{threads} CPUs are hardware threads of {} cores", cores.len());
        Finding::warning(MACHINE, text, &[&format!("cpus = [{}] in the configuration", first.join(", "))])
    })
}

/// A clock that is read with a system call is read in each turn.
fn clock(files: &Files) -> Option<Finding> {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0";
    /// They are read without a system call.
    const FAST: [&str; 5] =
        ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource"];
    let source = files.read(format!("{SOURCE}/current_clocksource"))?;
    let others = files.read(format!("{SOURCE}/available_clocksource")).unwrap_or_default();
    let better = others.split_whitespace().find(|other| FAST.contains(other));
    (!FAST.contains(&source.as_str())).then(|| {
        let text = format!("reading the clock ({source}) is a system call");
        let mend = better.map_or_else(
            || "none of the others is better".to_owned(),
            |better| format!("echo {better} > {SOURCE}/current_clocksource"),
        );
        Finding::warning(MACHINE, text, &[&mend])
    })
}

/// Mitigations that make system calls dear, of which TAP needs many.
fn mitigations(files: &Files) -> Option<Finding> {
    const DEAR: [(&str, &str); 2] = [("meltdown", "PTI"), ("retbleed", "IBRS")];
    let is_dear = |(name, what): &&(&str, &str)| {
        files.read(format!("{CPU}/vulnerabilities/{name}")).is_some_and(|text| text.contains(what))
    };
    let dear: Vec<&str> = DEAR.iter().filter(is_dear).map(|(_, what)| *what).collect();
    (!dear.is_empty()).then(|| {
        let text = format!(
            "each system call pays for {}: TAP devices are slower, AF_XDP less so",
            dear.join(" and ")
        );
        Finding::warning(
            MACHINE,
            text,
            &[
                "device = \"af_xdp:…\" instead of a TAP",
                "or mitigations=off, if all programs here are trusted",
            ],
        )
    })
}

fn irqbalance(files: &Files) -> Option<Finding> {
    let processes = fs::read_dir(files.path("/proc")).ok()?;
    let is_it = |entry: fs::DirEntry| {
        let name = entry.file_name();
        name.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit())
            && fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim() == "irqbalance")
    };
    processes.flatten().any(is_it).then(|| {
        Finding::warning(
            MACHINE,
            "irqbalance runs: it moves the interrupts of rings away from their netisrs",
            &["systemctl disable --now irqbalance"],
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    /// A machine of these files.
    struct Fake(Files);

    impl Fake {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("pt-doctor-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path.trim_start_matches('/'));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(Files(root))
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.0);
        }
    }

    fn warns(finding: Option<Finding>) -> Vec<String> {
        let finding = finding.expect("a finding");
        assert_eq!(finding.verdict, Verdict::Warning, "{}", finding.text);
        finding.mend
    }

    #[test]
    fn a_kernel_that_is_too_old_is_a_failure() {
        for (text, is_old) in
            [("4.19.0-27-amd64\n", true), ("5.8.1", true), ("5.10.0", false), ("6.18.5+", false)]
        {
            let fake = Fake::new("kernel", &[("/proc/sys/kernel/osrelease", text)]);
            let finding = kernel(&fake.0, release(&fake.0));
            assert_eq!(finding.verdict == Verdict::Failure, is_old, "{}", finding.text);
            assert!(finding.text.contains(text.trim()), "{}", finding.text);
        }
    }

    #[test]
    fn slow_cpus_come_with_the_command_that_mends_them() {
        let fake = Fake::new(
            "cpus",
            &[
                ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
                ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
                ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
                ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n"),
                ("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n"),
                ("/sys/devices/system/cpu/isolated", "\n"),
                ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
                ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet tsc acpi_pm\n"),
                ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
                ("/proc/sys/net/core/bpf_jit_enable", "0\n"),
                ("/proc/sys/kernel/io_uring_disabled", "2\n"),
                ("/proc/77/comm", "irqbalance\n"),
            ],
        );
        let files = &fake.0;
        assert_eq!(warns(governor(files, &[0, 1, 2])), ["cpupower frequency-set -g performance"]);
        assert_eq!(governor(files, &[1, 2]), None, "CPU 2 says nothing");
        assert_eq!(warns(siblings(files, &[0, 1, 2])), ["cpus = [0, 1] in the configuration"]);
        assert_eq!(siblings(files, &[0, 1]), None);
        assert!(warns(isolation(files, &[0, 1, 2, 3]))[0].starts_with("isolcpus=1-3 "));
        assert!(warns(clock(files))[0].starts_with("echo tsc > "));
        assert!(warns(mitigations(files))[0].contains("af_xdp"));
        assert_eq!(warns(jit(files)), ["sysctl -w net.core.bpf_jit_enable=1"]);
        assert_eq!(warns(Some(no_io_uring(files, "EPERM"))), ["sysctl -w kernel.io_uring_disabled=0"]);
        assert_eq!(warns(irqbalance(files)), ["systemctl disable --now irqbalance"]);
        assert_eq!(warns(tun(files)), ["modprobe tun"]);
    }

    #[test]
    fn a_machine_that_lacks_nothing_has_no_warnings() {
        let fake = Fake::new(
            "fit",
            &[
                ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
                ("/sys/devices/system/cpu/isolated", "1-3\n"),
                ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
                ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
                ("/proc/sys/net/core/bpf_jit_enable", "1\n"),
                ("/proc/77/comm", "sshd\n"),
                ("/proc/meminfo", "MemTotal: 1 kB\nHugePages_Free:       40\nHugepagesize:       2048 kB\n"),
                ("/dev/net/tun", ""),
            ],
        );
        let files = &fake.0;
        assert_eq!(isolation(files, &[0, 1]).unwrap().verdict, Verdict::Ok);
        let pages = huge_pages(files);
        assert_eq!((pages.verdict, &*pages.text), (Verdict::Ok, "40 huge pages of 2048 kB are free"));
        for finding in [
            governor(files, &[0]),
            clock(files),
            mitigations(files),
            jit(files),
            irqbalance(files),
            tun(files),
        ] {
            assert_eq!(finding, None);
        }
    }
}
