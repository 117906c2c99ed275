//! Settings of IPv6 autoconfiguration.

/// The only prefixes that leave room for an identifier.
pub const PREFIX_LEN: u8 = 64;

/// The autoconfiguration of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoconfSettings {
    /// Interface identifiers of its addresses.
    pub identifiers: Identifiers,
    /// Whether it also makes addresses that only live for a day or two (RFC 8981).
    pub temporary: bool,
    /// Number of duplicate address detection probes (`DupAddrDetectTransmits` of RFC 4862 §5.1); 0
    /// counts as 1.
    pub dad_transmits: u8,
    /// Whether these questions carry a nonce, by which one that comes back over a loop is known (RFC 7527).
    pub dad_nonce: bool,
}

/// The kind of interface identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identifiers {
    /// Made of the link address: everybody sees whose device it is, on whatever link (RFC 4291 appendix A).
    Eui64,
    /// Made of prefix, interface and a secret: the same whenever the interface comes back to the link, and another on
    /// each link (RFC 7217).
    Stable {
        /// The machine's secret.
        secret: u128,
    },
    /// Negotiated with the other end of a link (RFC 5072 §4.1).
    Negotiated {
        /// The identifier.
        id: u64,
    },
}
