//! The section `[routes]`: routes of others, from FRR's zebra by FPM and from the kernel's tables.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;

use net::fib::{FIBS_MAX, FibIndex};

use super::fields::Fields;
use super::problem::{Report, Wrong};
use crate::routes::protocol;
use diagnostic::did_you_mean;

const KEYS: &[&str] = &["fpm", "kernel", "distance"];
const FPM: &[&str] = &["listen", "namespace", "interfaces", "ignore", "tables", "stale_s"];
const KERNEL: &[&str] = &["table", "namespace", "interfaces", "ignore", "tables"];
/// FRR's own port for this.
const PORT: u16 = 2620;
/// Seconds that routes of an ended session stay.
const STALE_S: u32 = 120;
/// The kernel's main table.
const TABLE: u32 = wire::rtnetlink::RT_TABLE_MAIN;
/// Longest name of a network namespace that is a file's.
const NAMESPACE_MAX: usize = 255;

/// Routes of others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteSources {
    /// FRR's zebra, if it may connect.
    pub fpm: Option<Fpm>,
    /// A table of the kernel, if its routes are taken over.
    pub kernel: Option<KernelTable>,
    /// Administrative distances that differ from the defaults, by the protocol's number.
    pub distances: BTreeMap<u8, u8>,
}

/// FRR's zebra.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fpm {
    /// Where it connects.
    pub listen: SocketAddr,
    /// Seconds that routes of an ended session stay, unless the next session has them too.
    pub stale_s: u32,
    /// Keys that all sources have.
    pub common: Common,
}

/// A table of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTable {
    /// Its number.
    pub table: u32,
    /// Keys that all sources have.
    pub common: Common,
}

/// Keys of all sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// The network namespace in which the source's interfaces are, by its name; that of the process if `None`.
    pub namespace: Option<String>,
    /// Interfaces by the names that they have there, where these are others than here.
    pub interfaces: BTreeMap<String, String>,
    /// Protocols whose routes are not taken, by number.
    pub ignore: Vec<u8>,
    /// Routing tables here by the numbers of tables there, besides the one that is table 0.
    pub tables: BTreeMap<u32, FibIndex>,
}

impl Common {
    /// The routing table here for table `table` there, where `main` is table 0; `None` if its routes are not taken.
    pub(crate) fn fib(&self, table: u32, main: u32) -> Option<FibIndex> {
        let named = self.tables.get(&table).copied();
        named.or_else(|| (table == main).then_some(0))
    }
}

impl RouteSources {
    /// The administrative distance of a protocol.
    pub(crate) fn distance(&self, protocol: u8) -> u8 {
        self.distances.get(&protocol).copied().unwrap_or_else(|| protocol::distance(protocol))
    }
}

pub(super) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> RouteSources {
    let Some(fields) = section(top, "routes", "[routes]", KEYS, report) else {
        return RouteSources::default();
    };
    RouteSources {
        fpm: section(&fields, "fpm", "[routes.fpm]", FPM, report).map(|fields| fpm(&fields, report)),
        kernel: section(&fields, "kernel", "[routes.kernel]", KERNEL, report)
            .map(|fields| kernel(&fields, report)),
        distances: distances(&fields, report),
    }
}

fn section<'t>(
    of: &Fields<'t>,
    key: &str,
    name: &str,
    known: &[&str],
    report: &mut Report<'_>,
) -> Option<Fields<'t>> {
    let span = of.key(key)?;
    let Some(table) = of.section(key) else {
        report.add(&span, format!("`{key}` must be a section, {name}"), "it has keys of its own");
        return None;
    };
    Some(Fields::new(table.value, table.span, &format!("in {name}"), known, report))
}

fn fpm(fields: &Fields<'_>, report: &mut Report<'_>) -> Fpm {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    Fpm {
        listen: fields.parsed("listen", listen, report).map_or(usual, |at| at.value),
        stale_s: fields.number("stale_s", 1..=86_400, report).map_or(STALE_S, |at| at.value),
        common: common(fields, report),
    }
}

fn kernel(fields: &Fields<'_>, report: &mut Report<'_>) -> KernelTable {
    let table = fields.number("table", 1..=u32::MAX, report).map_or(TABLE, |at| at.value);
    KernelTable { table, common: common(fields, report) }
}

fn common(fields: &Fields<'_>, report: &mut Report<'_>) -> Common {
    let ignore = match fields.key("ignore") {
        Some(_) => fields.parsed_list("ignore", number, report).into_iter().map(|at| at.value).collect(),
        None => protocol::IGNORED.to_vec(),
    };
    Common {
        namespace: fields.parsed("namespace", namespace, report).map(|at| at.value),
        interfaces: fields.parsed_list("interfaces", pair, report).into_iter().map(|at| at.value).collect(),
        ignore,
        tables: fields.parsed_list("tables", tables, report).into_iter().map(|at| at.value).collect(),
    }
}

