//! `pipe N …`, `queue N …`, `sched N …`.

mod unit;

use super::refuse;
use super::value::{instance, number_of, share};
use crate::command::{Aqm, Command, PipeConfig, QueueConfig, Reorder, Scheduler};
use crate::error::Fault;
use crate::limit::REORDER_MAX;
use crate::refused::Place;
use crate::words::{Tokens, Word};

const PIPE: &[&str] = &[
    "bw",
    "bandwidth",
    "delay",
    "burst",
    "exact",
    "type",
    "reorder",
    "duplicate",
    "queue",
    "weight",
    "plr",
    "mask",
    "buckets",
    "noerror",
    "droptail",
    "red",
    "gred",
    "codel",
];
const QUEUE: &[&str] = &[
    "pipe", "sched", "weight", "queue", "plr", "mask", "buckets", "noerror", "droptail", "red", "gred",
    "codel",
];

/// Packets that overtake one that is held back, at the most, if nothing is said.
const REORDER_USUAL: u8 = 3;

/// The operands of `pipe` and `queue`: a number and a word, in either order, or one of them.
enum PipeCommand<'a> {
    Config(u16, Word<'a>),
    Delete(u16),
    Show(Option<u16>),
    Flush,
}

fn what<'a>(words: &mut Tokens<'a>, of: &str) -> Result<PipeCommand<'a>, Fault> {
    const EXPECTED: &str = "a number and config, delete or show";
    const KNOWN: [&str; 5] = ["config", "delete", "show", "list", "flush"];
    let an = format!("a {of}");
    let word = words.take(EXPECTED)?;
    let is_number = |word: Word<'_>| word.text.starts_with(|c: char| c.is_ascii_digit());
    let (number, what) = match is_number(word) {
        true => (Some(instance(word, &an)?), words.take("config, delete or show")?),
        false => (None, word),
    };
    let number = match (number, words.peek()) {
        (None, Some(word)) if KNOWN.contains(&what.full(&KNOWN)) => {
            words.skip();
            Some(instance(word, &an)?)
        }
        (number, _) => number,
    };
    match (what.full(&KNOWN), number) {
        ("config", Some(number)) => Ok(PipeCommand::Config(number, what)),
        ("delete", Some(number)) => Ok(PipeCommand::Delete(number)),
        ("show" | "list", number) => Ok(PipeCommand::Show(number)),
        ("flush", None) => Ok(PipeCommand::Flush),
        ("config" | "delete", None) => Err(words.too_short(&format!("the number of a {of}"))),
        _ => Err(what.unknown(&format!("command for {an}"), KNOWN).expected(EXPECTED)),
    }
}

pub(crate) fn pipe(words: &mut Tokens<'_>) -> Result<Command, Fault> {
    Ok(match what(words, "pipe")? {
        PipeCommand::Config(number, _) => Command::PipeConfig { number, config: pipe_config(words)? },
        PipeCommand::Delete(number) => Command::PipeDelete { number, queue: false },
        PipeCommand::Show(number) => Command::PipeShow { number, queue: false },
        PipeCommand::Flush => Command::PipeFlush,
    })
}

pub(crate) fn queue(words: &mut Tokens<'_>) -> Result<Command, Fault> {
    Ok(match what(words, "queue")? {
        PipeCommand::Config(number, word) => {
            let mut config = QueueConfig::default();
            while let Some(word) = words.peek() {
                words.skip();
                match word.text {
                    "pipe" | "sched" => {
                        config.pipe = Some(instance(words.take("the number of a pipe")?, "a pipe")?)
                    }
                    _ if of_queue(words, word, &mut config)? => {}
                    _ => return Err(unknown(word, "queue", QUEUE)),
                }
            }
            if config.pipe.is_none() {
                return Err(word.fault("the queue leads nowhere").help("add `pipe N`"));
            }
            Command::QueueConfig { number, config }
        }
        PipeCommand::Delete(number) => Command::PipeDelete { number, queue: true },
        PipeCommand::Show(number) => Command::PipeShow { number, queue: true },
        PipeCommand::Flush => Command::PipeFlush,
    })
}

