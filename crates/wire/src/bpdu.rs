//! Bridge protocol data units of the spanning tree protocols: IEEE 802.1D-2004 clause 9.
//!
//! A unit is the payload of an 802.3 frame: its first three bytes are the LLC header.

use core::fmt;

use crate::ether::Mac;
use crate::{NoRoom, build};

/// Where units are sent to (802.1D-2004 table 7-10): no bridge forwards them.
pub const GROUP: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0]);
/// LLC header of a unit: both service access points of bridges, unnumbered information.
const LLC: [u8; 3] = [0x42, 0x42, 0x03];
/// Bytes of the LLC header.
pub const LLC_LEN: usize = LLC.len();
/// Bytes of the longest unit that is emitted, with its LLC header.
pub const LEN_MAX: usize = LLC_LEN + RST_LEN;
const TCN_LEN: usize = 4;
const CONFIG_LEN: usize = 35;
const RST_LEN: usize = 36;
/// Types of units.
const CONFIG: u8 = 0;
const TCN: u8 = 0x80;
const RST: u8 = 2;
/// Version of the rapid spanning tree protocol.
const RAPID: u8 = 2;

/// The identifier of a bridge: less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeId {
    /// Its priority; the lower twelve bits are a system ID extension.
    pub priority: u16,
    /// Its address.
    pub mac: Mac,
}

/// A priority vector: less is better (802.1D-2004 §17.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vector {
    /// The root of the tree.
    pub root: BridgeId,
    /// Cost of the path to it.
    pub cost: u32,
    /// The bridge that says so.
    pub bridge: BridgeId,
    /// Its port: priority in the upper four bits, number in the lower twelve.
    pub port: u16,
}

/// Timer values, each in 1/256 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Times {
    /// Age of the information.
    pub message_age: u16,
    /// Age at which it is discarded.
    pub max_age: u16,
    /// Time between units.
    pub hello: u16,
    /// Time that a port spends in each of listening and learning.
    pub forward_delay: u16,
}

/// Flags of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// Topology change.
    pub const TC: u8 = 0x01;
    /// Proposal.
    pub const PROPOSAL: u8 = 0x02;
    /// Learning.
    pub const LEARNING: u8 = 0x10;
    /// Forwarding.
    pub const FORWARDING: u8 = 0x20;
    /// Agreement.
    pub const AGREEMENT: u8 = 0x40;
    /// Topology change acknowledged.
    pub const TCA: u8 = 0x80;

    /// Whether this flag is set.
    #[must_use]
    pub const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// Returns the port role.
    #[must_use]
    pub const fn role(self) -> Role {
        match self.0 >> 2 & 3 {
            0 => Role::Unknown,
            1 => Role::AlternateOrBackup,
            2 => Role::Root,
            _ => Role::Designated,
        }
    }

    /// This role, too.
    #[must_use]
    pub const fn with_role(self, role: Role) -> Self {
        Self(self.0 & !0x0c | (role as u8) << 2)
    }
}

/// The role that a port says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// None.
    Unknown,
    /// Alternate or backup port.
    AlternateOrBackup,
    /// Root port.
    Root,
    /// Designated port.
    Designated,
}

/// The content of a unit: a port's view of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Config {
    /// Flags; of a configuration unit [`Flags::TC`] and [`Flags::TCA`] alone have a meaning.
    pub flags: Flags,
    /// Priority vector.
    pub vector: Vector,
    /// Timer values.
    pub times: Times,
}

/// A unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bpdu {
    /// Configuration, of STP.
    Config(Config),
    /// Topology change notification, of STP.
    Tcn,
    /// Rapid spanning tree.
    Rst(Config),
}

