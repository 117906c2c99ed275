//! Changes by an administrator, scripts and cables while the router is loaded.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;

use super::lab::{Tools, ip, v4, v6, write};

/// Between two looks whether something is due.
const STEP: Duration = Duration::from_millis(100);
/// A link is down for so long.
const FLAP: Duration = Duration::from_millis(300);
/// Lines of errors that are kept.
const ERRORS_MAX: usize = 20;

/// Something that is done again and again; it is told how often it was done before.
struct Chore {
    name: &'static str,
    every: Duration,
    run: fn(&Tools, usize) -> Result<()>,
    /// It may fail: what it is about can have gone.
    may_fail: bool,
}

const fn chore(name: &'static str, seconds: u64, run: fn(&Tools, usize) -> Result<()>) -> Chore {
    Chore { name, every: Duration::from_secs(seconds), run, may_fail: false }
}

const CHORES: [Chore; 11] = [
    chore("metrics scraped", 1, scrape),
    chore("rules changed", 2, rules),
    chore("rings moved", 3, rings),
    chore("routes changed", 4, routes),
    Chore { may_fail: true, ..chore("pings", 5, ping) },
    chore("commands that look", 6, look),
    Chore { may_fail: true, ..chore("tcpdrop", 7, drop_one) },
    chore("reloads", 10, reload),
    chore("variables changed", 11, variables),
    chore("link flaps", 13, flap),
    chore("interface down and up", 17, bounce),
];

/// What is changed while the router is loaded.
pub trait Changes: Sync {
    /// Makes changes until it is enough, and takes back those that would outlast it.
    fn work(&self, tools: &Tools, enough: &AtomicBool);

    /// The changes so far.
    fn done(&self) -> Vec<Done>;
}

/// Changes that are made at fixed intervals.
#[derive(Default)]
pub struct Chores {
    done: Mutex<[Done; CHORES.len()]>,
}

/// The account of one chore.
#[derive(Default, Clone, serde::Serialize)]
pub struct Done {
    pub name: &'static str,
    pub times: u64,
    pub failed: u64,
    /// Messages of the first failures.
    pub errors: Vec<String>,
    pub may_fail: bool,
}

impl Done {
    pub fn note(&mut self, result: Result<()>) {
        self.times += 1;
        if let Err(error) = result {
            self.failed += 1;
            if self.errors.len() < ERRORS_MAX {
                self.errors.push(format!("{error:#}"));
            }
        }
    }
}

impl Changes for Chores {
    fn work(&self, tools: &Tools, enough: &AtomicBool) {
        let begun = Instant::now();
        let mut times = [0_usize; CHORES.len()];
        while !enough.load(Ordering::Relaxed) {
            for (at, chore) in CHORES.iter().enumerate() {
                let due = chore.every * u32::try_from(times[at] + 1).unwrap_or(u32::MAX);
                if begun.elapsed() >= due && !enough.load(Ordering::Relaxed) {
                    self.note(at, (chore.run)(tools, times[at]));
                    times[at] += 1;
                }
            }
            std::thread::sleep(STEP);
        }
        // Those that were there go with an error if they are gone already.
        let _ = routes(tools, 1);
        let is_reload = |chore: &Chore| chore.name == "reloads";
        if let Some(at) = CHORES.iter().position(is_reload) {
            self.note(at, reload(tools, 3));
        }
    }

    fn done(&self) -> Vec<Done> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let named = done.into_iter().zip(&CHORES);
        named.map(|(done, chore)| Done { name: chore.name, may_fail: chore.may_fail, ..done }).collect()
    }
}

impl Chores {
    fn note(&self, at: usize, result: Result<()>) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)[at].note(result);
    }
}

fn scrape(tools: &Tools, _: usize) -> Result<()> {
    super::sample::metrics(&tools.socket()).map(drop)
}

/// One rule comes and goes, and a file fills a table or empties it.
fn rules(tools: &Tools, round: usize) -> Result<()> {
    let is_even = round.is_multiple_of(2);
    if is_even {
        tools.pantala(&[
            "ipfw",
            "-q",
            "add",
            "400",
            "deny",
            "udp",
            "from",
            "any",
            "to",
            "any",
            "5300-5400",
        ])?;
    } else {
        // A reload between the two has taken it away.
        let _ = tools.pantala(&["ipfw", "-q", "delete", "400"]);
    }
    let file = tools.folder.join("more.ipfw");
    let mut text = "table bad flush\n".to_owned();
    for number in (0..50).filter(|_| is_even) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "table bad add 198.51.100.{number}");
    }
    write(&file, text)?;
    tools.pantala(&["ipfw", "-q", &file.display().to_string()]).map(drop)
}

