//! Changes that a seed chooses, one after the other without a pause: links flap, interfaces are made and destroyed, routes,
//! rules, addresses and neighbours change, rings move.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use super::chores::{Changes, Done};
use super::lab::{Tools, ip, v4, v6, write};
use super::random::Random;

/// Interfaces that a storm has made and not yet destroyed, at the most.
const MADE_MAX: usize = 8;
/// Between two changes at the most, in milliseconds.
const PAUSE_MAX: u64 = 60;
/// A link or an interface is down for so many milliseconds at the most.
const DOWN_MAX: u64 = 400;
/// Blocks of routes that come and go.
const BLOCKS: usize = 4;
/// Routes in each.
const BLOCK: usize = 250;
/// Interfaces whose devices pantala owns, their rings, and the numbers of their networks.
const LINKS: [(&str, u64, u8); 4] = [("a", 2, 1), ("b", 2, 2), ("f", 1, 4), ("g0", 1, 5)];

/// A kind of change, and how often it is chosen among all.
struct Kind {
    name: &'static str,
    weight: u64,
    run: fn(&mut Weather, &Tools) -> Result<()>,
    /// It may fail: what it is about can have gone.
    may_fail: bool,
}

const fn kind(name: &'static str, weight: u64, run: fn(&mut Weather, &Tools) -> Result<()>) -> Kind {
    Kind { name, weight, run, may_fail: false }
}

const KINDS: [Kind; 13] = [
    kind("interfaces made", 8, Weather::make),
    kind("interfaces destroyed", 8, Weather::destroy),
    Kind { may_fail: true, ..kind("pings into what was made", 6, Weather::ping) },
    kind("rings moved", 8, Weather::move_ring),
    kind("routes changed", 8, Weather::change_routes),
    kind("rules changed", 8, Weather::change_rules),
    kind("addresses changed", 6, Weather::change_addresses),
    kind("MTUs changed", 3, Weather::change_mtu),
    kind("neighbours forgotten", 3, Weather::forget_neighbours),
    kind("addresses published", 3, Weather::publish),
    kind("link flaps", 2, Weather::flap),
    kind("interface down and up", 3, Weather::bounce),
    kind("reloads", 3, Weather::reload),
];

/// All changes of a run, and their accounts.
pub struct Storm {
    weather: Mutex<Weather>,
    done: Mutex<[Done; KINDS.len()]>,
}

/// The changes that are in force.
struct Weather {
    random: Random,
    /// Each with the names in the order in which they are destroyed.
    made: Vec<(u8, Vec<String>)>,
    blocks: [bool; BLOCKS],
    /// Whether the rule that comes and goes is there.
    has_rule: bool,
    aliases: BTreeSet<u8>,
    published: BTreeSet<u8>,
}

impl Storm {
    pub fn new(seed: u64) -> Self {
        let random = Random::from(seed);
        let weather = Weather {
            random,
            made: Vec::new(),
            blocks: [false; BLOCKS],
            has_rule: false,
            aliases: BTreeSet::new(),
            published: BTreeSet::new(),
        };
        Self { weather: weather.into(), done: Mutex::default() }
    }

    fn note(&self, at: usize, result: Result<()>) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)[at].note(result);
    }
}

impl Changes for Storm {
    fn work(&self, tools: &Tools, enough: &AtomicBool) {
        let mut weather = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        while !enough.load(Ordering::Relaxed) {
            let at = weather.choose();
            self.note(at, (KINDS[at].run)(&mut weather, tools));
            let pause = weather.random.below(PAUSE_MAX);
            std::thread::sleep(Duration::from_millis(pause));
        }
        let last = KINDS.len() - 1;
        self.note(last, weather.calm(tools));
    }

    fn done(&self) -> Vec<Done> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let named = done.into_iter().zip(&KINDS);
        named.map(|(done, kind)| Done { name: kind.name, may_fail: kind.may_fail, ..done }).collect()
    }
}

impl Weather {
    fn choose(&mut self) -> usize {
        let mut left = self.random.below(KINDS.iter().map(|kind| kind.weight).sum());
        let is_it = |kind: &Kind| match left.checked_sub(kind.weight) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        KINDS.iter().position(is_it).unwrap_or(0)
    }

    fn link(&mut self) -> (&'static str, u64, u8) {
        *self.random.of(&LINKS)
    }

