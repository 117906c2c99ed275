//! The control thread of a stack that a program embeds.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::StackError;
use crate::daemon::control::Control;
use crate::daemon::ra_updates::Learning;
use crate::daemon::{Server, attend, locked, log, privileges, runtime, system};

/// A thread for work that no call asks for: takes over what is learnt of links, serves the admin API, and
/// notices when a netisr has panicked.
pub(super) struct Attendant {
    thread: JoinHandle<()>,
    stop: Arc<Notify>,
}

impl Attendant {
    pub(super) fn start(
        control: &Arc<Mutex<Control>>,
        learning: Learning,
        server: Option<Server>,
    ) -> Result<Self, StackError> {
        let (runtime, stop) = (runtime()?, Arc::<Notify>::default());
        let work = Work { control: Arc::clone(control), learning, server, stop: Arc::clone(&stop) };
        let thread = std::thread::Builder::new().name("pantala".to_owned()).spawn(move || work.run(&runtime));
        Ok(Self { thread: thread.map_err(system("start the control thread"))?, stop })
    }

    /// Whether it has ended by itself: a netisr has panicked.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(super) fn stop(self) {
        self.stop.notify_one();
        // It says so itself if it has panicked.
        let _ = self.thread.join();
    }
}

struct Work {
    control: Arc<Mutex<Control>>,
    learning: Learning,
    server: Option<Server>,
    stop: Arc<Notify>,
}

impl Work {
    fn run(self, runtime: &Runtime) {
        let Self { control, learning, server, stop } = self;
        privileges::drop_for_control();
        if let Err(why) = runtime.block_on(attend(server.as_ref(), &control, learning, stop.notified())) {
            log::error(&why.to_string());
        }
        // They find that the stack has ended.
        locked(&control).waiting().look();
    }
}
