//! Object files with XDP programs, as clang and gcc write them: ELF with maps, relocations, and BTF for the maps' definitions.
//!
//! The file may say anything: nothing is read without a check. Relocations of BTF (CO-RE) are not applied; structures of the
//! kernel's user interface, of which XDP programs are made, have the same offsets everywhere.

mod btf;
mod link;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionIndex};

use crate::bpf::asm::Insn;

/// A program of an object file, ready to be loaded: functions that it calls are behind it, and instructions that load the
/// address of a map have the map's position in [`Object::maps`] in place of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Name of the program's function.
    pub program: String,
    /// Whether it takes frames in several pieces: its section is `xdp.frags`.
    pub frags: bool,
    /// Its license.
    pub license: String,
    /// Maps of the file that the program uses.
    pub maps: Vec<MapDef>,
    /// Instructions.
    pub insns: Vec<Insn>,
}

/// The definition of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDef {
    /// Its name in the program, or that of its section (`.data`).
    pub name: String,
    /// The kernel's number of its type (`BPF_MAP_TYPE_…`).
    pub kind: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Entries at most.
    pub entries: u32,
    /// Flags (`BPF_F_…`).
    pub flags: u32,
    /// Whether user space finds it by its name below `/sys/fs/bpf`.
    pub pinned: bool,
    /// Contents of the first value, of a section of variables; empty otherwise.
    pub data: Vec<u8>,
}

/// Why a file holds no program that could be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// No ELF file.
    #[error("not an ELF file ({0}); compile with `clang -O2 -g -target bpf -c prog.c -o prog.o`")]
    NotElf(String),
    /// A file for another processor.
    #[error(
        "not an object file for BPF of little endian; compile with `clang -O2 -g -target bpf -c prog.c -o prog.o`"
    )]
    NotBpf,
    /// No program for XDP.
    #[error("no XDP program in it: a function in a section `xdp`, as `SEC(\"xdp\")` makes it")]
    NoProgram,
    /// Several, of which none was chosen.
    #[error("several XDP programs in it; write which one behind a colon, as in `prog.o:{}` (there are {})", .0.first().map_or("NAME", String::as_str), .0.join(", "))]
    Several(Vec<String>),
    /// None has this name.
    #[error("no XDP program or section `{wanted}` in it (there are {})", .there.join(", "))]
    NotFound {
        /// The name that was asked for.
        wanted: String,
        /// Names of functions.
        there: Vec<String>,
    },
    /// Something is not as it should be.
    #[error("{0}")]
    Malformed(String),
    /// A map without a definition that can be read.
    #[error("map `{name}`: {why}")]
    Map {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
}

/// The largest file that is read.
pub const FILE_MAX: u64 = 16 << 20;
/// Maps of a program.
pub const MAPS_MAX: usize = 64;
/// Instructions of a program, as in the kernel for users with privileges.
pub const INSNS_MAX: usize = 1_000_000;

impl Object {
    /// Reads a program out of a file: the one of this function or section, or the only one.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn parse(file: &[u8], chosen: Option<&str>) -> Result<Self, ObjectError> {
        let elf =
            object::File::parse(file).map_err(|why| ObjectError::NotElf(why.to_string().to_lowercase()))?;
        if elf.architecture() != object::Architecture::Bpf || !elf.is_little_endian() {
            return Err(ObjectError::NotBpf);
        }
        let (section, program) = choose(&programs(&elf), chosen)?;
        let linked = link::link(&elf, &program, section)?;
        let license = elf.section_by_name("license").and_then(|section| section.data().ok());
        let license = license.and_then(|text| core::ffi::CStr::from_bytes_until_nul(text).ok());
        Ok(Self {
            frags: elf
                .section_by_index(section)
                .is_ok_and(|section| section.name().is_ok_and(|name| name.starts_with("xdp.frags"))),
            license: license.map_or_else(|| "GPL".to_owned(), |text| text.to_string_lossy().into_owned()),
            program: program.name,
            maps: linked.maps,
            insns: linked.insns,
        })
    }
}

/// A function of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    name: String,
    section_name: String,
    section: SectionIndex,
    address: u64,
    size: u64,
}

/// All functions of the file.
fn functions(elf: &object::File<'_>) -> Vec<Function> {
    let functions = elf.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
    let found = functions.filter_map(|symbol| {
        let section = symbol.section_index()?;
        Some(Function {
            name: symbol.name().ok()?.to_owned(),
            section_name: elf.section_by_index(section).ok()?.name().ok()?.to_owned(),
            section,
            address: symbol.address(),
            size: symbol.size(),
        })
    });
    found.filter(|function| function.size > 0 && !function.name.is_empty()).collect()
}

/// Functions in sections whose names say that they are XDP programs.
fn programs(elf: &object::File<'_>) -> Vec<Function> {
    let is_xdp = |name: &str| {
        ["xdp", "xdp.frags"].iter().any(|word| {
            name.strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with('_'))
        })
    };
    let mut all = functions(elf);
    all.retain(|function| is_xdp(&function.section_name) && is_global(elf, function));
    all
}

/// Static functions in a program's section are parts of programs.
fn is_global(elf: &object::File<'_>, function: &Function) -> bool {
    elf.symbols().any(|symbol| symbol.is_global() && symbol.name() == Ok(&function.name))
}

fn choose(programs: &[Function], chosen: Option<&str>) -> Result<(SectionIndex, Function), ObjectError> {
    let names = || programs.iter().map(|program| program.name.clone()).collect::<Vec<_>>();
    let found = |program: &Function| Ok((program.section, program.clone()));
    let Some(wanted) = chosen else {
        return match programs {
            [] => Err(ObjectError::NoProgram),
            [one] => found(one),
            _ => Err(ObjectError::Several(names())),
        };
    };
    if programs.is_empty() {
        return Err(ObjectError::NoProgram);
    }
    if let Some(program) = programs.iter().find(|program| program.name == wanted) {
        return found(program);
    }
    let mut in_section = programs.iter().filter(|program| program.section_name == wanted);
    match (in_section.next(), in_section.next()) {
        (Some(one), None) => found(one),
        (Some(_), Some(_)) => Err(ObjectError::Several(
            programs
                .iter()
                .filter(|program| program.section_name == wanted)
                .map(|program| program.name.clone())
                .collect(),
        )),
        _ => Err(ObjectError::NotFound { wanted: wanted.to_owned(), there: names() }),
    }
}

#[cfg(test)]
mod tests;
