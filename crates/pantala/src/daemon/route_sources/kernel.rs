//! A table of the kernel: all of it is read, and then changes are followed. When the kernel has more to say than there is room
//! for, and when it has removed routes without a word, as it does with those of an interface that goes down, all is read again.

use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use dev::netlink::{Heard, Listing, RouteMonitor};
use net::fib::FibIndex;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use wire::rtnetlink::{Content, Malformed, Message, NLM_F_APPEND, NLM_F_DUMP_INTR, Route, messages};

use super::lead::Change;
use super::{Control, OneOf, Opened, Source, State, Which, locked, log, now};
use crate::plural::counted;
use crate::routes::table::Told;

/// Lists that are read, in this order: routes name interfaces and next hops.
const LISTINGS: [Listing; 4] = [Listing::Links, Listing::NextHops, Listing::Routes4, Listing::Routes6];
/// Datagrams that are read before the stack is told.
const AT_ONCE: usize = 512;
/// Changes that are told in one step.
const CHANGES: usize = 16_384;
/// Fewer datagrams in one go are a live feed: more of it is waited for, so that changes come in batches.
const LIVE: usize = 64;
const PAUSE: Duration = Duration::from_millis(5);
/// Time from what makes another listing necessary to that: more may come.
const SETTLE: Duration = Duration::from_millis(100);
/// `NLM_F_MULTI`: a part of an answer.
const MULTI: u16 = 2;

/// The socket of the source, and what is being read.
struct Here {
    monitor: AsyncFd<RouteMonitor>,
    reading: Reading,
}

/// The state of listings.
#[derive(Default)]
struct Reading {
    /// Lists that are to be read yet.
    left: Vec<Listing>,
    /// Number of the answer that is read now; 0 for none.
    sequence: u32,
    /// The list that it is.
    now: Option<Listing>,
    /// Whether what is read has a gap.
    is_broken: bool,
    /// When all is to be read again.
    again_at: Option<Instant>,
    /// Whether the kernel has routes with the same metric, of which it does not say which is in force after a change.
    has_appended: bool,
}

/// Follows the kernel as the configuration in force says, for ever.
pub(super) async fn follow(control: &Arc<Mutex<Control>>, changed: &Notify) {
    let mut here: Option<Here> = None;
    let mut config = None;
    loop {
        locked(control).take_monitor(&mut here, &mut config);
        match &mut here {
            None => changed.notified().await,
            Some(here) => {
                tokio::select! {
                    () = changed.notified() => {}
                    () = here.attend(control) => {}
                }
            }
        }
    }
}

impl Control {
    /// Takes over what has changed: the socket, settings, interfaces.
    fn take_monitor(&mut self, here: &mut Option<Here>, config: &mut Option<OneOf>) {
        let Some(source) = &mut self.route_sources.kernel else {
            (*here, *config) = (None, None);
            return;
        };
        if let Some(Opened::Kernel(monitor)) = source.opened.take() {
            match Here::of(monitor) {
                Ok(opened) => *here = Some(opened),
                Err(why) => {
                    source.goes(State::Failed);
                    log::error(&format!("routes from kernel: {why}"));
                }
            }
        }
        if config.as_ref() != Some(&source.config) {
            *config = Some(source.config.clone());
            here.iter_mut().for_each(|here| here.reading.again_at = Some(Instant::now()));
        }
        self.publish_source(Which::Kernel);
    }

    /// Begins to read all.
    fn read_kernel_again(&mut self, here: &mut Here) {
        let Some(source) = &mut self.route_sources.kernel else { return };
        source.table.begin_round();
        source.resyncs += 1;
        source.goes(State::Reading);
        here.reading.begin();
        source.ask(here);
    }

    /// Reads what the kernel has said; returns the number of datagrams.
    fn kernel_says(&mut self, here: &mut Here) -> io::Result<usize> {
        let Some(source) = &mut self.route_sources.kernel else { return Ok(0) };
        let mut count = 0;
        let mut is_done = false;
        while count < AT_ONCE && source.table.changes() < CHANGES && !is_done {
            match here.monitor.get_mut().read()? {
                Heard::Messages(bytes) => {
                    count += 1;
                    for message in messages(bytes) {
                        is_done |= source.hear(message, &mut here.reading);
                    }
                }
                Heard::Overrun => {
                    source.overruns += 1;
                    here.reading.is_broken = true;
                    here.reading.soon();
                }
                Heard::Nothing => break,
            }
        }
        if is_done && !here.reading.left.is_empty() {
            source.ask(here);
        } else if is_done {
            self.kernel_is_read(here);
        }
        self.publish_source(Which::Kernel);
        Ok(count)
    }

    /// All was read: what was not in it goes, unless a part was lost.
    fn kernel_is_read(&mut self, here: &mut Here) {
        let Some(source) = &mut self.route_sources.kernel else { return };
        source.goes(State::Following);
        if core::mem::take(&mut here.reading.is_broken) {
            here.reading.soon();
            return;
        }
        let first = source.resyncs == 1;
        self.sweep_source(Which::Kernel);
        let Some(source) = &mut self.route_sources.kernel else { return };
        if first {
            let routes = source.table.routes().routes as u64;
            log::info(&format!(
                "routes from kernel: {} read, changes are followed",
                counted(routes, "route")
            ));
        }
    }
}

