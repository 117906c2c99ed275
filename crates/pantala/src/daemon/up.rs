//! A stack in the foreground: `pantala up`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::running::{self, Source};
use super::service_manager::{self, ServiceManager};
use super::signals::Signals;
use super::{attend, bind, bring_up, identity, locked, log, memory, privileges, programs, runtime, system};
use crate::api::DEFAULT_SOCKET;
use crate::config::Config;
use crate::{StackError, descriptors};

/// Runs the stack in the foreground until a signal ends it. `socket` is where it is to be controlled from, if not
/// where the configuration says. `force`: take interfaces even if the machine is reached by them.
pub(crate) fn up(file: &Path, socket: Option<PathBuf>, force: bool) -> Result<(), StackError> {
    let (source, config) = running::read(file)?;
    run(Some(source), Config { force, ..config }, socket, || Ok(()))
}

/// Runs a stack with a configuration that was read already; `attach` is called when devices are there.
pub(crate) fn run(
    source: Option<Source>,
    config: Config,
    socket: Option<PathBuf>,
    attach: impl FnOnce() -> Result<(), StackError>,
) -> Result<(), StackError> {
    let socket = socket.or_else(|| config.socket.clone()).unwrap_or_else(|| DEFAULT_SOCKET.into());
    descriptors::raise_the_limit();
    let manager = Arc::new(ServiceManager::of_environment());
    let identity = identity::identity(&config)?;
    // Bound first: it is what keeps a second pantala from taking the devices of the first.
    let server = bind(&socket, &config, identity.as_ref())?;
    let program_socket = programs::bind(&config, identity.as_ref())?;
    identity::leave_root(identity.as_ref(), &config)?;
    let runtime = runtime()?;
    let signals = runtime.block_on(async { Signals::listen() }).map_err(system("listen to signals"))?;
    let file = source.as_ref().map(|source| source.file.clone());
    let (mut control, learning) = bring_up::bring_up(source, config)?;
    attach()?;
    programs::open(program_socket.as_ref(), &mut control)?;
    privileges::drop_for_control();
    identity::warn_of_what_is_out_of_reach(identity.as_ref(), file.as_deref());
    log::info(&format!("ready, controlled at {}", socket.display()));
    control.manager = Arc::clone(&manager);
    manager.ready(&control.summary());
    let control = Arc::new(Mutex::new(control));
    let until = async {
        tokio::select! {
            () = signals.obey(&control) => {}
            () = memory::give_back() => {}
            () = service_manager::keep_alive(&manager, &control) => {}
        }
    };
    let served = runtime.block_on(attend(Some(&server), &control, learning, until));
    drop(runtime);
    manager.stopping();
    if let Err(why) = locked(&control).shut_down() {
        log::warning(&format!("not everything was put back: {why}"));
    }
    log::info("ended");
    served
}
