//! FPM: zebra connects, and says all its routes and each change. It has no word for the end of all of them, so what it has not
//! said again goes by a timer.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use dev::netlink::{Heard, Listing, RouteMonitor};
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use wire::fpm;
use wire::rtnetlink::{Content, RT_TABLE_MAIN, Route, messages};

use super::lead::Change;
use super::{Control, OneOf, Opened, State, Which, locked, log, now};
use crate::routes::table::Told;

/// Bytes that are read before the stack is told: the longest frame, and many more.
const BUFFER: usize = 1 << 20;
/// Less than this in one go is a live feed: more of it is waited for, so that changes come in batches.
const LIVE: usize = 1 << 14;
/// Longest wait for more of a live feed, which is never further behind.
const PAUSE: Duration = Duration::from_millis(5);

/// The sockets of the source.
struct Here {
    listener: TcpListener,
    links: AsyncFd<RouteMonitor>,
    session: Option<Session>,
}

/// A connection of zebra.
struct Session {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes in the buffer.
    len: usize,
}

/// Follows zebra as the configuration in force says, for ever.
pub(super) async fn follow(control: &Arc<Mutex<Control>>, changed: &Notify) {
    let mut here: Option<Here> = None;
    loop {
        locked(control).take_sockets(&mut here);
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
    /// Takes over what has changed: sockets, settings, interfaces.
    fn take_sockets(&mut self, here: &mut Option<Here>) {
        let Some(source) = &mut self.route_sources.fpm else {
            *here = None;
            return;
        };
        if let Some(Opened::Fpm { listener, links }) = source.opened.take() {
            match Here::of(listener, links) {
                Ok(opened) => *here = Some(opened),
                Err(why) => {
                    source.goes(State::Failed);
                    log::error(&format!("routes from fpm: {why}"));
                }
            }
            source.goes(State::Waiting);
        }
        // Other routes are wanted of it: it tells all when it connects again.
        let is_changed = core::mem::take(&mut source.is_changed);
        let session = here.as_mut().and_then(|here| here.session.take_if(|_| is_changed));
        if session.is_some() {
            self.zebra_is_gone("the configuration has changed");
        }
        self.publish_source(Which::Fpm);
    }

    fn zebra_connected(&mut self, peer: SocketAddr) {
        let Some(source) = &mut self.route_sources.fpm else { return };
        log::info(&format!("routes from fpm: {peer} has connected, all routes are read"));
        source.goes(State::Connected(peer));
        source.resyncs += 1;
        source.table.begin_round();
        self.sweep_later();
    }

    fn zebra_is_gone(&mut self, why: &str) {
        let Some(source) = &mut self.route_sources.fpm else { return };
        let OneOf::Fpm(config) = &source.config else { return };
        log::warning(&format!(
            "routes from fpm: the connection has ended: {why}; its routes stay for {} s",
            config.stale_s
        ));
        source.goes(State::Waiting);
        source.table.begin_round();
        self.sweep_later();
    }

    fn sweep_later(&mut self) {
        let Some(source) = &mut self.route_sources.fpm else { return };
        let OneOf::Fpm(config) = &source.config else { return };
        source.sweep_at = Some(Instant::now() + Duration::from_secs(config.stale_s.into()));
    }

    /// Takes in whole frames; returns the bytes of them.
    fn zebra_says(&mut self, bytes: &[u8]) -> Result<usize, fpm::NotFpm> {
        let mut left = bytes;
        while let Some((inside, rest)) = fpm::frame(left)? {
            self.frame(inside);
            left = rest;
        }
        self.publish_source(Which::Fpm);
        Ok(bytes.len() - left.len())
    }

    fn frame(&mut self, bytes: &[u8]) {
        let Some(source) = &mut self.route_sources.fpm else { return };
        let OneOf::Fpm(config) = &source.config else { return };
        let now = now();
        for message in messages(bytes) {
            let Ok(content) = message.and_then(|message| message.content()) else {
                source.table.counts.malformed += 1;
                continue;
            };
            let fib = |route: &Route<'_>| config.common.fib(route.table, RT_TABLE_MAIN);
            let is_ignored = |route: &Route<'_>| config.common.ignore.contains(&route.protocol);
            match content {
                Content::NewRoute(route) => match fib(&route) {
                    // It takes the place of one that is not ignored.
                    Some(fib) if is_ignored(&route) => {
                        source.table.unlearn(fib, &route, Told::ByZebra, now);
                        source.table.counts.ignored += 1;
                    }
                    Some(fib) => source.table.learn(fib, &route, Told::ByZebra, now),
                    None => source.table.counts.ignored += 1,
                },
                Content::DelRoute(route) => match fib(&route) {
                    Some(fib) => source.table.unlearn(fib, &route, Told::ByZebra, now),
                    None => source.table.counts.ignored += 1,
                },
                Content::NewNextHop(next) => source.table.learn_next_hop(&next),
                Content::DelNextHop(id) => source.table.unlearn_next_hop(id),
                _ => {}
            }
        }
    }

    /// Reads what the kernel says of the interfaces beside zebra.
    fn links_of_zebra(&mut self, monitor: &mut RouteMonitor) {
        let Some(source) = &mut self.route_sources.fpm else { return };
        let mut is_changed = false;
        loop {
            match monitor.read() {
                Ok(Heard::Messages(bytes)) => {
                    for content in messages(bytes).flatten().filter_map(|message| message.content().ok()) {
                        let change = match content {
                            Content::NewLink(link) => source.links.set(&link),
                            Content::DelLink(index) => source.links.remove(index),
                            _ => Change::None,
                        };
                        is_changed |= change != Change::None;
                    }
                }
                Ok(Heard::Overrun) => {
                    source.overruns += 1;
                    // What was lost is in the list.
                    let _ = monitor.ask(Listing::Links);
                }
                Ok(Heard::Nothing) => break,
                Err(why) => {
                    log::error(&format!("routes from fpm: interfaces cannot be followed: {why}"));
                    break;
                }
            }
        }
        if is_changed {
            source.table.interfaces_changed();
            self.publish_source(Which::Fpm);
        }
    }

    fn fpm_sweeps_at(&self) -> Option<Instant> {
        self.route_sources.fpm.as_ref()?.sweep_at
    }
}

impl Here {
    #[expect(
        deprecated,
        reason = "the other constructor has a contract; what it asks for is so: the monitor owns its descriptor and keeps it"
    )]
    fn of(listener: std::net::TcpListener, mut links: RouteMonitor) -> io::Result<Self> {
        links.ask(Listing::Links)?;
        let links = AsyncFd::with_interest(links, tokio::io::Interest::READABLE)?;
        Ok(Self { listener: TcpListener::from_std(listener)?, links, session: None })
    }

    /// Waits for the next thing that happens, and deals with it.
    async fn attend(&mut self, control: &Arc<Mutex<Control>>) {
        let Self { listener, links, session } = self;
        let sweep_at = locked(control).fpm_sweeps_at();
        let swept = async {
            match sweep_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            // Interfaces first: routes name them.
            biased;
            ready = links.readable_mut() => {
                let Ok(mut ready) = ready else { return };
                locked(control).links_of_zebra(ready.get_inner_mut());
                ready.clear_ready();
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // One that comes while another is there: that one has been killed, and its end is on its way.
                    *session = Some(Session { stream, buffer: vec![0; BUFFER], len: 0 });
                    locked(control).zebra_connected(peer);
                }
                Err(why) => {
                    log::warning(&format!("routes from fpm: no connection: {why}"));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
            read = read(session) => {
                let outcome = match (read, &mut *session) {
                    (Ok(0), _) => Err("closed by the peer".to_owned()),
                    (Ok(read), Some(session)) => session.take_in(read, control).await,
                    (Err(why), _) => Err(why.to_string()),
                    (_, None) => Ok(()),
                };
                if let Err(why) = outcome {
                    *session = None;
                    locked(control).zebra_is_gone(&why);
                }
            }
            () = swept => locked(control).sweep_source(Which::Fpm),
        }
    }
}

/// Reads what there is, as much as fits.
async fn read(session: &mut Option<Session>) -> io::Result<usize> {
    let Some(Session { stream, buffer, len }) = session else { return core::future::pending().await };
    let mut total = 0;
    loop {
        // What was read is dealt with before anything else is waited for.
        if total == 0 {
            stream.readable().await?;
        }
        match stream.try_read(&mut buffer[*len..]) {
            Ok(0) => return Ok(total),
            Ok(read) => {
                (total, *len) = (total + read, *len + read);
                if *len == buffer.len() {
                    return Ok(total);
                }
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock && total > 0 => return Ok(total),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) => return Err(why),
        }
    }
}

impl Session {
    async fn take_in(&mut self, read: usize, control: &Arc<Mutex<Control>>) -> Result<(), String> {
        let taken = locked(control).zebra_says(&self.buffer[..self.len]).map_err(|why| why.to_string())?;
        self.buffer.copy_within(taken..self.len, 0);
        self.len -= taken;
        if read < LIVE {
            tokio::time::sleep(PAUSE).await;
        } else {
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}