    fn make(&mut self, tools: &Tools) -> Result<()> {
        if self.made.len() >= MADE_MAX {
            return self.destroy(tools);
        }
        let mut number = 1;
        while self.made.iter().any(|(other, _)| *other == number) {
            number += 1;
        }
        let (name, inner) = (format!("s{number}"), [inner4(number, 1) + "/24", inner6(number, 1) + "/64"]);
        let parent = self.link().0;
        let id = number.to_string();
        let what: Vec<String> = match self.random.below(7) {
            0 => words(&["vlan", &id, "vlandev", parent]),
            1 => words(&["tunnel", &v4(2, 1), &v4(2, 100 + number)]),
            2 => words(&["tunnel", &v6(2, 1), &v6(2, 100 + number)]),
            3 => words(&["tunnel", &v4(4, 1), &v4(4, 100 + number), "grekey", &id]),
            4 => words(&["vxlanid", &id, "vxlanlocal", &v4(2, 1), "vxlanremote", &v4(2, 2)]),
            5 => words(&["device", &format!("tap:storm{number}")]),
            _ => return self.make_bridge(tools, number, parent, &inner),
        };
        create(tools, &name, &what, &inner)?;
        self.made.push((number, vec![name]));
        Ok(())
    }

    /// A bridge of two VLANs.
    fn make_bridge(&mut self, tools: &Tools, number: u8, parent: &str, inner: &[String; 2]) -> Result<()> {
        let [name, p, q] = ["", "p", "q"].map(|port| format!("s{number}{port}"));
        for (port, id) in [(&p, 1000), (&q, 2000)] {
            let id = (id + u32::from(number)).to_string();
            create(tools, port, &words(&["vlan", &id, "vlandev", parent]), &[])?;
        }
        create(tools, &name, &words(&["addm", &p, "addm", &q]), inner)?;
        self.made.push((number, vec![name, p, q]));
        Ok(())
    }

    fn destroy(&mut self, tools: &Tools) -> Result<()> {
        if self.made.is_empty() {
            return Ok(());
        }
        let at = self.random.index(self.made.len());
        let (_, names) = self.made.swap_remove(at);
        names.iter().try_for_each(|name| tools.pantala(&["ifconfig", name, "destroy"]).map(drop))
    }

    fn ping(&mut self, tools: &Tools) -> Result<()> {
        let Some((number, _)) = self.made.first() else { return Ok(()) };
        let to = if self.random.below(2) == 0 { inner4(*number, 2) } else { inner6(*number, 2) };
        tools.pantala(&["ping", "-c", "3", "-i", "0.01", "-W", "50", &to]).map(drop)
    }

    fn move_ring(&mut self, tools: &Tools) -> Result<()> {
        let cpus = std::thread::available_parallelism()?.get().min(2) as u64;
        let (name, rings, _) = self.link();
        let (ring, cpu) = (self.random.below(rings).to_string(), self.random.below(cpus).to_string());
        tools.pantala(&["intrctl", "affinity", name, &ring, &cpu]).map(drop)
    }

    fn change_routes(&mut self, tools: &Tools) -> Result<()> {
        let block = self.random.index(BLOCKS);
        self.turn_block(tools, block)
    }

    fn turn_block(&mut self, tools: &Tools, block: usize) -> Result<()> {
        let verb = if self.blocks[block] { "delete" } else { "add" };
        let gateway = *self.random.of(&[2, 3]);
        let mut text = String::new();
        for low in 0..BLOCK {
            // Writing to a string cannot fail.
            let _ = write!(text, "{verb} 172.{}.{low}.0/24", 16 + block);
            let _ = if self.blocks[block] { writeln!(text) } else { writeln!(text, " {}", v4(2, gateway)) };
        }
        let file = tools.folder.join("routes");
        write(&file, text)?;
        tools.pantala(&["route", "batch", &file.display().to_string()])?;
        self.blocks[block] = !self.blocks[block];
        Ok(())
    }

    fn change_rules(&mut self, tools: &Tools) -> Result<()> {
        if self.has_rule {
            tools.pantala(&["ipfw", "-q", "delete", "400"])?;
        } else {
            let port = (5300 + self.random.below(100)).to_string();
            let rule = ["deny", "udp", "from", "any", "to", "any", &port];
            tools.pantala(&[&["ipfw", "-q", "add", "400"], &rule[..]].concat())?;
        }
        self.has_rule = !self.has_rule;
        Ok(())
    }