impl Bpdu {
    /// Reads the payload of a frame. What follows the unit is ignored.
    ///
    /// # Errors
    /// All of [`Error`].
    ///
    /// # Spec
    /// IEEE 802.1D-2004 §9.3.4: a higher version is read as the rapid one.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let bytes = payload.strip_prefix(&LLC).ok_or(Error::NotLlc)?;
        let have = bytes.len();
        let &[p0, p1, version, kind] = bytes.first_chunk().ok_or(Error::Short { have })?;
        if [p0, p1] != [0, 0] {
            return Err(Error::Protocol { id: u16::from_be_bytes([p0, p1]) });
        }
        let config = |len: usize| {
            let read = bytes.get(..len).and_then(|bytes| bytes.get(TCN_LEN..)).and_then(config);
            read.ok_or(Error::Short { have })
        };
        match kind {
            TCN => Ok(Self::Tcn),
            CONFIG => Ok(Self::Config(config(CONFIG_LEN)?)),
            RST if version >= RAPID => Ok(Self::Rst(config(RST_LEN)?)),
            kind => Err(Error::Kind { version, kind }),
        }
    }

    /// Writes the unit, behind its LLC header, to the front of `out`; answers how many bytes it has.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter; [`LEN_MAX`] is enough.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let mut writer = build::Writer::new(out);
        writer.put(&LLC)?;
        match self {
            Self::Tcn => writer.put(&[0, 0, 0, TCN])?,
            Self::Config(config) => {
                writer.put(&[0, 0, 0, CONFIG])?;
                put_config(&mut writer, config)?;
            }
            Self::Rst(config) => {
                writer.put(&[0, 0, RAPID, RST])?;
                put_config(&mut writer, config)?;
                // There is nothing of version 1.
                writer.put(&[0])?;
            }
        }
        Ok(writer.len())
    }
}

fn config(bytes: &[u8]) -> Option<Config> {
    let (&[flags], rest) = bytes.split_first_chunk()?;
    let (root, rest) = rest.split_first_chunk()?;
    let (cost, rest) = rest.split_first_chunk()?;
    let (bridge, rest) = rest.split_first_chunk()?;
    let mut words =
        rest.chunks_exact(2).filter_map(<[u8]>::first_chunk).map(|word| u16::from_be_bytes(*word));
    let mut word = || words.next();
    let vector = Vector {
        root: BridgeId::from_bytes(*root),
        cost: u32::from_be_bytes(*cost),
        bridge: BridgeId::from_bytes(*bridge),
        port: word()?,
    };
    let times = Times { message_age: word()?, max_age: word()?, hello: word()?, forward_delay: word()? };
    Some(Config { flags: Flags(flags), vector, times })
}

fn put_config(writer: &mut build::Writer<'_>, config: &Config) -> Result<(), NoRoom> {
    let Config { flags, vector, times } = config;
    writer.put(&[flags.0])?;
    writer.put(&vector.root.to_bytes())?;
    writer.put(&vector.cost.to_be_bytes())?;
    writer.put(&vector.bridge.to_bytes())?;
    for word in [vector.port, times.message_age, times.max_age, times.hello, times.forward_delay] {
        writer.put(&word.to_be_bytes())?;
    }
    Ok(())
}

impl BridgeId {
    /// Reads the eight bytes of an identifier.
    #[must_use]
    pub const fn from_bytes([hi, lo, a, b, c, d, e, f]: [u8; 8]) -> Self {
        Self { priority: u16::from_be_bytes([hi, lo]), mac: Mac([a, b, c, d, e, f]) }
    }

    /// Returns the eight bytes of the identifier.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let ([hi, lo], [a, b, c, d, e, f]) = (self.priority.to_be_bytes(), self.mac.octets());
        [hi, lo, a, b, c, d, e, f]
    }
}

impl fmt::Display for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}.{}", self.priority, self.mac)
    }
}

