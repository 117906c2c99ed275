//! Changes of the stack, as a reader of them is told.

use core::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::Route;
use crate::Mac;

/// A change, and when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct StackChange {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
}

/// A change of routes, neighbours, addresses or interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A route by which packets go.
    Route {
        /// The change of it.
        op: ChangeOp,
        /// The route; as it was, if it is deleted.
        route: Box<Route>,
    },
    /// The link address of a neighbour.
    Neighbour {
        /// Learnt, changed or lost.
        op: ChangeOp,
        /// Its address.
        address: IpAddr,
        /// Its Ethernet address; the last one, if it is deleted.
        mac: Mac,
        /// The interface on whose link it is.
        interface: String,
    },
    /// An address of an interface.
    Address {
        /// Added or deleted.
        op: ChangeOp,
        /// The address and its prefix length.
        #[cfg_attr(feature = "admin", schemars(with = "String"))]
        address: IpNet,
        /// The interface.
        interface: String,
    },
    /// An interface.
    Interface {
        /// Created, destroyed, up or down.
        op: ChangeOp,
        /// Its name.
        interface: String,
    },
    /// Changes that the reader was too slow for.
    Lost {
        /// How many.
        count: u64,
    },
}

/// The way in which something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeOp {
    /// It was not there before.
    Added,
    /// It is there, and differs.
    Changed,
    /// It is there no more.
    Deleted,
    /// Packets go by it.
    Up,
    /// No packets go by it.
    Down,
}
