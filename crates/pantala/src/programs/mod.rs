//! Unmodified programs on this stack: the daemon's side.
//!
//! ```text
//!   program + libpantala_preload.so          this thread                           netisrs
//!     bind, connect ── request ───────────▶ requests ─▶ sockets::aio ── lanes ──────────▶
//!     accept ◀── descriptor, SCM_RIGHTS ─── listener ◀── accepted ───────────────────
//!     read, write ══ one Unix pair each ═══ relay ══ bytes ═══════════════════════════
//! ```
//!
//! A program's socket is one end of a pair of Unix sockets, and the kernel gives it what a descriptor has: `dup`, `fork`,
//! `exec`, `epoll`, `sendfile`, `O_NONBLOCK`, time limits, `SIGPIPE`. Bytes need no hook in the program. The program and this
//! thread share no memory, so a program that is killed, stopped or corrupt is a Unix socket that hangs up, is full or says
//! what is no request; its connections end, and nothing else.
//!
//! One thread relays, and no netisr waits for it. A program that does not read fills its Unix socket, then the lane, then the
//! peer's window.
//!
//! | module | what it is |
//! |---|---|
//! | [`requests`] | the Unix socket where programs ask, and its users |
//! | [`registry`] | sockets by number, their owners, limits, and how connections ended |
//! | [`pair`] | pairs of Unix sockets, their names, and descriptors that go over |
//! | [`listener`] | a bound socket: hands accepted connections over |
//! | [`relay`] | a connection: bytes both ways, and its end |
//! | [`datagrams`] | a socket of datagrams: messages both ways |
//! | [`errors`] | errors of datagrams, as Linux tells them |
//! | [`groups`] | groups of a socket, with their source filters |
//! | [`heads`] | headers of datagrams in files, where a supervisor answers calls |
//! | [`options`] | options of Linux as settings of the stack |
//! | [`info`] | `struct tcp_info` |
//! | [`interfaces`] | interfaces and addresses, as programs learn them |
//! | [`process`] | the processes that have sockets |
//! | [`listing`] | what `pantala ps` shows |

mod registry;
mod requests;
mod listener;
mod pair;
mod relay;
mod datagrams;
mod errors;
mod groups;
mod heads;
mod options;
mod info;
mod interfaces;
mod process;
mod listing;

use std::io;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::thread;

use net::msg::Remote;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

pub(crate) use self::listing::Asker;
pub(crate) use self::registry::Limits;
use self::registry::Registry;
use crate::daemon::{log, privileges};
use crate::sockets::Sockets;

/// Starts the thread that serves programs at `listener`, for as long as the process lives, and returns what asks it.
pub(crate) fn start(listener: UnixListener, remotes: Vec<Remote>, limits: Limits) -> io::Result<Asker> {
    let (asker, mut asked) = Asker::new();
    let sockets = Sockets::open(&remotes)?;
    let runtime = Builder::new_current_thread().enable_io().build()?;
    thread::Builder::new().name("programs".to_owned()).spawn(move || {
        privileges::drop_all();
        let registry = Rc::new(Registry::new(sockets, remotes, limits));
        let local = LocalSet::new();
        let told = Rc::clone(&registry);
        local.spawn_local(async move {
            while let Some(question) = asked.recv().await {
                question(&told);
            }
        });
        let Err(why) = local.block_on(&runtime, requests::serve(listener, registry));
        log::warning(&format!("programs are no longer served: {why}"));
    })?;
    Ok(asker)
}
