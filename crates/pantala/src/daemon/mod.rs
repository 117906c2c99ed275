//! `pantala up`: a stack that runs on this machine.
//!
//! | module | what it is |
//! |---|---|
//! | [`bring_up`] | the configuration becomes CPUs, devices and tables |
//! | [`netisr_thread`], [`idle`], [`share`] | a pinned thread that turns for ever, how it waits, what it leaves to others |
//! | [`cpus`], [`ring_placement`] | all of them, how they are asked, and which has which ring |
//! | [`device`] | what packets come from and go to |
//! | [`tables`] | interfaces and routes as the netisrs want them |
//! | [`web`], [`services`] | web servers, and small services |
//! | [`firewall`] | rules, states and what else the firewall is told |
//! | [`hotplug`] | devices that go and come back |
//! | [`control`], [`reload`], [`switch`], [`ra_updates`], [`stack`] | the control thread: what it knows, what it changes, learns and answers |
//! | [`signals`], [`privileges`], [`entropy`], [`machine`], [`memory`], [`cgroup`], [`clock`], [`log`] | the operating system |
//!
//! The control thread and the netisrs share nothing that is written, counters apart: it sends messages.

pub(crate) mod bring_up;
mod cgroup;
mod clock;
pub(crate) mod control;
pub(crate) mod cpus;
pub(crate) mod device;
pub(crate) mod entropy;
mod firewall;
mod hotplug;
mod idle;
pub(crate) mod ra_updates;
pub(crate) mod log;
mod machine;
mod memory;
mod netisr_thread;
pub(crate) mod privileges;
mod reload;
mod sleep;
mod routing;
mod ring_placement;
mod services;
mod share;
mod signals;
mod web;
mod stack;
mod switch;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dev::sys::user::User;
use tokio::runtime::{Builder, Runtime};

use crate::StackError;
use crate::api::DEFAULT_SOCKET;
use crate::api::server::Server;
use crate::config::{Admin, Config, Machine};
use crate::descriptors;
use control::Control;
use ra_updates::Learning;
use signals::Signals;

/// Runs the stack in the foreground until a signal ends it. `socket` is where it is to be controlled from, if not
/// where the configuration says.
pub(crate) fn up(file: &Path, socket: Option<PathBuf>) -> Result<(), StackError> {
    run(Some(file.to_owned()), Config::load(file, &Machine::here())?, socket, || Ok(()))
}

/// Runs a stack with a configuration that was read already; `attach` is called when devices are there.
pub(crate) fn run(
    file: Option<PathBuf>,
    config: Config,
    socket: Option<PathBuf>,
    attach: impl FnOnce() -> Result<(), StackError>,
) -> Result<(), StackError> {
    let socket = socket.or_else(|| config.socket.clone()).unwrap_or_else(|| DEFAULT_SOCKET.into());
    descriptors::raise_the_limit();
    let identity = privileges::identity(&config)?;
    // Bound first: it is what keeps a second pantala from taking the devices of the first.
    let server = bind(&socket, &config, identity.as_ref())?;
    privileges::leave_root(identity.as_ref(), &config)?;
    let runtime = runtime()?;
    let signals = runtime.block_on(async { Signals::listen() }).map_err(system("listen to signals"))?;
    let (control, learning) = bring_up::bring_up(file.clone(), config)?;
    attach()?;
    privileges::drop_for_control();
    privileges::warn_of_what_is_out_of_reach(identity.as_ref(), file.as_deref());
    log::info(&format!("ready, controlled at {}", socket.display()));
    let control = Arc::new(Mutex::new(control));
    let until = async {
        tokio::select! {
            () = signals.obey(&control) => {}
            () = memory::give_back() => {}
        }
    };
    let served = runtime.block_on(attend(Some(&server), &control, learning, until));
    drop(runtime);
    if let Err(why) = locked(&control).shut_down() {
        log::warning(&format!("not everything was put back: {why}"));
    }
    log::info("ended");
    served
}

/// Binds the control socket at `path`, and the one that only shows, if the configuration has it.
pub(crate) fn bind(path: &Path, config: &Config, identity: Option<&User>) -> Result<Server, StackError> {
    let Admin { group, mode, read_socket, read_group, read_mode } = &config.admin;
    let server = Server::bind_for(path, &privileges::access(*mode, group.as_deref(), identity)?)?;
    let Some(path) = read_socket else { return Ok(server) };
    Ok(server.and_read_only(path, &privileges::access(*read_mode, read_group.as_deref(), identity)?)?)
}

/// Current-thread: the thread that polls this is the only one that touches the control state, unless a program that
/// embeds the stack does.
pub(crate) fn runtime() -> Result<Runtime, StackError> {
    Builder::new_current_thread().enable_all().build().map_err(system("start the control thread"))
}

/// Runs the control thread until `until` ends: serves the admin API, if there is to be one, and takes over what
/// is learned of links.
pub(crate) async fn attend(
    server: Option<&Server>,
    control: &Arc<Mutex<Control>>,
    learning: Learning,
    until: impl Future<Output = ()>,
) -> Result<(), StackError> {
    let crashed = locked(control).crashed();
    let mut outcome = Ok(());
    let ended = async {
        tokio::select! {
            () = until => {}
            () = ra_updates::learn(control, learning) => {}
            () = hotplug::watch(control) => {}
            () = crashed.notified() => {
                outcome = Err(StackError::Netisr("a netisr has panicked; the stack ends".to_owned()));
            }
        }
    };
    match server {
        Some(server) => {
            let stack: Arc<Mutex<Control>> = Arc::clone(control);
            server.serve(stack, ended).await.map_err(system("serve the control socket"))?;
        }
        None => ended.await,
    }
    outcome
}

pub(crate) fn locked(control: &Mutex<Control>) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn system(doing: &'static str) -> impl Fn(std::io::Error) -> StackError {
    move |why| StackError::System { doing, why }
}
