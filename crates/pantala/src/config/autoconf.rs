//! The key `autoconf` of an interface: true, or a section with all of it.

use super::draft::unknown_word;
use super::fields::Fields;
use super::problem::{Report, Wrong};

const KEYS: &[&str] = &["identifiers", "temporary", "dad_transmits", "dad_nonce"];
/// With more questions than this, an address takes longer than a user waits.
const TRANSMITS_MAX: u32 = 10;

/// IPv6 autoconfiguration of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Autoconf {
    /// Interface identifiers of its addresses.
    pub identifiers: Identifiers,
    /// Whether it also makes addresses that live for a day or two only (RFC 8981).
    pub temporary: bool,
    /// Number of duplicate address detection probes (RFC 4862 §5.1).
    pub dad_transmits: u8,
    /// Whether such a question is known again if it comes back over a loop (RFC 7527).
    pub dad_nonce: bool,
}

/// The kind of interface identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identifiers {
    /// Something else on each link, the same whenever the machine comes back to it (RFC 7217).
    #[default]
    Stable,
    /// The Ethernet address (RFC 4291 appendix A).
    Eui64,
}

impl Default for Autoconf {
    fn default() -> Self {
        Self { identifiers: Identifiers::Stable, temporary: false, dad_transmits: 1, dad_nonce: true }
    }
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<Autoconf> {
    let usual = Autoconf::default();
    let Some(table) = interface.section("autoconf") else {
        return interface.truth("autoconf", report).filter(|at| at.value).map(|_| usual);
    };
    let fields = Fields::new(table.value, table.span, "in autoconf", KEYS, report);
    let transmits = fields.number("dad_transmits", 1..=TRANSMITS_MAX, report);
    let transmits = transmits.and_then(|at| u8::try_from(at.value).ok());
    let mut truth = |key, usual| fields.truth(key, report).map_or(usual, |at| at.value);
    let (temporary, dad_nonce) = (truth("temporary", usual.temporary), truth("dad_nonce", usual.dad_nonce));
    let identifiers = fields.parsed("identifiers", identifiers, report).map(|at| at.value);
    Some(Autoconf {
        identifiers: identifiers.unwrap_or_default(),
        temporary,
        dad_transmits: transmits.unwrap_or(usual.dad_transmits),
        dad_nonce,
    })
}

fn identifiers(word: &str) -> Result<Identifiers, Wrong> {
    match word {
        "stable" => Ok(Identifiers::Stable),
        "eui64" => Ok(Identifiers::Eui64),
        other => Err(unknown_word("identifiers", other, &["stable", "eui64"])),
    }
}
