//! Types of an object file (BTF), as far as definitions of maps need them.
//!
//! # Spec
//! The kernel's `Documentation/bpf/btf.rst`.

use std::collections::BTreeMap;

/// The types of a file.
pub(super) struct Types<'f> {
    types: Vec<Type<'f>>,
    strings: &'f [u8],
}

/// A type, with what stands behind its header.
#[derive(Clone, Copy)]
struct Type<'f> {
    name: u32,
    info: u32,
    /// Bytes, or the type that it refers to.
    size: u32,
    rest: &'f [u8],
}

/// Fields of a map's definition: numbers, and sizes of `key` and `value`.
pub(super) type Fields = BTreeMap<String, u32>;

const MAGIC: u16 = 0xeb9f;
/// Types that one refers to another through, at most.
const DEPTH_MAX: usize = 32;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const VAR: u32 = 14;
const DATASEC: u32 = 15;

impl<'f> Types<'f> {
    /// Reads the section `.BTF`.
    pub(super) fn parse(section: &'f [u8]) -> Option<Self> {
        let word = |at: usize| u32_at(section, at).and_then(|word| usize::try_from(word).ok());
        if section.first_chunk().map(|bytes| u16::from_le_bytes(*bytes)) != Some(MAGIC) {
            return None;
        }
        let (header, types_at, types_len, strings_at, strings_len) =
            (word(4)?, word(8)?, word(12)?, word(16)?, word(20)?);
        let part = |at: usize, len: usize| {
            let from = header.checked_add(at)?;
            section.get(from..from.checked_add(len)?)
        };
        let strings = part(strings_at, strings_len)?;
        let mut left = part(types_at, types_len)?;
        // Type 0 is void.
        let mut types = vec![Type { name: 0, info: 0, size: 0, rest: &[] }];
        while !left.is_empty() {
            let (name, info, size) = (u32_at(left, 0)?, u32_at(left, 4)?, u32_at(left, 8)?);
            let rest = left.get(12..)?;
            let len = behind(info)?;
            types.push(Type { name, info, size, rest: rest.get(..len)? });
            left = rest.get(len..)?;
        }
        Some(Self { types, strings })
    }

    /// Definitions in the section `.maps`, by name.
    pub(super) fn maps(&self) -> BTreeMap<String, Option<Fields>> {
        let section = self.types.iter().find(|one| kind(one) == DATASEC && self.name(one.name) == ".maps");
        let variables = section.into_iter().flat_map(|section| section.rest.chunks_exact(12));
        let named = variables.filter_map(|entry| {
            let variable = self.get(u32_at(entry, 0)?).filter(|one| kind(one) == VAR)?;
            Some((self.name(variable.name).to_owned(), self.fields(variable.size)))
        });
        named.collect()
    }

    /// The fields of a structure of which a map is defined.
    fn fields(&self, at: u32) -> Option<Fields> {
        let definition = self.plain(at).filter(|one| kind(one) == STRUCT)?;
        let mut fields = Fields::new();
        for member in definition.rest.chunks_exact(12) {
            let (name, of) = (self.name(u32_at(member, 0)?), u32_at(member, 4)?);
            let Some(pointed) = self.plain(of).filter(|one| kind(one) == PTR).map(|one| one.size) else {
                continue; // `values`: the contents of an array of maps or programs
            };
            let value = match name {
                "key" | "value" => self.size(pointed, 0)?,
                _ => self
                    .plain(pointed)
                    .filter(|one| kind(one) == ARRAY)
                    .and_then(|one| u32_at(one.rest, 8))?,
            };
            fields.insert(name.to_owned(), value);
        }
        Some(fields)
    }

    /// Bytes of a type.
    fn size(&self, at: u32, depth: usize) -> Option<u32> {
        let of = self.plain(at)?;
        match kind(of) {
            PTR => Some(8),
            ARRAY if depth < DEPTH_MAX => {
                self.size(u32_at(of.rest, 0)?, depth + 1)?.checked_mul(u32_at(of.rest, 8)?)
            }
            // int, struct, union, enum, float, enum64
            1 | STRUCT | 5 | 6 | 16 | 19 => Some(of.size),
            _ => None,
        }
    }

    /// A type without its names and qualifiers.
    fn plain(&self, mut at: u32) -> Option<&Type<'f>> {
        for _ in 0..DEPTH_MAX {
            let one = self.get(at)?;
            match kind(one) {
                // typedef, volatile, const, restrict, tag
                8..=11 | 18 => at = one.size,
                _ => return Some(one),
            }
        }
        None
    }

    fn get(&self, at: u32) -> Option<&Type<'f>> {
        self.types.get(usize::try_from(at).ok()?)
    }

    fn name(&self, at: u32) -> &'f str {
        let text = usize::try_from(at).ok().and_then(|at| self.strings.get(at..)).unwrap_or_default();
        let text = core::ffi::CStr::from_bytes_until_nul(text).ok();
        text.and_then(|text| text.to_str().ok()).unwrap_or_default()
    }
}

const fn kind(of: &Type<'_>) -> u32 {
    of.info >> 24 & 0x1f
}

/// Bytes behind the header of a type.
fn behind(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    Some(match info >> 24 & 0x1f {
        1 | VAR | 17 => 4,
        PTR | 7..=12 | 16 | 18 => 0,
        ARRAY => 12,
        STRUCT | 5 | DATASEC | 19 => count * 12,
        6 | 13 => count * 8,
        _ => return None,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}