/// Why bytes are no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// They do not begin with the LLC header of bridges.
    NotLlc,
    /// Fewer bytes than its type needs.
    Short {
        /// Bytes there were.
        have: usize,
    },
    /// Another protocol of bridges.
    Protocol {
        /// Its identifier.
        id: u16,
    },
    /// An unknown type, or one of another version.
    Kind {
        /// Version.
        version: u8,
        /// Type.
        kind: u8,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLlc => f.write_str("no LLC header of a bridge"),
            Self::Short { have } => write!(f, "a BPDU of {have} bytes is too short for its type"),
            Self::Protocol { id } => write!(f, "a BPDU of the unknown protocol {id:#06x}"),
            Self::Kind { version, kind } => {
                write!(f, "a BPDU of unknown type {kind:#04x}, version {version}")
            }
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use std::borrow::ToOwned as _;
    use std::vec::Vec;

    use super::*;

    fn sample() -> Config {
        let root = BridgeId { priority: 0x1000, mac: Mac([2, 0, 0, 0, 0, 1]) };
        let bridge = BridgeId { priority: 0x8000, mac: Mac([2, 0, 0, 0, 0, 2]) };
        let vector = Vector { root, cost: 20_000, bridge, port: 0x8003 };
        let times = Times { message_age: 256, max_age: 20 * 256, hello: 512, forward_delay: 15 * 256 };
        Config { flags: Flags(Flags::PROPOSAL | Flags::LEARNING).with_role(Role::Designated), vector, times }
    }

    #[test]
    fn a_rapid_unit_has_the_bytes_of_the_standard() {
        let mut out = [0; LEN_MAX];
        assert_eq!(Bpdu::Rst(sample()).emit(&mut out), Ok(LEN_MAX));
        let expected = [
            0x42, 0x42, 3, 0, 0, 2, 2, 0x1e, 0x10, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0x4e, 0x20, 0x80, 0, 2, 0, 0,
            0, 0, 2, 0x80, 3, 1, 0, 20, 0, 2, 0, 15, 0, 0,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn each_unit_is_read_as_it_was_written_and_none_that_is_cut() {
        for bpdu in [Bpdu::Rst(sample()), Bpdu::Config(sample()), Bpdu::Tcn] {
            let mut out = [0; LEN_MAX];
            let len = bpdu.emit(&mut out).unwrap();
            assert_eq!(Bpdu::parse(&out[..len]), Ok(bpdu));
            for cut in 0..len {
                assert!(Bpdu::parse(&out[..cut]).is_err(), "{bpdu:?} of {cut} bytes");
                assert!(bpdu.emit(&mut out[..cut].to_owned()).is_err());
            }
        }
    }

    #[test]
    fn other_protocols_and_types_are_refused() {
        let unit = |version, kind| -> Vec<u8> { [&LLC[..], &[0, 0, version, kind], &[0; 32]].concat() };
        assert_eq!(Bpdu::parse(&unit(0, 2)), Err(Error::Kind { version: 0, kind: 2 }));
        assert_eq!(Bpdu::parse(&unit(2, 5)), Err(Error::Kind { version: 2, kind: 5 }));
        assert!(matches!(Bpdu::parse(&unit(3, 2)), Ok(Bpdu::Rst(_))), "of a later version");
        assert!(matches!(Bpdu::parse(&unit(7, 0)), Ok(Bpdu::Config(_))));
        assert_eq!(Bpdu::parse(&[0xaa, 0xaa, 3, 0, 0]), Err(Error::NotLlc));
        let mut other = unit(2, 2);
        other[3] = 1;
        assert_eq!(Bpdu::parse(&other), Err(Error::Protocol { id: 0x100 }));
    }

    #[test]
    fn vectors_are_compared_root_first() {
        let best = sample().vector;
        let worse = [
            Vector { root: BridgeId { priority: 0x2000, ..best.root }, cost: 0, ..best },
            Vector { cost: best.cost + 1, bridge: BridgeId::default(), ..best },
            Vector { bridge: BridgeId { priority: 0xf000, ..best.bridge }, port: 0, ..best },
            Vector { port: 0x8004, ..best },
        ];
        assert!(worse.iter().all(|worse| best < *worse));
    }
}