    /// A further address of `f` comes or goes.
    fn change_addresses(&mut self, tools: &Tools) -> Result<()> {
        let host = 20 + self.random.byte_below(8);
        let is_new = !self.aliases.remove(&host);
        let word = if is_new { "alias" } else { "-alias" };
        tools.pantala(&["ifconfig", "f", &(v4(4, host) + "/24"), word])?;
        tools.pantala(&["ifconfig", "f", "inet6", &(v6(4, host) + "/64"), word])?;
        if is_new {
            self.aliases.insert(host);
        }
        Ok(())
    }

    fn change_mtu(&mut self, tools: &Tools) -> Result<()> {
        let mtu = *self.random.of(&["1400", "1500"]);
        tools.pantala(&["ifconfig", "f", "mtu", mtu]).map(drop)
    }

    fn forget_neighbours(&mut self, tools: &Tools) -> Result<()> {
        let words: &[&str] = if self.random.below(2) == 0 { &["arp", "-d", "-a"] } else { &["ndp", "-c"] };
        tools.pantala(words).map(drop)
    }

    /// An address that `f` answers for comes or goes.
    fn publish(&mut self, tools: &Tools) -> Result<()> {
        let host = 40 + self.random.byte_below(8);
        self.turn_published(tools, host)
    }

    fn turn_published(&mut self, tools: &Tools, host: u8) -> Result<()> {
        if self.published.remove(&host) {
            tools.pantala(&["arp", "-d", &v4(4, host)])?;
            return tools.pantala(&["ndp", "-d", &v6(4, host)]).map(drop);
        }
        tools.pantala(&["arp", "-i", "f", "-s", &v4(4, host), "auto", "pub"])?;
        tools.pantala(&["ndp", "-i", "f", "-s", &v6(4, host), "auto", "proxy"])?;
        self.published.insert(host);
        Ok(())
    }

    /// The other end of a cable is pulled out and put back.
    fn flap(&mut self, tools: &Tools) -> Result<()> {
        let (name, interface, net) =
            *self.random.of(&[("a", "eth0", 1), ("b", "port-b", 2), ("f", "eth0", 4)]);
        let netns = tools.netns(name);
        ip(&["-n", &netns, "link", "set", interface, "down"])?;
        self.wait();
        ip(&["-n", &netns, "link", "set", interface, "up"])?;
        // A kernel forgets IPv6 addresses and routes of an interface that goes down.
        ip(&["-n", &netns, "addr", "replace", &(v6(net, 2) + "/64"), "dev", interface])?;
        ip(&["-n", &netns, "route", "replace", "default", "via", &v4(net, 1)])?;
        ip(&["-n", &netns, "-6", "route", "replace", "default", "via", &v6(net, 1)])
    }

    fn bounce(&mut self, tools: &Tools) -> Result<()> {
        let name = self.link().0;
        tools.pantala(&["ifconfig", name, "down"])?;
        self.wait();
        tools.pantala(&["ifconfig", name, "up"]).map(drop)
    }

    fn wait(&mut self) {
        std::thread::sleep(Duration::from_millis(self.random.below(DOWN_MAX)));
    }

    fn reload(&mut self, tools: &Tools) -> Result<()> {
        let variant = self.random.index(4);
        self.reload_as(tools, variant)
    }

    /// The file comes into force: it has none of what was made.
    fn reload_as(&mut self, tools: &Tools, variant: usize) -> Result<()> {
        tools.write_config(variant)?;
        tools.pantala(&["reload"])?;
        self.made.clear();
        self.aliases.clear();
        self.has_rule = false;
        Ok(())
    }

    /// Takes everything back.
    fn calm(&mut self, tools: &Tools) -> Result<()> {
        for block in 0..BLOCKS {
            if self.blocks[block] {
                self.turn_block(tools, block)?;
            }
        }
        while let Some(host) = self.published.first().copied() {
            self.turn_published(tools, host)?;
        }
        while !self.made.is_empty() {
            self.destroy(tools)?;
        }
        self.reload_as(tools, 0)
    }
}

fn create(tools: &Tools, name: &str, what: &[String], addresses: &[String]) -> Result<()> {
    let mut args = vec!["ifconfig", name, "create"];
    args.extend(what.iter().map(String::as_str));
    for (word, address) in ["inet", "inet6"].into_iter().zip(addresses) {
        args.extend([word, address]);
    }
    tools.pantala(&args).map(drop)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// An address of a network behind an interface that was made.
fn inner4(number: u8, host: u8) -> String {
    format!("10.79.{number}.{host}")
}

fn inner6(number: u8, host: u8) -> String {
    format!("fd79:{number}::{host}")
}
