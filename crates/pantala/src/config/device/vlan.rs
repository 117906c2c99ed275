//! `vlan:INTERFACE,VID` and `qinq:INTERFACE,VID`.

use core::fmt;

use wire::EtherType;
use wire::ether::Tag;

use crate::config::problem::Wrong;

/// Tagged frames of another interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Vlan {
    /// The type of the tag.
    pub kind: TagKind,
    /// The name of the interface.
    pub parent: String,
    /// VLAN identifier, 1 to 4094.
    pub vid: u16,
}

/// The type of a VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TagKind {
    /// C-TAG: 802.1Q.
    Customer,
    /// S-TAG: 802.1ad.
    Service,
}

impl TagKind {
    /// Its word in the configuration.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Customer => "vlan",
            Self::Service => "qinq",
        }
    }

    /// The type that stands in the tag.
    pub(crate) const fn tpid(self) -> EtherType {
        match self {
            Self::Customer => EtherType::VLAN,
            Self::Service => EtherType::QINQ,
        }
    }
}

impl Vlan {
    pub(super) fn parse(kind: TagKind, rest: &str) -> Result<Self, Wrong> {
        let word = kind.word();
        let grammar = || format!("write {word}:INTERFACE,VID, as in {word}:lan,10");
        let Some((parent, vid)) = rest.split_once(',') else {
            return Err(Wrong::new(format!("`{word}:{rest}` names no VLAN"), grammar()));
        };
        if parent.is_empty() {
            return Err(Wrong::new(format!("`{word}:{rest}` names no interface"), grammar()));
        }
        let parent = parent.to_owned();
        match vid.parse() {
            Ok(vid) if (1..=Tag::VID_MAX).contains(&vid) => Ok(Self { kind, parent, vid }),
            _ => Err(Wrong::new(
                format!("`{vid}` is no VLAN identifier"),
                format!("use a number from 1 to {}", Tag::VID_MAX),
            )),
        }
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{},{}", self.kind.word(), self.parent, self.vid)
    }
}
