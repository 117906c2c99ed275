//! Interfaces and their addresses, as programs learn them.

use core::net::IpAddr;

use super::{Put, Take};

/// Bytes of a record.
pub const RECORD_LEN: usize = 36;
/// Records behind a reply at the most.
pub const RECORDS_MAX: usize = 32;
/// Bytes of the records behind a reply.
pub const PAGE_LEN: usize = RECORD_LEN * RECORDS_MAX;
/// Bytes of a name, with the NUL behind it (`IFNAMSIZ` of Linux).
pub const INTERFACE_NAME_LEN: usize = 16;
/// Programs see the number of an interface plus this, so that it is none of the kernel's.
pub const INTERFACE_BASE: u32 = 1 << 30;

/// Returns the number of an interface as programs see it; 0, which is none, as it is.
#[must_use]
pub const fn seen_number(interface: u32) -> u32 {
    if interface == 0 { 0 } else { interface | INTERFACE_BASE }
}

/// Returns the number of an interface that a program names. Its number without [`INTERFACE_BASE`] names it, too.
#[must_use]
pub const fn own_number(seen: u32) -> u32 {
    seen & !INTERFACE_BASE
}

/// An interface, or an address of the one whose record stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceRecord {
    /// An interface.
    Interface {
        /// Its number.
        number: u32,
        /// Its name, and zeros.
        name: [u8; INTERFACE_NAME_LEN],
        /// Its flags, as Linux numbers them.
        flags: u32,
        /// Bytes of the largest packet.
        mtu: u32,
        /// Its link address, if it has one.
        link: Option<[u8; 6]>,
    },
    /// An address.
    Address {
        /// The number of its interface.
        number: u32,
        /// The address.
        ip: IpAddr,
        /// Bits of its prefix.
        prefix: u8,
    },
}

impl InterfaceRecord {
    /// Returns a name in the form of a record. What is too long is cut.
    #[must_use]
    pub fn name(text: &str) -> [u8; INTERFACE_NAME_LEN] {
        let mut name = [0; INTERFACE_NAME_LEN];
        for (place, byte) in name.iter_mut().take(INTERFACE_NAME_LEN - 1).zip(text.bytes()) {
            *place = byte;
        }
        name
    }

    /// Writes a record.
    #[must_use]
    pub fn emit(&self) -> [u8; RECORD_LEN] {
        let put = Put::<RECORD_LEN>::default();
        match *self {
            Self::Interface { number, name, flags, mtu, link } => {
                let put = put.byte(1).bytes(&number.to_be_bytes()).bytes(&name).bytes(&flags.to_be_bytes());
                put.bytes(&mtu.to_be_bytes()).byte(link.is_some().into()).bytes(&link.unwrap_or_default())
            }
            Self::Address { number, ip, prefix } => {
                put.byte(2).bytes(&number.to_be_bytes()).ip(ip).byte(prefix)
            }
        }
        .bytes
    }

    /// Reads a record; `None` if it is none.
    #[must_use]
    pub fn parse(bytes: &[u8; RECORD_LEN]) -> Option<Self> {
        let mut take = Take(bytes);
        let (kind, number) = (take.byte()?, u32::from_be_bytes(take.array()?));
        match kind {
            1 => {
                let name: [u8; INTERFACE_NAME_LEN] = take.array()?;
                let (flags, mtu) = (u32::from_be_bytes(take.array()?), u32::from_be_bytes(take.array()?));
                let link = match take.byte()? {
                    0 => None,
                    _ => Some(take.array()?),
                };
                // A C program looks for its end.
                name.ends_with(&[0]).then_some(Self::Interface { number, name, flags, mtu, link })
            }
            2 => {
                let (ip, prefix) = (take.ip()?, take.byte()?);
                let width = if ip.is_ipv4() { 32 } else { 128 };
                (prefix <= width).then_some(Self::Address { number, ip, prefix })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_of_an_interface_is_read_as_it_was_written(
            number: u32, text in "[a-z0-9.]{0,20}", flags: u32, mtu: u32, mac: [u8; 6], has_link: bool,
            ip: [u8; 16], four: [u8; 4], prefix in 0..=32_u8,
        ) {
            let name = InterfaceRecord::name(&text);
            prop_assert!(name.starts_with(&text.as_bytes()[..text.len().min(15)]) && name[15] == 0);
            let link = has_link.then_some(mac);
            for record in [
                InterfaceRecord::Interface { number, name, flags, mtu, link },
                InterfaceRecord::Address { number, ip: ip.into(), prefix: prefix * 4 },
                InterfaceRecord::Address { number, ip: four.into(), prefix },
            ] {
                prop_assert_eq!(InterfaceRecord::parse(&record.emit()), Some(record));
            }
        }

        #[test]
        fn any_bytes_are_a_record_of_an_interface_or_none(bytes in prop::collection::vec(any::<u8>(), RECORD_LEN)) {
            if let Some(record) = bytes.first_chunk().and_then(InterfaceRecord::parse) {
                prop_assert_eq!(InterfaceRecord::parse(&record.emit()), Some(record));
            }
        }

        #[test]
        fn numbers_that_programs_see_name_the_interface(number: u16) {
            let number = u32::from(number);
            prop_assert_eq!((own_number(seen_number(number)), own_number(number)), (number, number));
        }
    }
}
