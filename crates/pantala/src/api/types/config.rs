//! The running configuration and changes to it.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// One change of the running configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum ConfigEdit {
    /// Adds an interface.
    Create {
        /// Its name.
        interface: String,
        /// Its device, as in the configuration file.
        device: String,
    },
    /// Removes an interface.
    Destroy {
        /// Its name.
        interface: String,
    },
    /// Adds an address.
    AddAddress {
        /// The interface.
        interface: String,
        /// The address with its prefix length.
        #[cfg_attr(feature = "admin", schemars(with = "String"))]
        address: IpNet,
    },
    /// Removes an address.
    RemoveAddress {
        /// The interface.
        interface: String,
        /// The address; a prefix as long as the address stands for any.
        #[cfg_attr(feature = "admin", schemars(with = "String"))]
        address: IpNet,
    },
    /// Replaces the first address of the family, or adds one.
    ReplaceAddress {
        /// The interface.
        interface: String,
        /// The address with its prefix length.
        #[cfg_attr(feature = "admin", schemars(with = "String"))]
        address: IpNet,
    },
    /// Sets a key of an interface.
    Set {
        /// The interface.
        interface: String,
        /// The key, as in the configuration file.
        key: String,
        /// Its value.
        value: String,
    },
    /// Adds to a list of an interface, or replaces what it has of the same station or port.
    Insert {
        /// The interface.
        interface: String,
        /// The list, as in the configuration file: `fdb`, `private`, `span` or `stp_port`; `member`: the ports of a bridge.
        key: String,
        /// The element.
        value: String,
    },
    /// Removes from a list of an interface.
    Remove {
        /// The interface.
        interface: String,
        /// The list.
        key: String,
        /// The element, or its first word.
        value: String,
    },
    /// Removes a key of an interface: its default is in force.
    Unset {
        /// The interface.
        interface: String,
        /// The key.
        key: String,
    },
}

/// Changes that come into force together, or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfigEdits {
    /// The changes, in their order.
    pub edits: Vec<ConfigEdit>,
    /// Name in the history: the command line.
    #[serde(default)]
    pub title: String,
}

/// Options of a reload or an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ReloadRequest {
    /// Seconds after which it is rolled back unless it is confirmed.
    pub confirm_s: Option<u32>,
    /// Confirms the one before, and reloads nothing.
    pub confirmed: bool,
}

/// Changes to take back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// Number of changes, the last ones.
    pub count: u32,
}

/// The running configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct RunningConfiguration {
    /// The file that it was read from.
    pub file: String,
    /// The text of the file when it was read last.
    pub loaded: String,
    /// The text that is in force.
    pub running: String,
    /// Changes that can be undone, the last one first.
    pub history: Vec<String>,
    /// Seconds until the last reload is rolled back, if it waits for a confirmation.
    pub confirm_s: Option<u64>,
}
