//! Common parts of datagram sockets, UDP's and raw ones: settings, receive queues, groups that they
//! listen to, what their programs are told, and how what they send becomes a packet that leaves from the CPU that its answers
//! come to.

mod base;
mod output;
mod listen;
pub(crate) mod membership;
mod queue;
mod settings;
pub(crate) mod watch;

pub(crate) use self::base::{Base, Id};
pub use self::listen::{Listen, MEMBERSHIPS_MAX};
pub(crate) use self::listen::{leave_all, listen, memberships};
pub(crate) use self::output::{Aim, check_size, group_if, outif};
pub use self::output::{To, link_mtu};
pub use self::queue::{DATAGRAMS_MAX, QUEUE_BYTES, QUEUE_BYTES_MAX, Received};
pub(crate) use self::queue::{Queue, Record};
pub use self::settings::Settings;
