//! Routes of others: from FRR's zebra by FPM ([`fpm`]), and from a table of the kernel ([`kernel`]).
//!
//! What a source says goes into its [`Table`]; what of it is in force here follows from the interfaces of both
//! ([`lead`]), and is given to the one table of routes in batches. Sockets are opened when a configuration comes into force, in
//! the network namespace of the source: later the control thread has no right to enter it.

mod fpm;
mod kernel;
mod lead;
mod shown;

use core::net::SocketAddr;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use dev::netlink::RouteMonitor;
use dev::netns::Netns;
use net::fib::{FibIndex, Origin, Prefix, Protocol};
use tokio::sync::Notify;
use wire::rtnetlink::RT_TABLE_MAIN;

use self::lead::{Lead, Links};
use super::control::Control;
use super::routing::{Edits, Routing};
use super::tables::Attached;
use super::{locked, log};
use crate::StackError;
use crate::api::Error;
use crate::config::{self, Config};
use crate::plural::counted;
use crate::routes::table::{Edit, Table};

/// Changes that are given to the netisrs in one step, about.
const BATCH: usize = 16_384;

/// The sources of this stack.
#[derive(Default)]
pub(crate) struct RouteSources {
    fpm: Option<Source>,
    kernel: Option<Source>,
    /// Told when a source begins, changes or ends.
    changed: [Arc<Notify>; 2],
}

/// A source, by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Fpm,
    Kernel,
}

/// A source.
struct Source {
    config: OneOf,
    table: Table,
    links: Links,
    state: State,
    /// When it became so.
    since: Instant,
    /// Sockets that its task has not taken yet.
    opened: Option<Opened>,
    /// Whether its configuration has changed since its task has looked.
    is_changed: bool,
    /// When stale routes go.
    sweep_at: Option<Instant>,
    /// Sessions begun, or listings read.
    resyncs: u64,
    /// Times that the kernel had no room for what it had to say.
    overruns: u64,
    /// Routes that the stack had no room for.
    refused: u64,
    is_refusal_said: bool,
}

/// The configuration of a source.
#[derive(Clone, PartialEq)]
enum OneOf {
    Fpm(config::Fpm),
    Kernel(config::KernelTable),
}

/// The state of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Nothing is connected.
    Waiting,
    /// Zebra is connected, from there.
    Connected(SocketAddr),
    /// The kernel's tables are read.
    Reading,
    /// They have been, and changes are followed.
    Following,
    /// It cannot be followed.
    Failed,
}

/// Sockets of a source.
enum Opened {
    Fpm { listener: TcpListener, links: RouteMonitor },
    Kernel(RouteMonitor),
}

/// Sockets of sources that begin, by which.
#[derive(Default)]
pub(super) struct OpenSources {
    fpm: Option<Opened>,
    kernel: Option<Opened>,
}

impl Control {
    /// Opens the sockets of sources that are new in a configuration.
    pub(super) fn open_route_sources(&self, new: &Config) -> Result<OpenSources, StackError> {
        let (fpm, kernel) = (&new.route_sources.fpm, &new.route_sources.kernel);
        let place = |fpm: &config::Fpm| (fpm.listen, fpm.common.namespace.clone());
        let mut opened = OpenSources::default();
        if let Some(new) = fpm
            && !matches!(self.config_of(Which::Fpm), Some(OneOf::Fpm(old)) if place(old) == place(new))
        {
            let open = || Ok(Opened::Fpm { listener: listen(new)?, links: RouteMonitor::open_for_links()? });
            opened.fpm = Some(inside(new.common.namespace.as_deref(), "fpm", open)?);
        }
        if let Some(new) = kernel
            && !matches!(self.config_of(Which::Kernel), Some(OneOf::Kernel(old)) if old.common.namespace == new.common.namespace)
        {
            let open = || Ok(Opened::Kernel(RouteMonitor::open()?));
            opened.kernel = Some(inside(new.common.namespace.as_deref(), "kernel", open)?);
        }
        Ok(opened)
    }

    fn config_of(&self, which: Which) -> Option<&OneOf> {
        self.route_sources.get(which).map(|source| &source.config)
    }

    /// Begins, changes and ends sources as the configuration in force has them. `before` is the one before.
    pub(super) fn settle_route_sources(&mut self, opened: OpenSources, before: &config::RouteSources) {
        let new = self.config.route_sources.clone();
        if new.distances != before.distances {
            [Which::Fpm, Which::Kernel].into_iter().for_each(|which| self.change_distances(which, before));
        }
        self.settle_source(Which::Fpm, new.fpm.map(OneOf::Fpm), opened.fpm, before);
        self.settle_source(Which::Kernel, new.kernel.map(OneOf::Kernel), opened.kernel, before);
    }

