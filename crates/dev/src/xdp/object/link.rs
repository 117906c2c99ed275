//! Puts a program together: its function, those that it calls, and the maps that they use.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex};

use super::btf::{Fields, Types};
use super::{Function, INSNS_MAX, MAPS_MAX, MapDef, ObjectError, functions};
use crate::bpf::asm::Insn;

/// A program with all its parts.
pub(super) struct Linked {
    pub(super) maps: Vec<MapDef>,
    pub(super) insns: Vec<Insn>,
}

const ARRAY: u32 = 2;
const RDONLY_PROG: u32 = 1 << 7;
/// Functions of a program, as in the kernel.
const FUNCTIONS_MAX: usize = 256;
/// In place of a source register: the descriptor of a map, the address of its value.
const MAP_FD: u8 = 1;
const MAP_VALUE: u8 = 2;

struct Linker<'e, 'f> {
    elf: &'e object::File<'f>,
    functions: Vec<Function>,
    definitions: BTreeMap<String, Option<Fields>>,
    /// Where functions begin that are there already.
    placed: BTreeMap<(usize, u64), usize>,
    waiting: Vec<Function>,
    insns: Vec<Insn>,
    maps: Vec<MapDef>,
}

/// Links the program `function`.
pub(super) fn link(
    elf: &object::File<'_>,
    program: &Function,
    _: SectionIndex,
) -> Result<Linked, ObjectError> {
    let types = elf.section_by_name(".BTF").and_then(|section| section.data().ok());
    let definitions = types.and_then(Types::parse).map(|types| types.maps()).unwrap_or_default();
    let mut linker = Linker {
        elf,
        functions: functions(elf),
        definitions,
        placed: BTreeMap::new(),
        waiting: Vec::new(),
        insns: Vec::new(),
        maps: Vec::new(),
    };
    // Calls are filled in when all functions have their places.
    let mut calls = linker.add(program)?;
    while let Some(function) = linker.waiting.pop() {
        if !linker.placed.contains_key(&key(&function)) {
            calls.extend(linker.add(&function)?);
        }
    }
    for (at, target) in calls {
        let to = linker.placed.get(&target).copied();
        let distance = to.and_then(|to| i32::try_from(to.cast_signed() - at.cast_signed() - 1).ok());
        linker.insns[at].set_immediate(distance.ok_or_else(|| malformed("a call leads nowhere"))?);
    }
    Ok(Linked { maps: linker.maps, insns: linker.insns })
}

/// A call that is to be filled in: its place, and the function that it leads to.
type Call = (usize, (usize, u64));

impl Linker<'_, '_> {
    /// Appends a function.
    fn add(&mut self, function: &Function) -> Result<Vec<Call>, ObjectError> {
        if self.placed.len() >= FUNCTIONS_MAX {
            return Err(malformed("more than 256 functions"));
        }
        let section =
            self.elf.section_by_index(function.section).map_err(|_| malformed("no such section"))?;
        let data = section.data().map_err(|_| malformed("a section lies outside of the file"))?;
        let (from, end) = (function.address, function.address.checked_add(function.size));
        let body = end.and_then(|end| data.get(index(from)?..index(end)?));
        let body = body
            .ok_or_else(|| malformed(&format!("function `{}` lies outside of its section", function.name)))?;
        let start = self.insns.len();
        if body.len() % 8 != 0 || start + body.len() / 8 > INSNS_MAX {
            return Err(malformed(&format!(
                "function `{}` has an odd length, or is too long",
                function.name
            )));
        }
        self.placed.insert(key(function), start);
        self.insns.extend(body.as_chunks().0.iter().map(|bytes| Insn::from_bytes(*bytes)));
        let mut calls = self.own_calls(function, start)?;
        for (offset, relocation) in section.relocations() {
            let Some(at) = offset.checked_sub(from).filter(|at| at / 8 < body.len() as u64 / 8) else {
                continue;
            };
            let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
            let at = start + index(at / 8).unwrap_or(0);
            let symbol = self.elf.symbol_by_index(symbol).map_err(|_| malformed("no such symbol"))?;
            if self.insns[at].is_local_call() {
                calls.retain(|(other, _)| *other != at);
                calls.push((at, self.called(&symbol, at)?));
            } else {
                self.map(&symbol, at)?;
            }
        }
        calls.iter().for_each(|(_, target)| {
            let found = self.functions.iter().find(|function| key(function) == *target);
            self.waiting.extend(found.cloned());
        });
        Ok(calls)
    }

    /// Calls within a section, which need no relocation.
    fn own_calls(&self, function: &Function, start: usize) -> Result<Vec<Call>, ObjectError> {
        let mut calls = Vec::new();
        for (at, insn) in self.insns.iter().enumerate().skip(start).filter(|(_, insn)| insn.is_local_call()) {
            let here = index(function.address / 8).unwrap_or(0) + at - start;
            let target =
                i64::try_from(here).ok().and_then(|here| here.checked_add(i64::from(insn.immediate()) + 1));
            let target = target.and_then(|target| u64::try_from(target).ok());
            // One that has a relocation has -1 here, and is replaced.
            let target = target.ok_or_else(|| malformed("a call leads out of its section"))?;
            calls.push((at, (function.section.0, target * 8)));
        }
        Ok(calls)
    }