/// In FreeBSD a scheduler has the number of its pipe. Here it is a property of the pipe.
pub(crate) fn sched(words: &mut Tokens<'_>) -> Result<Command, Fault> {
    let first = words.peek();
    Ok(match (what(words, "sched")?, first) {
        (PipeCommand::Config(number, _), _) => Command::PipeConfig { number, config: pipe_config(words)? },
        (PipeCommand::Show(number), _) => Command::PipeShow { number, queue: false },
        (PipeCommand::Delete(_) | PipeCommand::Flush, Some(word)) => {
            let fault = word.fault("a scheduler belongs to its pipe, and goes with it");
            return Err(fault.help("use `pipe N delete`, or `sched N config type fifo`"));
        }
        (PipeCommand::Delete(_) | PipeCommand::Flush, None) => return Err(words.too_short("config or show")),
    })
}

fn pipe_config(words: &mut Tokens<'_>) -> Result<PipeConfig, Fault> {
    let mut config = PipeConfig::default();
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "bw" | "bandwidth" => {
                let value = words.take("bits per second, such as 10Mbit/s")?;
                config.bandwidth = Some(unit::bandwidth(value, words)?);
            }
            "delay" => config.delay_ms = Some(unit::delay_ms(words.take("milliseconds")?)?),
            "burst" => config.burst = Some(unit::bytes(words.take("bytes, such as 64K")?)?),
            "exact" => config.exact = true,
            "type" => config.scheduler = Some(scheduler(words)?),
            "reorder" => config.reorder = Some(reorder(words)?),
            "duplicate" => config.duplicate = Some(chance(words, "the share of packets that come twice")?),
            _ if of_queue(words, word, &mut config.queue)? => {}
            _ => return Err(unknown(word, "pipe", PIPE)),
        }
    }
    Ok(config)
}

/// `SHARE`, or `SHARE/PACKETS`.
fn reorder(words: &mut Tokens<'_>) -> Result<Reorder, Fault> {
    const WHAT: &str = "the share of packets that are held back";
    let word =
        words.take("the share of packets that are held back, and how many overtake one, such as 0.01/5")?;
    let (held, by) = word.split_once('/').map_or((word, None), |(held, by)| (held, Some(by)));
    let by = by.map(|by| by.number("packets that overtake one", 1..=REORDER_MAX)).transpose()?;
    Ok(Reorder { share: share(held, WHAT)?.unwrap_or(u32::MAX), by: by.unwrap_or(REORDER_USUAL) })
}

/// A share of 2³², of which the largest is all.
fn chance(words: &mut Tokens<'_>, what: &str) -> Result<u32, Fault> {
    let word = words.take(&format!("{what}, such as 0.01"))?;
    Ok(share(word, what)?.unwrap_or(u32::MAX))
}

fn unknown(word: Word<'_>, of: &str, known: &[&'static str]) -> Fault {
    match refuse(Place::Parameters, word) {
        Err(fault) => fault,
        Ok(()) => {
            word.unknown(&format!("parameter of a {of}"), known.iter().copied()).expected(known.join(", "))
        }
    }
}