    fn settle_source(
        &mut self,
        which: Which,
        config: Option<OneOf>,
        opened: Option<Opened>,
        before: &config::RouteSources,
    ) {
        let notify = Arc::clone(&self.route_sources.changed[which as usize]);
        let own = self.route_sources.get_mut(which);
        match (config, own) {
            (None, None) => return,
            (None, Some(_)) => {
                self.end_source(which, before);
                *self.route_sources.slot(which) = None;
                log::info(&format!("routes from {which}: ended"));
            }
            (Some(config), Some(own)) => {
                if opened.is_none() && own.config == config {
                    return;
                }
                own.is_changed = true;
                (own.config, own.opened) = (config, opened);
                own.table.interfaces_changed();
            }
            (Some(config), None) => *self.route_sources.slot(which) = Some(Source::new(config, opened)),
        }
        notify.notify_one();
    }

    /// Gives the stack all routes of a source with their new distances, each before the one with the old.
    fn change_distances(&mut self, which: Which, before: &config::RouteSources) {
        let Self { route_sources, attached, config, .. } = self;
        let Some(source) = route_sources.get_mut(which) else { return };
        let lead = Lead { attached, links: &source.links, common: source.config.common() };
        let (now, mut changes, none) = (&config.route_sources, Edits::default(), Arc::default());
        source.table.all(&|raw| lead.to(raw), |edit| {
            let (old, new) = (origin(which, &edit, before), origin(which, &edit, now));
            if old != new {
                changes.push(edit.fib, edit.to, new, &edit.hops);
                changes.push(edit.fib, edit.to, old, &none);
            }
        });
        if let Err(why) = self.publish_routes(&changes) {
            log::error(&why.error);
        }
    }

    /// Takes all routes of a source out, which were given with the distances of `before`.
    fn end_source(&mut self, which: Which, before: &config::RouteSources) {
        let Some(source) = self.route_sources.get_mut(which) else { return };
        source.table.clear();
        let edits = source.table.edits(&|_| None);
        if let Err(why) = self.publish_edits_of(which, &edits, before) {
            log::error(&why.error);
        }
    }

    /// Gives the stack what a source has said since the last time.
    fn publish_source(&mut self, which: Which) {
        let Self { route_sources, attached, .. } = self;
        let Some(source) = route_sources.get_mut(which) else { return };
        let lead = Lead { attached, links: &source.links, common: source.config.common() };
        let edits = source.table.edits(&|raw| lead.to(raw));
        let distances = self.config.route_sources.clone();
        for edits in edits.chunks(BATCH) {
            if let Err(why) = self.publish_edits_of(which, edits, &distances) {
                log::error(&why.error);
            }
        }
    }

    fn publish_edits_of(
        &mut self,
        which: Which,
        edits: &[Edit],
        distances: &config::RouteSources,
    ) -> Result<(), Error> {
        if edits.is_empty() {
            return Ok(());
        }
        let mut changes = Edits::default();
        edits
            .iter()
            .for_each(|edit| changes.push(edit.fib, edit.to, origin(which, edit, distances), &edit.hops));
        let refused = self.publish_routes(&changes)?;
        if let (Some(source), Some(first)) = (self.route_sources.get_mut(which), refused.first()) {
            source.refused += refused.len() as u64;
            if !core::mem::replace(&mut source.is_refusal_said, true) {
                log::warning(&format!("routes from {which}: {} is not in force: {}", first.to, first.error));
            }
        }
        Ok(())
    }

    /// Ends a resynchronisation: what the source has not said again goes.
    fn sweep_source(&mut self, which: Which) {
        let Some(source) = self.route_sources.get_mut(which) else { return };
        source.sweep_at = None;
        let swept = match (&source.config, &source.state) {
            (OneOf::Fpm(config), State::Connected(_)) => {
                source.table.sweep_but_untold(config.common.fib(RT_TABLE_MAIN, RT_TABLE_MAIN).unwrap_or(0))
            }
            _ => source.table.sweep(),
        };
        if swept > 0 {
            log::info(&format!("routes from {which}: {} swept", counted(swept as u64, "stale route")));
        }
        self.publish_source(which);
    }

    /// Works out where routes of others lead, after interfaces here have changed; the netisrs are told soon.
    pub(super) fn route_sources_see_interfaces(&mut self) {
        for which in [Which::Fpm, Which::Kernel] {
            if let Some(source) = self.route_sources.get_mut(which) {
                source.table.interfaces_changed();
                self.route_sources.changed[which as usize].notify_one();
            }
        }
    }
}