    /// The function that a relocated call leads to.
    fn called(&self, symbol: &object::Symbol<'_, '_>, at: usize) -> Result<(usize, u64), ObjectError> {
        let name = symbol.name().unwrap_or_default();
        let section = symbol.section_index().ok_or_else(|| {
            malformed(&format!(
                "function `{name}` is not in the file (functions of the kernel cannot be called)"
            ))
        })?;
        let behind = (i64::from(self.insns[at].immediate()) + 1) * 8;
        let address = symbol.address().checked_add_signed(behind);
        Ok((section.0, address.ok_or_else(|| malformed("a call leads out of its section"))?))
    }

    /// Lets an instruction load the map, or the address of the variable, that a symbol stands for.
    fn map(&mut self, symbol: &object::Symbol<'_, '_>, at: usize) -> Result<(), ObjectError> {
        let name = symbol.name().unwrap_or_default().to_owned();
        let section = symbol.section_index().and_then(|at| self.elf.section_by_index(at).ok());
        let Some(section) = section else {
            return Err(malformed(&format!("symbol `{name}` is not in the file")));
        };
        let section_name = section.name().unwrap_or_default().to_owned();
        if !self.insns[at].is_wide_load() || at + 1 >= self.insns.len() {
            return Err(malformed(&format!("a relocation of `{name}` is not at a load of an address")));
        }
        if section.kind() == object::SectionKind::Text {
            return Err(malformed(&format!(
                "the address of function `{name}` is taken: callbacks are not supported"
            )));
        }
        let (map, source) = match section_name.as_str() {
            ".maps" => (self.defined(&name)?, MAP_FD),
            "maps" => (old(&section, symbol, &name)?, MAP_FD),
            _ => (variables(&section, &section_name)?, MAP_VALUE),
        };
        let known = self.maps.iter().position(|one| one.name == map.name);
        let position = known.unwrap_or_else(|| {
            self.maps.push(map);
            self.maps.len() - 1
        });
        if self.maps.len() > MAPS_MAX {
            return Err(malformed(&format!("more than {MAPS_MAX} maps")));
        }
        let position = i32::try_from(position).unwrap_or(i32::MAX);
        let offset = self.insns[at].immediate().wrapping_add(i32::try_from(symbol.address()).unwrap_or(0));
        self.insns[at].set_map(source, position);
        self.insns[at + 1].set_immediate(if source == MAP_VALUE { offset } else { 0 });
        Ok(())
    }

    /// A map of the section `.maps`.
    fn defined(&self, name: &str) -> Result<MapDef, ObjectError> {
        let wrong = |why: &str| ObjectError::Map { name: name.to_owned(), why: why.to_owned() };
        let fields = self.definitions.get(name);
        let fields = fields.ok_or_else(|| wrong("no BTF describes it; compile with `-g`"))?;
        let fields = fields.as_ref().ok_or_else(|| wrong("its definition cannot be read"))?;
        let number = |name: &str| fields.get(name).copied();
        let size = |size: &str, of: &str| number(size).or_else(|| number(of)).unwrap_or(0);
        Ok(MapDef {
            name: name.to_owned(),
            kind: number("type").ok_or_else(|| wrong("it has no `type`"))?,
            key_size: size("key_size", "key"),
            value_size: size("value_size", "value"),
            entries: number("max_entries").unwrap_or(0),
            flags: number("map_flags").unwrap_or(0),
            pinned: number("pinning").unwrap_or(0) == 1,
            data: Vec::new(),
        })
    }
}

/// A map of the section `maps`, the older way: five numbers.
fn old(
    section: &object::Section<'_, '_>,
    symbol: &object::Symbol<'_, '_>,
    name: &str,
) -> Result<MapDef, ObjectError> {
    let at = index(symbol.address());
    let bytes = section.data().ok().and_then(|data| data.get(at?..)?.first_chunk::<20>());
    let bytes = bytes.ok_or_else(|| ObjectError::Map {
        name: name.to_owned(),
        why: "its definition lies outside of its section".to_owned(),
    })?;
    let mut words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    let mut next = || words.next().unwrap_or(0);
    let (kind, key_size, value_size, entries, flags) = (next(), next(), next(), next(), next());
    let name = name.to_owned();
    Ok(MapDef { name, kind, key_size, value_size, entries, flags, pinned: false, data: Vec::new() })
}

/// The map of a section of variables: an array of one.
fn variables(section: &object::Section<'_, '_>, name: &str) -> Result<MapDef, ObjectError> {
    const VARIABLES_MAX: u64 = 1 << 20;
    let wrong = |why: &str| ObjectError::Map { name: name.to_owned(), why: why.to_owned() };
    if ![".data", ".rodata", ".bss"].iter().any(|prefix| name.starts_with(prefix)) {
        return Err(wrong("not a section of maps or variables"));
    }
    let size = u32::try_from(section.size().min(VARIABLES_MAX + 1)).unwrap_or(0);
    if u64::from(size) > VARIABLES_MAX || size == 0 {
        return Err(wrong("no variables, or more than 1 MiB of them"));
    }
    let mut data = section.data().map_err(|_| wrong("it lies outside of the file"))?.to_vec();
    data.resize(size as usize, 0);
    let flags = if name.starts_with(".rodata") { RDONLY_PROG } else { 0 };
    let name = name.to_owned();
    Ok(MapDef { name, kind: ARRAY, key_size: 4, value_size: size, entries: 1, flags, pinned: false, data })
}

const fn key(function: &Function) -> (usize, u64) {
    (function.section.0, function.address)
}

fn index(number: u64) -> Option<usize> {
    usize::try_from(number).ok()
}

fn malformed(why: &str) -> ObjectError {
    ObjectError::Malformed(why.to_owned())
}
