//! Where the instructions are spent: callgrind's addresses, brought back to the functions of ours that they came from.
//!
//! The fast path is inlined into a handful of functions, and much of it is `core`'s. So each address is unfolded into
//! the calls that were inlined there, and charged to the innermost one of ours.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::{GUARDED, KINDS, LONGER, SEVERAL, callgrind, shortest};
use crate::run;

/// Packets in one turn of the runs that are looked into.
const AT_ONCE: usize = 256;
/// Functions, and lines, that are shown.
const SHOWN: usize = 30;

/// Instructions by address.
type Spent = BTreeMap<u64, u64>;

/// One function of ours, or the one that the linker knows if it is not.
#[derive(Clone, Default)]
struct Place {
    function: String,
    line: String,
}

/// Prints the dearest functions and lines of each kind of run.
pub(super) fn print(program: &Path) -> Result<()> {
    for kind in KINDS.iter().chain(SEVERAL).chain(GUARDED) {
        let spent = difference(program, kind)?;
        let places = places(program, &spent)?;
        let packets = (shortest(kind) * (LONGER - 1)) as f64;
        let total = spent.values().sum::<u64>() as f64 / packets;
        println!("\n{kind}, {AT_ONCE} packets in a turn: {total:.1} instructions per packet");
        show(&spent, packets, &places, |place| {
            format!("{}  {}", place.line.split(':').next().unwrap_or_default(), place.function)
        });
        println!();
        show(&spent, packets, &places, |place| format!("{}  {}", place.line, place.function));
    }
    Ok(())
}

fn show(spent: &Spent, packets: f64, places: &BTreeMap<u64, Place>, name: impl Fn(&Place) -> String) {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (address, cost) in spent {
        *sums.entry(places.get(address).map_or_else(|| "?".into(), &name)).or_insert(0) += cost;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, cost)| core::cmp::Reverse(*cost));
    for (name, cost) in sums.iter().take(SHOWN) {
        println!("{:8.1}  {name}", *cost as f64 / packets);
    }
}

/// Returns the additional cost of the longer run, by address in the program's file.
fn difference(program: &Path, kind: &str) -> Result<Spent> {
    let [short, long] = [1, LONGER].map(|times| {
        let packets = shortest(kind) * times;
        let exact = ["--dump-instr=yes", "--compress-pos=no", "--compress-strings=no"];
        callgrind(program, &[kind, &AT_ONCE.to_string(), &packets.to_string()], &exact)
    });
    let ((short, _), (long, _)) = (short?, long?);
    let moved = moved(program, &long)?;
    let before = read(&short)?;
    let more = read(&long)?.into_iter().filter_map(|(address, cost)| {
        let more = cost.checked_sub(before.get(&address).copied().unwrap_or(0)).filter(|more| *more > 0)?;
        Some((address.wrapping_sub(moved), more))
    });
    Ok(more.collect())
}

/// Reads callgrind's output: `0xADDRESS LINE COST`. What is called is counted where it runs, so the line after `calls=`
/// is passed over.
fn read(text: &str) -> Result<Spent> {
    let (mut spent, mut is_call) = (Spent::new(), false);
    for line in text.lines() {
        if let Some(cost) = line.strip_prefix("0x") {
            let mut fields = cost.split(' ');
            let address = u64::from_str_radix(fields.next().unwrap_or_default(), 16)?;
            if !core::mem::take(&mut is_call) {
                let cost: u64 = fields.nth(1).context("a cost without a number")?.parse()?;
                *spent.entry(address).or_insert(0) += cost;
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        }
    }
    Ok(spent)
}

/// Returns the load offset of the program: seen at `main`, whose first instruction is its address.
fn moved(program: &Path, callgrind: &str) -> Result<u64> {
    let mut nm = Command::new("nm");
    nm.arg(program);
    let symbols = run::capture(nm)?;
    let in_file =
        symbols.lines().find_map(|line| line.strip_suffix(" T main")).context("no main in the program")?;
    let mut after = callgrind.lines().skip_while(|line| *line != "fn=main");
    let in_memory = after.find_map(|line| line.strip_prefix("0x")).context("main was not counted")?;
    let in_memory = in_memory.split(' ').next().unwrap_or_default();
    Ok(u64::from_str_radix(in_memory, 16)?.wrapping_sub(u64::from_str_radix(in_file, 16)?))
}

/// Unfolds addresses with binutils' `addr2line`.
fn places(program: &Path, spent: &Spent) -> Result<BTreeMap<u64, Place>> {
    let addresses = spent.keys().fold(String::new(), |mut list, address| {
        let _ = writeln!(list, "{address:#x}");
        list
    });
    let mut addr2line = Command::new("addr2line");
    addr2line.args(["--addresses", "--functions", "--inlines", "--demangle", "--exe"]).arg(program);
    let mut child =
        addr2line.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("addr2line (binutils)")?;
    let mut input = child.stdin.take().context("addr2line's input")?;
    let writer = std::thread::spawn(move || input.write_all(addresses.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().ok().context("addr2line")??;
    Ok(unfolded(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads `addr2line`: for each address a line with it, then pairs of lines, innermost first: function, and file:line.
fn unfolded(text: &str) -> BTreeMap<u64, Place> {
    let mut places: BTreeMap<u64, Place> = BTreeMap::new();
    let (mut at, mut lines) = (0, text.lines());
    while let Some(line) = lines.next() {
        if let Some(address) = line.strip_prefix("0x") {
            at = u64::from_str_radix(address, 16).unwrap_or_default();
            continue;
        }
        let file = lines.next().unwrap_or_default();
        let place = places.entry(at).or_default();
        let is_found = is_ours(&place.line);
        if !is_found && (is_ours(file) || place.function.is_empty()) {
            *place = Place { function: function(line), line: short(file) };
        }
    }
    places
}

fn is_ours(file: &str) -> bool {
    ["crates/", "bench/src"].iter().any(|ours| file.contains(ours)) && !file.contains("/registry/")
}

/// The name alone: the file stands before it. A method of a trait keeps its type.
fn function(name: &str) -> String {
    let name = name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(name, |(name, _)| name);
    let is_path = !name.contains(['<', '{', ' ']);
    if is_path { name.rsplit("::").next().unwrap_or(name).into() } else { name.into() }
}

/// `crates/…` without what leads there, the end of other paths, and nothing of what addr2line remarks behind them.
fn short(file: &str) -> String {
    let file = file.split(' ').next().unwrap_or_default();
    if let Some(ours) = ["/crates/", "/bench/src"].iter().filter_map(|ours| file.find(ours)).min() {
        return file[ours + 1..].into();
    }
    let parts: Vec<&str> = file.split('/').collect();
    parts[parts.len().saturating_sub(3)..].join("/")
}
