//! Writes a workload for other programs: `workload ip4|ip6 ROUTES DESTINATIONS STEM`.
//!
//! `STEM.pcap` has the frames, `STEM.destinations` the IPv4 addresses that they are for, as four bytes each, and
//! `STEM.rules` the routes as DPDK's l3fwd reads them, all of them through its port 1.
//!
//! `workload internet4|internet6 ROUTES DESTINATIONS STEM` writes a table like the Internet's, without frames:
//! `STEM.rules`, and destinations behind random routes and as on real links, `STEM.random` and `STEM.realistic`.
#![expect(clippy::print_stderr, reason = "a program that says how it is used")]

use core::net::IpAddr;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::process::ExitCode;

use bench::frames::{FRAME_LEN, Family};
use bench::internet::{self, Traffic};
use bench::workload::Workload;
use net::fib::Prefix;

/// What every packet's port is.
const PORT: u8 = 1;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [family, routes, destinations, stem] = args.as_slice() else { return usage() };
    let (Ok(routes), Ok(destinations)) = (routes.parse(), destinations.parse()) else { return usage() };
    let written = match family.as_str() {
        "ip4" => write(Workload { family: Family::Ip4, routes, destinations }, stem),
        "ip6" => write(Workload { family: Family::Ip6, routes, destinations }, stem),
        "internet4" => write_internet(Family::Ip4, routes as usize, destinations as usize, stem),
        "internet6" => write_internet(Family::Ip6, routes as usize, destinations as usize, stem),
        _ => return usage(),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("workload: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: workload ip4|ip6|internet4|internet6 ROUTES DESTINATIONS STEM");
    ExitCode::from(2)
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
