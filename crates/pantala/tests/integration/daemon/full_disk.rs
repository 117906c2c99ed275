//! Files that commands write where there is no more room for them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::daemon::dhcp::{has, leases, udhcpc, without_address};
use crate::daemon::lab::{Lab, OURS, Wire, until};

const DATAGRAMS: usize = 200;

/// A disk of a few pages, gone with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8k", "pt-small-disk"]).arg(at);
        assert!(mount.status().unwrap().success());
        Self(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// Returns the number of packets in a file of pcapng, which ends with a whole block.
fn packets(file: &Path) -> usize {
    const PACKET: u32 = 6;
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let len = word(at + 4) as usize;
        assert_eq!(word(at + len - 4) as usize, len, "a block is torn at {at} of {}", bytes.len());
        count += usize::from(word(at) == PACKET);
        at += len;
    }
    count
}

fn a_log_of_packets_on_a_full_disk_ends_with_a_whole_record_and_the_command_fails() {
    let Some(lab) = Lab::new("disk", Wire::Tap) else { return };
    let rules = "[firewall]\nrules_text = \"add 10 count log logamount 0 udp from any to any 9\\nadd 20 allow ip from any to any\"\n";
    lab.write(&lab.config(rules));
    let daemon = lab.start();
    lab.address_host();
    assert!(lab.host_reaches(OURS[0]));
    lab.host_sends(OURS[0], DATAGRAMS);
    let logged = || daemon.json("ipfw log")["records"].as_array().unwrap().len();
    until("it is logged", || logged() > DATAGRAMS / 2);
    let disk = SmallDisk::mount(&lab.folder().join("disk"));
    let file = disk.0.join("log.pcapng");
    let (done, text) = daemon.run(&format!("ipfw log -w {}", file.display()));
    assert!(!done && text.contains("cannot write") && text.contains("No space left on device"), "{text}");
    let written = packets(&file);
    assert!(written > 10 && written < logged(), "{written} of {}", logged());
    // With room it is all.
    let file = lab.folder().join("log.pcapng");
    daemon.shows(&format!("ipfw log -w {}", file.display()));
    assert!(packets(&file) > DATAGRAMS / 2);
}

/// Takes all the room of a disk.
fn fill(disk: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(disk.join("filler")).unwrap();
    let mut len = 4096;
    while len > 0 {
        if file.write_all(&vec![0; len]).is_err() {
            len /= 2;
        }
    }
}

fn leases_survive_a_full_disk_and_none_is_given_that_is_not_on_it() {
    if !has("udhcpc", "udhcpc") {
        return;
    }
    let Some(lab) = Lab::new("fulldisk", Wire::Veth { queues: 1 }) else { return };
    let disk = SmallDisk::mount(&lab.folder().join("disk"));
    let file = disk.0.join("leases");
    // A page of leases, without room for one more.
    let line =
        |n: u8, name: &str| format!("192.0.2.{n} 02:00:00:00:01:{n:02x} 01{n:02x} 4000000000 {name}\n");
    let mut text: String = (100..170).map(|n| line(n, "-")).collect();
    text += &line(170, &"x".repeat(4080 - text.len() - line(170, "").len()));
    std::fs::write(&file, &text).unwrap();
    let known = text.lines().count();
    lab.write(&lab.config(&format!(
        "[interface.dhcp_server]\nleases = \"{}\"\npool = \"192.0.2.100-192.0.2.199\"\nprobe = false\n",
        file.display()
    )));
    let daemon = lab.start();
    without_address(&lab);
    assert_eq!(leases(&daemon).len(), known);
    fill(&disk.0);
    assert_eq!(udhcpc(&lab, "-x hostname:late || true"), "");
    let counters = daemon.json("dhcp lan")["servers"][0]["counters"].clone();
    assert!(counters["not_written"].as_u64().unwrap() > 0 && counters["acks"] == 0, "{counters}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "the file is as it was");
    // It starts again on the full disk, with all that it knew.
    daemon.kill_and_go_on().wait().unwrap();
    let daemon = lab.start();
    assert_eq!(leases(&daemon).len(), known);
    assert_eq!(udhcpc(&lab, "-x hostname:late || true"), "");
    std::fs::remove_file(disk.0.join("filler")).unwrap();
    assert!(udhcpc(&lab, "-x hostname:late").contains("ip=192.0.2.171"));
    daemon.kill_and_go_on().wait().unwrap();
    let daemon = lab.start();
    assert_eq!(leases(&daemon).len(), known + 1);
    assert!(daemon.end(Signal::TERM));
}

harness::tests![
    a_log_of_packets_on_a_full_disk_ends_with_a_whole_record_and_the_command_fails,
    leases_survive_a_full_disk_and_none_is_given_that_is_not_on_it,
];
