//! Captures where there is no more room for them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use dev::pcap::PcapRing;
use net::driver::{Driver, Link};
use pkt::{Arena, PktVec};

use crate::support::cable::packet;
use crate::support::is_root;

/// A disk of 64 KiB, gone with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount() -> Self {
        let path = std::env::temp_dir().join(format!("pt-small-disk-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "pt-small-disk"]).arg(&path);
        assert!(mount.status().unwrap().success());
        Self(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).stderr(Stdio::null()).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn a_capture_on_a_full_disk_ends_with_a_whole_frame_and_what_it_misses_is_counted() {
    if !is_root() {
        return;
    }
    let disk = SmallDisk::mount();
    let file = disk.0.join("x.pcap");
    let mut pool = Arena::carve(1, 64, false).unwrap().remove(0);
    let mut capture = PcapRing::open(None, Some(&file)).unwrap();
    for number in 0..200_u8 {
        let mut vec = PktVec::new();
        vec.push(packet(&mut pool, &[number; 1000])).unwrap();
        capture.tx(&mut pool, &mut vec);
    }
    assert_eq!(capture.link(), Link::Down);
    let stats = capture.stats();
    assert!(stats.tx_frames > 40 && stats.tx_frames + stats.tx_errors == 200, "{stats:?}");
    capture.close(&mut pool);
    let mut replay = PcapRing::open(Some(&file), None).unwrap();
    let mut read = 0_u8;
    while replay.link() == Link::Up {
        let mut vec = PktVec::new();
        replay.rx(&mut pool, &mut vec, 16);
        for pkt in vec.drain() {
            assert_eq!(pkt.head(), [read; 1000]);
            read += 1;
            pool.give(pkt);
        }
    }
    assert_eq!((replay.stats().rx_errors, u64::from(read)), (0, stats.tx_frames));
    drop(replay);
    assert_eq!(pool.free(), 64);
}

harness::tests![a_capture_on_a_full_disk_ends_with_a_whole_frame_and_what_it_misses_is_counted];