/// Reads a parameter that queues and pipes share; `false` if the word is none.
fn of_queue(words: &mut Tokens<'_>, word: Word<'_>, queue: &mut QueueConfig) -> Result<bool, Fault> {
    match word.text {
        "weight" => queue.weight = Some(number_of(words, "a weight", 1..=100)?),
        "queue" => queue.limit = Some(unit::queue_limit(words.take("packets, or Kbytes")?)?),
        "plr" => queue.loss = Some(chance(words, "the share of packets that are lost")?),
        "mask" => queue.mask = unit::mask(words)?,
        "buckets" => queue.buckets = Some(number_of(words, "buckets", 4..=65536)?),
        "noerror" => queue.noerror = true,
        "droptail" => queue.aqm = None,
        "red" | "gred" => queue.aqm = Some(red(words.take("w_q/min_th/max_th/max_p")?, word.is("gred"))?),
        "codel" => {
            let default = CodelWords { target_us: 5000, interval_us: 100_000, ..CodelWords::default() };
            let CodelWords { target_us, interval_us, ecn, .. } = default.read(words, false)?;
            queue.aqm = Some(Aqm::Codel { target_us, interval_us, ecn });
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `w_q/min_th/max_th/max_p`.
fn red(word: Word<'_>, gentle: bool) -> Result<Aqm, Fault> {
    const EXPECTED: &str = "w_q/min_th/max_th/max_p, such as 0.002/10/30/0.1: the weight of the newest length, the \
                            lengths from which some and all are dropped, and the share dropped before that";
    let parts: Vec<Word<'_>> = word.split('/').collect();
    let &[weight, min, max, max_p] = parts.as_slice() else {
        return Err(word.fault(format!("`{}` has not four parts", word.text)).expected(EXPECTED));
    };
    let part = |word: Word<'_>| match word.text.parse() {
        Ok(value) if 0.0 < value && value <= 1.0 => Ok(value),
        _ => Err(word.fault(format!("`{}` is not above 0 and at most 1", word.text)).expected(EXPECTED)),
    };
    let length = |word: Word<'_>| word.number("an average length, packets", 1..=65535_u32);
    let (weight, min, max, max_p) = (part(weight)?, length(min)?, length(max)?, part(max_p)?);
    if min >= max {
        return Err(word.fault("min_th is not less than max_th").expected(EXPECTED));
    }
    Ok(Aqm::Red { weight, min, max, max_p, gentle })
}

fn scheduler(words: &mut Tokens<'_>) -> Result<Scheduler, Fault> {
    const EXPECTED: &str = "fifo, wf2q+, rr or fq_codel";
    let word = words.take(EXPECTED)?;
    Ok(match word.text.to_ascii_lowercase().as_str() {
        "fifo" => Scheduler::Fifo,
        "wf2q+" => Scheduler::Wf2q,
        "rr" => Scheduler::Rr,
        "fq_codel" => {
            let default = CodelWords {
                target_us: 5000,
                interval_us: 100_000,
                quantum: 1514,
                limit: 10_240,
                flows: 1024,
                ecn: true,
            };
            let CodelWords { target_us, interval_us, quantum, limit, flows, ecn } =
                default.read(words, true)?;
            Scheduler::FqCodel { target_us, interval_us, quantum, limit, flows, ecn }
        }
        _ => {
            refuse(Place::Scheduler, word)?;
            return Err(word.unknown("scheduler", ["fifo", "wf2q+", "rr", "fq_codel"]).expected(EXPECTED));
        }
    })
}

/// Parameters of CoDel, and of it with queues for flows.
#[derive(Default)]
struct CodelWords {
    target_us: u32,
    interval_us: u32,
    quantum: u32,
    limit: u32,
    flows: u32,
    ecn: bool,
}

impl CodelWords {
    /// Reads those that come next.
    fn read(mut self, words: &mut Tokens<'_>, has_flows: bool) -> Result<Self, Fault> {
        while let Some(word) = words.peek() {
            match word.text {
                "target" | "interval" => {
                    words.skip();
                    let time = unit::time_us(words.take("a time, such as 5ms")?)?;
                    *(if word.is("target") { &mut self.target_us } else { &mut self.interval_us }) = time;
                }
                "ecn" | "noecn" => {
                    words.skip();
                    self.ecn = word.is("ecn");
                }
                "quantum" if has_flows => {
                    words.skip();
                    self.quantum = number_of(words, "bytes of a turn", 1..=9000)?;
                }
                "limit" if has_flows => {
                    words.skip();
                    self.limit = number_of(words, "packets", 1..=20_480)?;
                }
                "flows" if has_flows => {
                    words.skip();
                    self.flows = number_of(words, "flows", 1..=65_536)?;
                }
                _ => break,
            }
        }
        Ok(self)
    }
}