impl Source {
    /// Asks for the next list.
    fn ask(&self, here: &mut Here) {
        let Some(next) = here.reading.left.pop() else { return };
        match here.monitor.get_mut().ask(next) {
            Ok(sequence) => (here.reading.sequence, here.reading.now) = (sequence, Some(next)),
            Err(why) => {
                log::error(&format!("routes from kernel: cannot ask for a list: {why}"));
                here.reading.soon();
            }
        }
    }

    /// Takes in a message; tells whether an answer ends with it.
    fn hear(&mut self, message: Result<Message<'_>, Malformed>, reading: &mut Reading) -> bool {
        let Ok(message) = message else {
            self.table.counts.malformed += 1;
            return false;
        };
        let Ok(content) = message.content() else {
            self.table.counts.malformed += 1;
            return false;
        };
        let is_ours = reading.sequence != 0 && message.sequence == reading.sequence;
        let is_listed = is_ours && message.flags & MULTI != 0;
        reading.is_broken |= is_listed && message.flags & NLM_F_DUMP_INTR != 0;
        match content {
            Content::Done(error) | Content::Error(error) if is_ours => {
                reading.sequence = 0;
                // A kernel that has no next hops with numbers refuses to list them.
                reading.is_broken |= error != 0 && reading.now != Some(Listing::NextHops);
                return true;
            }
            Content::NewLink(link) => {
                let change = self.links.set(&link);
                self.links_changed(change, reading);
            }
            Content::DelLink(index) => {
                let change = self.links.remove(index);
                self.links_changed(change, reading);
            }
            // The kernel takes the routes from such an address along, and does not say so.
            Content::Address { is_gone: true, .. } => reading.soon(),
            Content::NewRoute(route) => {
                let is_appended = message.flags & NLM_F_APPEND != 0 && !is_listed && route.to.is_ipv4();
                self.route(&route, is_listed, is_appended, reading);
            }
            Content::DelRoute(route) => {
                let Some(fib) = self.fib(&route) else { return false };
                self.table.unlearn(fib, &route, Told::ByKernel { is_listed }, now());
                if reading.has_appended && route.to.is_ipv4() {
                    reading.soon();
                }
            }
            Content::NewNextHop(next) => self.table.learn_next_hop(&next),
            Content::DelNextHop(id) => {
                self.table.unlearn_next_hop(id);
                reading.soon();
            }
            _ => {}
        }
        false
    }

    fn route(&mut self, route: &Route<'_>, is_listed: bool, is_appended: bool, reading: &mut Reading) {
        let Some(fib) = self.fib(route) else {
            self.table.counts.ignored += 1;
            return;
        };
        if is_appended {
            // Another with the same metric stays in force.
            reading.has_appended = true;
        } else {
            self.table.learn(fib, route, Told::ByKernel { is_listed }, now());
        }
    }

    /// The table of this stack that a route belongs in, if it is taken.
    fn fib(&self, route: &Route<'_>) -> Option<FibIndex> {
        let OneOf::Kernel(config) = &self.config else { return None };
        let is_ignored = config.common.ignore.contains(&route.protocol);
        config.common.fib(route.table, config.table).filter(|_| !is_ignored)
    }

    fn links_changed(&mut self, change: Change, reading: &mut Reading) {
        if change != Change::None {
            self.table.interfaces_changed();
        }
        if change == Change::Down {
            reading.soon();
        }
    }
}

impl Reading {
    fn begin(&mut self) {
        *self = Self { left: LISTINGS.iter().rev().copied().collect(), ..Self::default() };
    }

    /// Has all read again in a moment.
    fn soon(&mut self) {
        self.again_at.get_or_insert_with(|| Instant::now() + SETTLE);
    }

    /// When to begin: one list is read at a time.
    fn begins_at(&self) -> Option<Instant> {
        self.again_at.filter(|_| self.sequence == 0)
    }
}

impl Here {
    #[expect(
        deprecated,
        reason = "the other constructor has a contract; what it asks for is so: the monitor owns its descriptor and keeps it"
    )]
    fn of(monitor: RouteMonitor) -> io::Result<Self> {
        let monitor = AsyncFd::with_interest(monitor, tokio::io::Interest::READABLE)?;
        let reading = Reading { again_at: Some(Instant::now()), ..Reading::default() };
        Ok(Self { monitor, reading })
    }

    /// Waits for the next thing that happens, and deals with it.
    async fn attend(&mut self, control: &Arc<Mutex<Control>>) {
        if !self.drain(control).await {
            return;
        }
        let begins_at = self.reading.begins_at();
        let begun = async {
            match begins_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            ready = self.monitor.readable_mut() => {
                let Ok(mut ready) = ready else { return };
                // The next call reads until there is nothing.
                ready.clear_ready();
            }
            () = begun => locked(control).read_kernel_again(self),
        }
    }

    /// Reads until there is nothing; `false` if that fails.
    async fn drain(&mut self, control: &Arc<Mutex<Control>>) -> bool {
        loop {
            let said = locked(control).kernel_says(self);
            match said {
                Ok(0) => return true,
                Ok(count) if count < LIVE => tokio::time::sleep(PAUSE).await,
                Ok(_) => tokio::task::yield_now().await,
                Err(why) => {
                    log::error(&format!("routes from kernel: cannot be followed: {why}"));
                    self.reading.soon();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    return false;
                }
            }
        }
    }
}