/// Each ring goes to the other CPU and back.
fn rings(tools: &Tools, round: usize) -> Result<()> {
    if std::thread::available_parallelism()?.get() < 2 {
        return Ok(());
    }
    let (interface, ring) = [("a", "0"), ("a", "1"), ("b", "0"), ("b", "1")][round / 2 % 4];
    let home = ring;
    let away = if ring == "0" { "1" } else { "0" };
    let to = if round.is_multiple_of(2) { away } else { home };
    tools.pantala(&["intrctl", "affinity", interface, ring, to]).map(drop)
}

fn routes(tools: &Tools, round: usize) -> Result<()> {
    let file = tools.folder.join("routes");
    let verb = if round.is_multiple_of(2) { "add" } else { "delete" };
    let mut text = String::new();
    for number in 0..1000 {
        let (high, low) = (number / 256, number % 256);
        let _ = writeln!(text, "{verb} 172.{}.{low}.0/24 {}", 16 + high, v4(2, 2));
    }
    write(&file, text)?;
    tools.pantala(&["route", "batch", &file.display().to_string()]).map(drop)
}

fn ping(tools: &Tools, round: usize) -> Result<()> {
    let to = [v4(1, 2), v6(1, 2), v4(2, 2), v6(2, 2), v4(3, 2), v6(3, 2)];
    let to = &to[round % to.len()];
    tools.pantala(&["ping", "-c", "3", "-i", "0.02", "-W", "1000", to]).map(drop)
}

fn look(tools: &Tools, round: usize) -> Result<()> {
    let looks: [&[&str]; 10] = [
        &["netstat", "-s"],
        &["netstat", "-anT"],
        &["netstat", "-Q"],
        &["netstat", "-o"],
        &["ipfw", "-d", "show"],
        &["ipfw", "-d", "nat", "show"],
        &["ipfw", "log"],
        &["netstat", "-rn"],
        &["ndp", "-an"],
        &["intrctl", "list"],
    ];
    tools.pantala(looks[round % looks.len()]).map(drop)
}

/// Ends one connection of those that there are.
fn drop_one(tools: &Tools, round: usize) -> Result<()> {
    let said = tools.pantala(&["tcpdrop", "-l", "-s", "ESTABLISHED"])?;
    let lines: Vec<&str> = said.lines().collect();
    let Some(line) = lines.get(round % lines.len().max(1)) else { return Ok(()) };
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    tools.pantala(&words).map(drop)
}

fn reload(tools: &Tools, round: usize) -> Result<()> {
    tools.write_config((round + 1) % 4)?;
    tools.pantala(&["reload"]).map(drop)
}

fn variables(tools: &Tools, round: usize) -> Result<()> {
    let (cc, ms) = if round.is_multiple_of(2) { ("newreno", 10) } else { ("cubic", 40) };
    tools.pantala(&["sysctl", &format!("net.inet.tcp.cc.algorithm={cc}")])?;
    tools.pantala(&["sysctl", &format!("net.inet.tcp.delacktime={ms}")]).map(drop)
}

/// The other end of the cable is pulled out and put back.
fn flap(tools: &Tools, _: usize) -> Result<()> {
    let netns = tools.netns("f");
    ip(&["-n", &netns, "link", "set", "eth0", "down"])?;
    std::thread::sleep(FLAP);
    ip(&["-n", &netns, "link", "set", "eth0", "up"])?;
    // A kernel forgets IPv6 addresses and routes of an interface that goes down.
    let address = format!("{}/64", v6(4, 2));
    ip(&["-n", &netns, "addr", "replace", &address, "dev", "eth0"])?;
    ip(&["-n", &netns, "route", "replace", "default", "via", &v4(4, 1)])?;
    ip(&["-n", &netns, "-6", "route", "replace", "default", "via", &v6(4, 1)])
}

fn bounce(tools: &Tools, _: usize) -> Result<()> {
    tools.pantala(&["ifconfig", "f", "down"])?;
    tools.pantala(&["ifconfig", "f", "up"]).map(drop)
}
