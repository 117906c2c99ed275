//! TCP: connections, each on the CPU that its packets come to, and the answers of closed ports.
//!
//! ```text
//!   input ─▶ listeners ─▶ Half ─▶ Conn ─▶ Wait       calls: what programs ask
//!                                  │
//!                               output: what connections have to send, once for all that a chunk of packets brought
//! ```

mod input;
mod held;
mod listen;
mod syncache;
mod cookie;
mod pcbs;
mod calls;
mod errors;
mod signature;
mod build;
mod reset;
mod metrics_cache;
mod fastopen;
mod time_wait;
pub(crate) mod watch;

pub use ::tcb;
pub use ::tcb::rings::RINGS_BYTES_MAX;
pub use ::tcb::{buffer, congestion, receive, rtt, scoreboard, seq, settings};

pub use self::build::IpTxParams;
pub use self::calls::{
    Accepted, Connect, Ready, abort, accept, bind, change, change_listener, close, connect, connection,
    drop_connection, forget_paths, half_open, listen, listener_settings, local, open, peek, read,
    read_in_place, read_urgent, ready, send, send_shared, send_urgent, set_listener_tx_params, set_tx_params,
    shutdown, unlisten, waiting,
};
pub(crate) use self::errors::{can_have_sent, error};
pub(crate) use self::fastopen::KEY_LIFE;
pub use self::fastopen::{Opener, draw_cookie_keys, set_cookie_key};
pub(crate) use self::held::go_on;
pub use self::input::input;
pub(crate) use self::input::{expire, output_touched, roll_up};
pub use self::listen::{LISTENERS_MAX, ListedListener, Listen, ListenerId};
pub use self::metrics_cache::PATHS_MAX;
pub(crate) use self::pcbs::fetch;
pub use self::pcbs::{CONNECTIONS_MAX, HALVES_MAX, Id, Listed, Owner, PER_PAGE, Pcbs, WAITS_MAX};
pub use self::reset::refuse;
pub use self::signature::{KEY_LEN_MAX, KEYS_MAX, remove_key, set_key};

#[cfg(test)]
mod tests;
