//! `pantala up`: a stack that runs on this machine.
//!
//! | module | what it is |
//! |---|---|
//! | [`bring_up`] | the configuration becomes CPUs, devices and tables |
//! | [`netisr_thread`], [`idle`], [`share`] | a pinned thread that turns for ever, how it waits, what it leaves to others |
//! | [`cpus`], [`seats`] | all of them, how they are asked, and which has which ring |
//! | [`device`] | what packets come from and go to |
//! | [`tables`] | interfaces and routes as the netisrs want them |
//! | [`sites`] | web servers |
//! | [`firewall`] | rules, states and what else the firewall is told |
//! | [`control`], [`reload`], [`learn`], [`stack`] | the control thread: what it knows, what it changes, learns and answers |
//! | [`signals`], [`privileges`], [`entropy`], [`machine`], [`clock`], [`log`] | the operating system |
//!
//! The control thread and the netisrs share nothing that is written, counters apart: it sends messages.

mod bring_up;
mod clock;
mod control;
pub(crate) mod cpus;
pub(crate) mod device;
pub(crate) mod entropy;
mod firewall;
mod idle;
mod learn;
pub(crate) mod log;
mod machine;
mod netisr_thread;
pub(crate) mod privileges;
mod reload;
mod rest;
mod routing;
mod seats;
mod share;
mod signals;
mod sites;
mod stack;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Runtime};

use crate::api::DEFAULT_SOCKET;
use crate::api::server::{BindError, Server};
use crate::config::{Config, ConfigError, Machine};
use control::Control;
use learn::Learning;
use signals::Signals;

/// Why the stack did not run, or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpError {
    /// The configuration is wrong, or cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration does not fit the devices of this machine.
    #[error("{0}")]
    Misfit(String),
    /// The control socket.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// The memory for packets.
    #[error("{0}")]
    Memory(pkt::ArenaError),
    /// A device.
    #[error("interface {interface}: {why}")]
    Device {
        /// The interface that was to have it.
        interface: String,
        /// What is wrong with it.
        why: String,
    },
    /// A netisr does not answer, or has panicked.
    #[error("{0}")]
    Netisr(String),
    /// The operating system refused something else.
    #[error("{doing}: {why}")]
    System {
        /// What was to be done.
        doing: &'static str,
        /// What it said.
        why: std::io::Error,
    },
}

/// Runs the stack in the foreground until a signal ends it. `socket` is where it is to be controlled from, if not
/// where the configuration says.
pub(crate) fn up(file: &Path, socket: Option<PathBuf>) -> Result<(), UpError> {
    run(file, Config::load(file, &Machine::here())?, socket, || Ok(()))
}

/// The same with a configuration that was read already; `attach` is called when devices are there.
pub(crate) fn run(
    file: &Path,
    config: Config,
    socket: Option<PathBuf>,
    attach: impl FnOnce() -> Result<(), UpError>,
) -> Result<(), UpError> {
    let socket = socket.or_else(|| config.socket.clone()).unwrap_or_else(|| DEFAULT_SOCKET.into());
    // Bound first: it is what keeps a second pantala from taking the devices of the first.
    let server = Server::bind(&socket)?;
    let runtime = runtime()?;
    let signals = runtime.block_on(async { Signals::listen() }).map_err(system("listen to signals"))?;
    let (control, learning) = bring_up::bring_up(file, config)?;
    attach()?;
    privileges::drop_for_control();
    log::info(&format!("ready, controlled at {}", socket.display()));
    let control = Arc::new(Mutex::new(control));
    let served = runtime.block_on(serve(&server, &control, signals, learning));
    drop(runtime);
    locked(&control).shut_down();
    log::info("ended");
    served
}

/// Current-thread: the thread that polls this is the only one that touches the control state.
fn runtime() -> Result<Runtime, UpError> {
    Builder::new_current_thread().enable_all().build().map_err(system("start the control thread"))
}

/// Serves the admin API and obeys signals until one says to end.
async fn serve(
    server: &Server,
    control: &Arc<Mutex<Control>>,
    signals: Signals,
    learning: Learning,
) -> Result<(), UpError> {
    let crashed = locked(control).crashed();
    let mut outcome = Ok(());
    let ended = async {
        tokio::select! {
            () = signals.obey(control) => {}
            () = learn::learn(control, learning) => {}
            () = crashed.notified() => {
                outcome = Err(UpError::Netisr("a netisr has panicked; the stack ends".to_owned()));
            }
        }
    };
    let stack: Arc<Mutex<Control>> = Arc::clone(control);
    server.serve(stack, ended).await.map_err(system("serve the control socket"))?;
    outcome
}

fn locked(control: &Mutex<Control>) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

fn system(doing: &'static str) -> impl Fn(std::io::Error) -> UpError {
    move |why| UpError::System { doing, why }
}
