//! `pantala up`: a stack that runs on this machine.
//!
//! | module | what it is |
//! |---|---|
//! | [`mod@up`] | a stack in the foreground, until a signal ends it |
//! | [`bring_up`] | the configuration becomes CPUs, devices and tables |
//! | [`netisr_thread`], [`idle`], [`cpu_share`] | a pinned thread that turns for ever, how it waits, what it leaves to others |
//! | [`cpus`], [`ring_placement`] | all of them, how they are asked, and which has which ring |
//! | [`device`] | what packets come from and go to |
//! | [`flow_offload`] | flows that drivers forward |
//! | [`tables`] | interfaces and routes as the netisrs want them |
//! | [`web`], [`services`] | web servers, and small services |
//! | [`programs`] | the socket of unmodified programs |
//! | [`dhcp`], [`dhcp_clients`] | DHCP servers, and clients |
//! | [`pppoe_clients`] | PPPoE clients |
//! | [`routing`], [`route_sources`] | the table of routes, and those of FRR and of the kernel |
//! | [`ipfix`], [`sflow`] | flows and samples, told to a collector |
//! | [`hotplug`] | devices that go and come back |
//! | [`control`], [`admin`], [`reload`], [`running`], [`switch`], [`ra_updates`], [`stack`] | the control thread: what it knows, what it changes, learns and answers |
//! | [`signals`], [`service_manager`], [`identity`], [`privileges`], [`entropy`], [`memory`], [`cgroup`], [`clock`], [`log`] | the operating system |
//!
//! The control thread and the netisrs share nothing that is written, counters and each CPU's [`report`] apart: it sends
//! messages.

#[cfg(feature = "admin")]
mod admin;
#[cfg(not(feature = "admin"))]
#[path = "no_admin.rs"]
mod admin;
pub(crate) mod bring_up;
mod cgroup;
mod clock;
pub(crate) mod control;
pub(crate) mod cpus;
pub(crate) mod device;
mod dhcp;
mod dhcp6_clients;
mod dhcp6_relays;
mod dhcp6_servers;
mod dhcp_clients;
mod pppoe_clients;
mod dhcp_relays;
pub(crate) mod entropy;
mod flow_offload;
mod hotplug;
#[cfg(feature = "cli")]
mod identity;
mod idle;
mod ipfix;
mod sflow;
pub(crate) mod ra_updates;
pub(crate) mod log;
mod stable_secret;
#[cfg(feature = "cli")]
mod memory;
mod netisr_thread;
pub(crate) mod privileges;
#[cfg(feature = "cli")]
mod programs;
mod reload;
mod running;
mod sleep;
mod route_sources;
mod routing;
pub(crate) mod report;
mod ring_placement;
mod service_manager;
mod services;
mod sharing;
mod cpu_share;
#[cfg(feature = "cli")]
mod signals;
#[cfg(feature = "cli")]
mod up;
pub(crate) mod ready_waiters;
mod web;
pub(crate) mod stack;
mod switch;
pub(crate) mod tables;
mod twins;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Runtime};

pub(crate) use self::admin::{Server, bind};
#[cfg(feature = "cli")]
pub(crate) use self::up::{run, up};
use crate::StackError;
use control::Control;
use ra_updates::Learning;

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
    let (crashed, waiting) = {
        let control = locked(control);
        (control.crashed(), control.waiting())
    };
    let mut outcome = Ok(());
    let ended = async {
        tokio::select! {
            () = until => {}
            () = ra_updates::learn(control, learning) => {}
            () = hotplug::watch(control) => {}
            () = dhcp::serve(control) => {}
            () = pppoe_clients::serve(control) => {}
            () = route_sources::follow(control) => {}
            () = running::roll_back(control) => {}
            () = waiting.run() => {}
            never = admin::serve_http(control) => match never {},
            never = ipfix::serve(control) => match never {},
            never = sflow::serve(control) => match never {},
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
