//! The programs, and what they have been told.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};

use net::app::{App, AppContext, Handle};
use net::cpu::CpuId;
use net::msg::Notifier;
use net::netisr::Netisr;
use net::sock::Error;
use net::tcp::{self, Accepted};
use net::time::Instant;
use net::udp;
use pantala::Stack;

use crate::sockets::timeout::Patience;

/// A body's job on a netisr.
type Job = Box<dyn FnOnce(&mut Timers, &mut AppContext<'_>) + Send>;

/// When bodies do not want to wait any longer, and for what.
type Timers = Vec<(Instant, u32)>;

/// One program on each CPU of a stack.
#[derive(Clone)]
pub(crate) struct Agents {
    cpus: Arc<Vec<Mutex<Sender<Job>>>>,
    notifiers: Arc<Vec<Notifier>>,
    pub(super) told: Arc<Events>,
}

/// Events of all sockets of a body, by the names that it gave them.
#[derive(Default)]
pub(super) struct Events {
    news: Mutex<(u32, HashMap<u32, ConnEvents>)>,
    bell: Condvar,
}

#[derive(Default)]
pub(super) struct ConnEvents {
    /// Number of events.
    count: u64,
    /// It stands, or has room again.
    pub(super) is_writable: bool,
    /// Connections of a listener.
    pub(super) accepted: VecDeque<(usize, Accepted, u32)>,
    /// The program does not hold it any more: why, and what was not read.
    pub(super) over: Option<(Option<Error>, VecDeque<u8>)>,
}

impl Events {
    /// Begins to keep what is told of something, under a name of its own.
    pub(super) fn name(&self) -> u32 {
        let mut news = self.news.lock().unwrap();
        news.0 += 1;
        let key = news.0;
        news.1.insert(key, ConnEvents::default());
        key
    }

    pub(super) fn forget(&self, key: u32) -> Option<ConnEvents> {
        self.news.lock().unwrap().1.remove(&key)
    }

    pub(super) fn with<R>(&self, key: u32, what: impl FnOnce(&mut ConnEvents) -> R) -> R {
        what(self.news.lock().unwrap().1.get_mut(&key).unwrap())
    }

    /// Notes an event. Those of sockets that a body has left are dropped.
    pub(super) fn tell(&self, key: u32, what: impl FnOnce(&mut ConnEvents)) {
        if let Some(news) = self.news.lock().unwrap().1.get_mut(&key) {
            news.count += 1;
            what(news);
        }
        self.bell.notify_all();
    }

    /// Waits until something more is told than `seen`.
    fn wait(&self, key: u32, seen: u64) {
        let news = self.news.lock().unwrap();
        drop(self.bell.wait_while(news, |news| news.1[&key].count == seen).unwrap());
    }
}

impl Agents {
    pub(super) fn begin(stack: &Stack) -> Self {
        let told = Arc::<Events>::default();
        let open = |cpu| {
            let (jobs, come) = channel();
            let agent = Agent { cpu, jobs: come, told: Arc::clone(&told), timers: Vec::new() };
            let open = move |netisr: &mut Netisr| netisr.open(Box::new(agent)).unwrap().1;
            let flag = stack.call(cpu, open).unwrap();
            (Mutex::new(jobs), stack.remotes()[cpu].notifier(flag))
        };
        let (cpus, notifiers) = (0..stack.cpus()).map(open).unzip();
        Self { cpus: Arc::new(cpus), notifiers: Arc::new(notifiers), told }
    }

    pub(super) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Has the program of a CPU do something, and waits until it is done.
    pub(super) fn ask<R: Send + 'static>(
        &self,
        cpu: usize,
        job: impl FnOnce(&mut AppContext<'_>) -> R + Send + 'static,
    ) -> R {
        self.ask_with(cpu, |_, cx| job(cx))
    }

    fn ask_with<R: Send + 'static>(
        &self,
        cpu: usize,
        job: impl FnOnce(&mut Timers, &mut AppContext<'_>) -> R + Send + 'static,
    ) -> R {
        let (tell, done) = channel();
        let job: Job = Box::new(move |timers, cx| tell.send(job(timers, cx)).unwrap());
        self.cpus[cpu].lock().unwrap().send(job).unwrap();
        self.notifiers[cpu].knock();
        done.recv().unwrap()
    }

    /// Tries until it can be done, as often as something is told, and no longer than `patience` lasts on the clock of the
    /// netisr.
    pub(super) fn patiently<R>(
        &self,
        key: u32,
        patience: &Patience,
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let limit = patience.limit();
        let mut until = None;
        loop {
            let seen = self.told.with(key, |news| news.count);
            match attempt() {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock && limit != Some(Duration::ZERO) => {}
                done => return done,
            }
            match (limit, until) {
                (Some(limit), None) => until = Some(self.wake_in(key, limit)),
                (_, Some(until)) if self.ask(0, |cx| cx.now()) >= until => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                _ => {}
            }
            self.told.wait(key, seen);
        }
    }

    /// Has it told that so much time has gone by; answers when that is.
    fn wake_in(&self, key: u32, limit: Duration) -> Instant {
        self.ask_with(0, move |timers, cx| {
            let at = cx.now() + limit;
            timers.push((at, key));
            cx.wake_at(soonest(timers));
            at
        })
    }
}

fn soonest(timers: &Timers) -> Instant {
    timers.iter().map(|(at, _)| *at).min().unwrap_or(Instant::NEVER)
}

/// The program of one CPU.
struct Agent {
    cpu: usize,
    jobs: Receiver<Job>,
    told: Arc<Events>,
    timers: Timers,
}

impl App for Agent {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        assert_eq!(cx.cpu.id, CpuId(self.cpu.try_into().unwrap()));
        Ok(())
    }

    fn called(&mut self, cx: &mut AppContext<'_>) {
        while let Ok(job) = self.jobs.try_recv() {
            job(&mut self.timers, cx);
        }
    }

    fn accepted(&mut self, _: &mut AppContext<'_>, listener: u32, accepted: Accepted) -> u32 {
        let conn = self.told.name();
        self.told.tell(listener, |news| news.accepted.push_back((self.cpu, accepted, conn)));
        conn
    }

    fn readable(&mut self, _: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        self.told.tell(conn.key, |_| {});
    }

    fn writable(&mut self, _: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        self.told.tell(conn.key, |news| news.is_writable = true);
    }

    /// Unread bytes are to be read now, and not later.
    fn closed(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>, why: Option<Error>) {
        let all = |pieces: [&[u8]; 2]| (pieces[0].len() + pieces[1].len(), pieces.concat());
        let rest = tcp::read_in_place(cx.cpu, conn.id, all).ok().flatten().unwrap_or_default();
        self.told.tell(conn.key, |news| news.over = Some((why, rest.into())));
    }

    fn datagrams(&mut self, _: &mut AppContext<'_>, socket: Handle<udp::Id>) {
        self.told.tell(socket.key, |_| {});
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        let now = cx.now();
        self.timers.extract_if(.., |(at, _)| *at <= now).for_each(|(_, key)| self.told.tell(key, |_| {}));
        cx.wake_at(soonest(&self.timers));
    }
}
