//! The thread that hears the netisrs' events, and wakes waiting callers. It is the one that a netisr wakes, and only
//! when it sleeps, so that no netisr ever wakes a task or takes a lock.

use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};

use net::channel::Size;
use net::msg::Remote;
use pkt::wake::Sleeper;

use super::endpoint::Endpoint;
use crate::daemon::privileges;

/// Opens channels to netisrs, and starts the thread, which ends with the last that uses them.
pub(super) fn start(remotes: &[Remote], size: Size) -> io::Result<Arc<Endpoint>> {
    let own = Arc::<OnceLock<Thread>>::default();
    let rung = Arc::clone(&own);
    // It has said which thread it is before it sleeps.
    let sleeper = Sleeper::new(Box::new(move || rung.get().into_iter().for_each(Thread::unpark)));
    let endpoint = Arc::new(Endpoint::open(remotes, size, sleeper.waker())?);
    let heard = Arc::downgrade(&endpoint);
    thread::Builder::new().name("sockets".to_owned()).spawn(move || {
        own.get_or_init(thread::current);
        privileges::drop_all();
        run(sleeper, &heard);
    })?;
    Ok(endpoint)
}

fn run(mut sleeper: Sleeper, endpoint: &Weak<Endpoint>) {
    while let Some(heard) = endpoint.upgrade() {
        heard.hear();
        sleeper.prepare_sleep();
        let is_idle = heard.is_idle();
        // It may have been the last that held it, which then rings.
        drop(heard);
        if is_idle {
            thread::park();
            sleeper.woken();
        } else {
            sleeper.cancel();
        }
    }
}
