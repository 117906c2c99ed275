//! What sockets of datagrams have in common, UDP's and raw ones: how they behave, what waits to be read, and how what they
//! send becomes a packet that leaves from the CPU that its answers come to.

mod emit;
mod queue;
mod settings;

pub use self::emit::To;
pub(crate) use self::emit::{Aim, group_if, outif};
pub(crate) use self::queue::Queue;
pub use self::queue::{DATAGRAMS_MAX, QUEUE_BYTES, QUEUE_BYTES_MAX, Received};
pub use self::settings::Settings;
