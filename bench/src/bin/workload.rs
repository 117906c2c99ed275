//! Writes a workload for other programs: `workload ip4|ip6 ROUTES DESTINATIONS STEM`.
//!
//! `STEM.pcap` has the frames, `STEM.destinations` the IPv4 addresses that they are for, as four bytes each, and
//! `STEM.rules` the routes as DPDK's l3fwd reads them, all of them through its port 1.
//!
//! `workload internet4|internet6 ROUTES DESTINATIONS STEM` writes a table like the Internet's, without frames:
//! `STEM.rules`, and destinations behind random routes and as on real links, `STEM.random` and `STEM.realistic`.

use core::net::IpAddr;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::process::ExitCode;

use bench::frames::{FRAME_LEN, Family};
use bench::internet::{self, Traffic};
use bench::program::{self, Misused};
use bench::workload::Workload;
use net::fib::Prefix;

/// Port of every packet.
const PORT: u8 = 1;

fn main() -> ExitCode {
    program::run("workload ip4|ip6|internet4|internet6 ROUTES DESTINATIONS STEM", |args| {
        let [what, routes, destinations, stem] = args else { return Err(Misused.into()) };
        let (routes, destinations) = (program::read::<u32>(routes)?, program::read::<u32>(destinations)?);
        match what.strip_prefix("internet") {
            Some(family) => {
                write_internet(program::read(family)?, routes as usize, destinations as usize, stem)?;
            }
            None => write(Workload { family: program::read(what)?, routes, destinations }, stem)?,
        }
        Ok(String::new())
    })
}

/// Writes all files; the rules last, so that they are there when all are.
fn write(workload: Workload, stem: &str) -> Result<()> {
    let frames = workload.frames();
    write_pcap(&frames, &format!("{stem}.pcap"))?;
    if workload.family == Family::Ip4 {
        let destinations: Vec<u8> = frames.iter().flat_map(|frame| &frame[DESTINATION]).copied().collect();
        std::fs::write(format!("{stem}.destinations"), destinations)?;
    }
    write_rules(workload.prefixes(), &format!("{stem}.rules"))
}

fn write_internet(family: Family, routes: usize, destinations: usize, stem: &str) -> Result<()> {
    let table = internet::table(family, routes, 1, 1);
    for (traffic, name) in [(Traffic::Routes, "random"), (Traffic::Zipf, "realistic")] {
        let all = internet::destinations(&table, traffic, destinations, 2);
        let bytes: Vec<u8> = all.into_iter().flat_map(octets).collect();
        std::fs::write(format!("{stem}.{name}"), bytes)?;
    }
    write_rules(table.iter().map(|(prefix, _)| *prefix), &format!("{stem}.rules"))
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

/// Where an IPv4 frame has its destination.
const DESTINATION: core::ops::Range<usize> = 30..34;

/// Magic number, version 2.4, time zone, accuracy, bytes kept of a frame, Ethernet.
const PCAP_HEAD: [u32; 6] = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, 1];

fn write_pcap(frames: &[[u8; FRAME_LEN]], path: &str) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    words(&mut file, &PCAP_HEAD)?;
    for frame in frames {
        let len = u32::try_from(FRAME_LEN).unwrap_or_default();
        words(&mut file, &[0, 0, len, len])?;
        file.write_all(frame)?;
    }
    file.flush()
}

fn words(file: &mut impl Write, words: &[u32]) -> Result<()> {
    words.iter().try_for_each(|word| file.write_all(&word.to_ne_bytes()))
}

fn write_rules(prefixes: impl Iterator<Item = Prefix>, path: &str) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for prefix in prefixes {
        match prefix.addr() {
            IpAddr::V4(addr) => writeln!(file, "R{addr}/{} {PORT}", prefix.prefix_len())?,
            IpAddr::V6(addr) => writeln!(file, "R{addr}/{} {PORT}", prefix.prefix_len())?,
        }
    }
    file.flush()
}
