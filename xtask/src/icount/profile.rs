//! Where the instructions are spent: callgrind's lines, brought back to the functions in whose text they stand.
//!
//! The fast path is inlined into a handful of functions, so callgrind's own table names those. Here each source line
//! is charged to the function around it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{KINDS, LONG, SHORT, callgrind};

/// Packets in one turn of the runs that are looked into.
const AT_ONCE: usize = 256;
/// Functions that are shown.
const SHOWN: usize = 40;

/// Instructions by source file and line.
type Lines = BTreeMap<(String, usize), u64>;

/// Prints the dearest functions of each kind of run.
pub(super) fn print(program: &PathBuf) -> Result<()> {
    for kind in KINDS {
        let before = lines(&callgrind(program, kind, AT_ONCE, SHORT)?)?;
        let after = lines(&callgrind(program, kind, AT_ONCE, LONG)?)?;
        println!("\n{kind}, {AT_ONCE} packets in a turn: instructions per packet");
        let mut functions: Vec<_> = by_function(&before, &after).into_iter().collect();
        functions.sort_by_key(|(_, spent)| core::cmp::Reverse(*spent));
        for (function, spent) in functions.iter().take(SHOWN) {
            println!("{:8.1}  {function}", *spent as f64 / (LONG - SHORT) as f64);
        }
    }
    Ok(())
}

fn by_function(before: &Lines, after: &Lines) -> BTreeMap<String, u64> {
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut functions = BTreeMap::new();
    for ((file, line), spent) in after {
        let more = spent.saturating_sub(before.get(&(file.clone(), *line)).copied().unwrap_or(0));
        let text = texts.entry(file).or_insert_with(|| read(file));
        let place = format!("{} {}", short(file), enclosing(text, *line));
        *functions.entry(place).or_insert(0) += more;
    }
    functions.retain(|_, spent| *spent > 0);
    functions
}

fn read(file: &str) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The function in whose text the line stands: the last one that begins above it.
fn enclosing(text: &[String], line: usize) -> String {
    let above = text.get(..line).unwrap_or(text).iter().rev();
    let head =
        above.filter_map(|line| line.trim_start().split_once("fn ")).find(|(before, _)| is_head(before));
    head.map_or_else(
        || format!("line {line}"),
        |(_, rest)| rest.split(['(', '<']).next().unwrap_or_default().into(),
    )
}

fn is_head(before: &str) -> bool {
    before.split_whitespace().all(|word| {
        matches!(word, "const" | "unsafe" | "async" | "extern")
            || word.starts_with("pub")
            || word.starts_with('"')
    })
}

/// The end of a path: enough to find the file.
fn short(file: &str) -> String {
    let parts: Vec<_> = Path::new(file).components().map(|part| part.as_os_str().to_string_lossy()).collect();
    let keep = if file.contains("/crates/") { 4 } else { 3 };
    parts[parts.len().saturating_sub(keep)..].join("/")
}

/// Reads callgrind's output: "fl=", "fi=" and "fe=" change the file, and lines of numbers are costs. What is called is
/// counted where it runs, so the line after "calls=" is passed over.
fn lines(text: &str) -> Result<Lines> {
    let mut names = BTreeMap::new();
    let (mut lines, mut file, mut at, mut is_call) = (Lines::new(), String::new(), 0_usize, false);
    for line in text.lines() {
        if let Some(name) = ["fl=", "fi=", "fe="].iter().find_map(|key| line.strip_prefix(key)) {
            file = named(&mut names, name);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            let (place, cost) = line.split_once(' ').context("a cost without a number")?;
            at = position(at, place)?;
            if !core::mem::take(&mut is_call) {
                *lines.entry((file.clone(), at)).or_insert(0) += cost.trim().parse::<u64>()?;
            }
        }
    }
    Ok(lines)
}

/// `(7) name` tells the name, `(7)` uses it again.
fn named(names: &mut BTreeMap<String, String>, field: &str) -> String {
    match field.split_once(") ") {
        Some((id, name)) => {
            names.insert(format!("{id})"), name.to_owned());
            name.to_owned()
        }
        None => names.get(field).cloned().unwrap_or_else(|| field.to_owned()),
    }
}

/// A line's number: itself, or relative to the one before.
fn position(before: usize, field: &str) -> Result<usize> {
    let place = match (field.strip_prefix('+'), field.strip_prefix('-')) {
        _ if field == "*" => before,
        (Some(more), _) => before + more.parse::<usize>()?,
        (_, Some(less)) => before.saturating_sub(less.parse()?),
        _ => field.parse()?,
    };
    Ok(place)
}