impl RouteSources {
    const fn get(&self, which: Which) -> Option<&Source> {
        match which {
            Which::Fpm => self.fpm.as_ref(),
            Which::Kernel => self.kernel.as_ref(),
        }
    }

    const fn get_mut(&mut self, which: Which) -> Option<&mut Source> {
        self.slot(which).as_mut()
    }

    const fn slot(&mut self, which: Which) -> &mut Option<Source> {
        match which {
            Which::Fpm => &mut self.fpm,
            Which::Kernel => &mut self.kernel,
        }
    }

    /// Gives another table of routes all that is in force with these interfaces.
    pub(super) fn load(
        &self,
        routing: &mut Routing,
        attached: &[Attached],
        distances: &config::RouteSources,
    ) {
        for which in [Which::Fpm, Which::Kernel] {
            let Some(source) = self.get(which) else { continue };
            let lead = Lead { attached, links: &source.links, common: source.config.common() };
            let mut changes = Edits::default();
            source.table.all(&|raw| lead.to(raw), |edit| {
                changes.push(edit.fib, edit.to, origin(which, &edit, distances), &edit.hops);
                if changes.len() >= BATCH {
                    routing.load(&core::mem::take(&mut changes));
                }
            });
            routing.load(&changes);
        }
    }

    /// Notes that the table in force has what [`load`](Self::load) has given it.
    pub(super) fn are_loaded(&mut self, attached: &[Attached]) {
        for which in [Which::Fpm, Which::Kernel] {
            let Some(source) = self.get_mut(which) else { continue };
            let lead = Lead { attached, links: &source.links, common: source.config.common() };
            source.table.all_are_installed(&|raw| lead.to(raw));
        }
    }

    /// Since when a route is as it is.
    pub(super) fn since(&self, fib: FibIndex, to: Prefix, protocol: Protocol) -> Option<u32> {
        let which = if protocol.source == Which::Fpm as u8 { Which::Fpm } else { Which::Kernel };
        self.get(which)?.table.since(fib, to, protocol.number)
    }
}

impl Source {
    fn new(config: OneOf, opened: Option<Opened>) -> Self {
        Self {
            config,
            table: Table::default(),
            links: Links::default(),
            state: State::Waiting,
            since: Instant::now(),
            opened,
            is_changed: false,
            sweep_at: None,
            resyncs: 0,
            overruns: 0,
            refused: 0,
            is_refusal_said: false,
        }
    }

    fn goes(&mut self, state: State) {
        (self.state, self.since) = (state, Instant::now());
    }
}

impl OneOf {
    const fn common(&self) -> &config::Common {
        match self {
            Self::Fpm(config) => &config.common,
            Self::Kernel(config) => &config.common,
        }
    }
}

impl core::fmt::Display for Which {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Fpm => "fpm",
            Self::Kernel => "kernel",
        })
    }
}

/// Returns the origin of a route, as the table has it.
fn origin(which: Which, edit: &Edit, distances: &config::RouteSources) -> Origin {
    let (number, source) = (edit.protocol, which as u8);
    Origin::Dynamic(Protocol { distance: distances.distance(number), number, source })
}

fn listen(fpm: &config::Fpm) -> Result<TcpListener, dev::netlink::NetlinkError> {
    let open = || {
        let listener = TcpListener::bind(fpm.listen)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    open().map_err(|why: std::io::Error| {
        dev::netlink::NetlinkError::Open(std::io::Error::new(why.kind(), format!("{}: {why}", fpm.listen)))
    })
}

/// Opens sockets in a network namespace.
fn inside<T: Send>(
    namespace: Option<&str>,
    which: &str,
    open: impl FnOnce() -> Result<T, dev::netlink::NetlinkError> + Send,
) -> Result<T, StackError> {
    let misfit = |why: String| StackError::Misfit(format!("[routes.{which}]: {why}"));
    let opened = match namespace {
        None => open(),
        Some(name) => {
            let netns = Netns::open(name).map_err(|why| misfit(why.to_string()))?;
            netns.run(open).map_err(|why| {
                misfit(format!("cannot enter network namespace {name}: {why}; it is entered at the start"))
            })?
        }
    };
    opened.map_err(|why| misfit(why.to_string()))
}

/// Seconds of the clock by which routes have their age.
pub(super) fn now() -> u32 {
    static BEGUN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    u32::try_from(BEGUN.elapsed().as_secs()).unwrap_or(u32::MAX)
}

/// Follows all sources, for ever.
pub(crate) async fn follow(control: &Arc<Mutex<Control>>) {
    let [fpm, kernel] = locked(control).route_sources.changed.clone();
    tokio::join!(fpm::follow(control, &fpm), kernel::follow(control, &kernel));
}