/// Reads the number of a table there, and of one here.
fn tables(text: &str) -> Result<(u32, FibIndex), Wrong> {
    let fib = |word: &str| word.parse().ok().filter(|fib| *fib < FIBS_MAX);
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [there, here] => there.parse().ok().filter(|there| *there > 0).zip(fib(here)),
        _ => None,
    }
    .ok_or_else(|| {
        let help = "write the number of a table there and of a fib here, as in \"100 1\"";
        Wrong::new(format!("`{text}` is not the numbers of two routing tables"), help)
    })
}

fn distances(fields: &Fields<'_>, report: &mut Report<'_>) -> BTreeMap<u8, u8> {
    let names: Vec<&str> = protocol::names().collect();
    let Some(fields) = section(fields, "distance", "[routes.distance]", &names, report) else {
        return BTreeMap::new();
    };
    let mut distances = BTreeMap::new();
    for name in names {
        let given = fields.number(name, 1..=254, report).and_then(|at| u8::try_from(at.value).ok());
        distances.extend(protocol::number(name).zip(given));
    }
    distances
}

fn listen(text: &str) -> Result<SocketAddr, Wrong> {
    let help = "write an address of the kernel with a port, as in 127.0.0.1:2620";
    text.parse().map_err(|_| Wrong::new(format!("bad address `{text}`"), help))
}

fn namespace(name: &str) -> Result<String, Wrong> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAMESPACE_MAX || name.starts_with('.') || !name.chars().all(is_usual) {
        let help = "use a name that `ip netns` lists";
        return Err(Wrong::new(format!("`{name}` cannot be the name of a network namespace"), help));
    }
    Ok(name.to_owned())
}

/// Reads two names of an interface: there, and here.
fn pair(text: &str) -> Result<(String, String), Wrong> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [there, here] => Ok((there.to_owned(), here.to_owned())),
        _ => Err(Wrong::new(
            format!("`{text}` is not two names of an interface"),
            "write its name there and its name here, as in \"eth1 wan\"",
        )),
    }
}

fn number(name: &str) -> Result<u8, Wrong> {
    protocol::number(name).or_else(|| name.parse().ok()).ok_or_else(|| {
        let names: Vec<&str> = protocol::names().collect();
        Wrong::new(format!("unknown protocol `{name}`"), did_you_mean(name, &names))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<RouteSources, String> {
        let text = format!("{text}\n[[interface]]\ndevice = \"tap:pt-x\"\n");
        let parsed = Config::parse("t", &text, &Machine { cpus: vec![0] });
        parsed.map(|config| config.route_sources).map_err(|why| why.to_string())
    }

    #[test]
    fn without_the_section_nothing_listens_and_no_table_is_read() {
        assert_eq!(parse(""), Ok(RouteSources::default()));
    }

    #[test]
    fn empty_sections_mean_frr_as_it_is_by_default_and_the_main_table() {
        let sources = parse("[routes.fpm]\n[routes.kernel]\n").unwrap();
        let fpm = sources.fpm.unwrap();
        assert_eq!((fpm.listen.to_string().as_str(), fpm.stale_s), ("127.0.0.1:2620", STALE_S));
        assert_eq!(sources.kernel.unwrap().table, 254);
        assert_eq!(fpm.common.ignore, protocol::IGNORED);
    }

    #[test]
    fn keys_are_read() {
        let text = "[routes.kernel]\ntable = 100\nnamespace = \"frr\"\ninterfaces = [\"eth1 wan\"]\nignore = \"ospf\"\n\
                    [routes.distance]\nbgp = 200\n";
        let sources = parse(text).unwrap();
        assert_eq!((sources.distance(186), sources.distance(188)), (200, 110));
        let KernelTable { table, common } = sources.kernel.unwrap();
        assert_eq!((table, common.namespace.as_deref(), common.ignore), (100, Some("frr"), vec![188]));
        assert_eq!(common.interfaces.get("eth1").map(String::as_str), Some("wan"));
    }

    #[test]
    fn what_cannot_be_is_refused_where_it_stands() {
        for (text, says) in [
            ("routes = 1", "`routes` must be a section"),
            ("[routes]\nfpm = true", "`fpm` must be a section"),
            ("[routes.fpm]\nlisten = \"127.0.0.1\"", "bad address"),
            ("[routes.fpm]\nignore = \"bpg\"", "unknown protocol"),
            ("[routes.kernel]\nnamespace = \"../x\"", "cannot be the name"),
            ("[routes.kernel]\ninterfaces = \"eth1\"", "not two names"),
            ("[routes.distance]\nbgp = 255", "too large"),
            ("[routes.distance]\nbpg = 20", "unknown key"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn other_tables_are_taken_into_those_that_are_named() {
        let sources = parse("fibs = 3\n[routes.fpm]\ntables = [\"100 1\", \"254 2\"]\n").unwrap();
        let common = sources.fpm.unwrap().common;
        assert_eq!([100, 254, 255].map(|table| common.fib(table, 254)), [Some(1), Some(2), None]);
        let sources = parse("fibs = 2\n[routes.kernel]\ntable = 7\ntables = \"8 1\"\n").unwrap();
        let common = sources.kernel.unwrap().common;
        assert_eq!([7, 8, 254].map(|table| common.fib(table, 7)), [Some(0), Some(1), None]);
    }
}
