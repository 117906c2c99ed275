//! A process's end of its channels to all netisrs of a stack: what its sockets share.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Waker;
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::channel::{Channel, Client, Command, Event, LISTENERS_MAX, Question, Size, channel};
use net::msg::{Msg, Notifier, Remote};
use net::pcb::FourTuple;
use pkt::byte_channel::{Reader, Writer};
use pkt::wake::Waker as Bell;

use super::listener::Queue;
use super::stream::{State, Stream};
use super::{dgram_events, error};

/// Both halves of the near end of a lane.
pub(super) type Lane = (Writer, Reader);

/// Channels to all netisrs.
pub(crate) struct Endpoint {
    channels: Vec<Mutex<Link>>,
    next: AtomicUsize,
    /// Numbers of listeners: how many hold each.
    listeners: Mutex<Vec<usize>>,
    bell: Bell,
}

/// The reactor learns that the channels are not used any more.
impl Drop for Endpoint {
    fn drop(&mut self) {
        self.bell.wake_if_sleeping();
    }
}

/// A channel to one netisr, and what is on it. The lock is held to push a command or to note an event, and never while
/// a caller waits.
pub(super) struct Link {
    client: Client,
    lanes: HashMap<u32, On>,
    listeners: HashMap<u32, Offers>,
}

/// The object on a lane, until the netisr has left it.
enum On {
    /// A connection.
    Stream(Arc<State>),
    /// Datagrams of a socket.
    Socket(Arc<dgram_events::State>),
    /// It was offered to a listener.
    Offer(Lane),
    /// Nothing any more.
    Nobody,
}

/// A listener on one CPU.
struct Offers {
    queue: Arc<Queue>,
    /// Lanes that it should have been offered, and there were none free.
    owed: usize,
}

impl Endpoint {
    /// Opens a channel to each of these netisrs. `bell` wakes the reactor.
    pub(super) fn open(remotes: &[Remote], size: Size, bell: Bell) -> io::Result<Self> {
        let channels = remotes.iter().map(|remote| open(remote, size, &bell).map(Link::new).map(Mutex::new));
        let channels = channels.collect::<io::Result<Vec<_>>>()?;
        if channels.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { channels, next: AtomicUsize::new(0), listeners: Mutex::default(), bell })
    }

    /// CPUs.
    pub(super) fn cpus(&self) -> usize {
        self.channels.len()
    }

    /// A CPU, each in its turn.
    pub(super) fn any_cpu(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.cpus()
    }

    pub(super) fn link(&self, cpu: usize) -> MutexGuard<'_, Link> {
        lock(&self.channels[cpu % self.channels.len()])
    }

    /// A number for a listener, which is held once.
    #[expect(clippy::significant_drop_tightening, reason = "the number is taken when the place says so")]
    pub(super) fn take_number(&self) -> io::Result<u32> {
        let mut holders = lock(&self.listeners);
        let free = holders.iter().position(|holders| *holders == 0).unwrap_or(holders.len());
        let number = u32::try_from(free).ok().filter(|number| *number < LISTENERS_MAX);
        let number = number.ok_or_else(error::too_many)?;
        match holders.get_mut(free) {
            Some(place) => *place = 1,
            None => holders.push(1),
        }
        Ok(number)
    }

    /// One more holds a number: a netisr that is told of it.
    fn hold_number(&self, number: u32) {
        if let Some(holders) = lock(&self.listeners).get_mut(number as usize) {
            *holders += 1;
        }
    }

    /// Drops a holder of a number. Only without holders may the number be given to another listener.
    pub(super) fn give_number(&self, number: u32) {
        if let Some(holders) = lock(&self.listeners).get_mut(number as usize) {
            *holders = holders.saturating_sub(1);
        }
    }

    /// Takes in the netisrs' events, and wakes their waiters.
    pub(super) fn hear(self: &Arc<Self>) {
        let mut wakes = Vec::new();
        for cpu in 0..self.cpus() {
            let mut link = self.link(cpu);
            // What is broken is over, as soon as the netisr sees it.
            while let Ok(Some(event)) = link.client.next_event() {
                link.note(self, cpu, event, &mut wakes);
            }
            if link.client.is_over() {
                link.end(&mut wakes);
            }
            link.publish();
        }
        wakes.into_iter().for_each(Waker::wake);
    }

    /// Whether nothing is to be heard: what is asked once more before sleeping.
    pub(super) fn is_idle(&self) -> bool {
        (0..self.cpus()).all(|cpu| self.link(cpu).is_idle())
    }
}

/// Begins a channel on a netisr, and waits until it is there.
fn open(remote: &Remote, size: Size, bell: &Bell) -> io::Result<Client> {
    let (mut client, far): (Client, Channel) =
        channel(size, bell.clone()).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let (told, opened) = sync_channel(1);
    let begin = Msg::Call(Box::new(move |netisr: &mut net::netisr::Netisr| {
        // The caller waits for it, or has gone.
        let _ = told.send(netisr.open(Box::new(far)));
    }));
    remote.send(begin).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
    let opened = opened.recv().map_err(|_| error::gone())?;
    let (_, flag) = opened.map_err(error::of)?;
    let notifier: Notifier = remote.notifier(flag);
    client.attach(notifier);
    Ok(client)
}

impl Link {
    fn new(client: Client) -> Self {
        Self { client, lanes: HashMap::new(), listeners: HashMap::new() }
    }

    /// Begins a stream on a lane of its own, with the commands that `begin` it.
    pub(super) fn begin(
        &mut self,
        endpoint: &Arc<Endpoint>,
        cpu: usize,
        early: &[u8],
        begin: impl FnOnce(u32) -> Vec<Command>,
    ) -> io::Result<Stream> {
        if self.client.is_over() {
            return Err(error::gone());
        }
        let mut lane = self.client.take_lane().ok_or_else(error::too_many)?;
        let written = lane.0.write(early).map_err(|_| error::gone())?;
        debug_assert_eq!(written, early.len(), "a lane has room for as much as goes with a SYN");
        // The netisr looks when it connects.
        let _ = lane.0.publish();
        let commands = begin(lane.0.lane());
        let stream = self.stream(endpoint, cpu, lane, None);
        commands.iter().for_each(|command| self.client.push(command));
        self.publish();
        Ok(stream)
    }

    /// Takes a lane for datagrams.
    pub(super) fn begin_socket(&mut self, state: &Arc<dgram_events::State>) -> io::Result<Lane> {
        if self.client.is_over() {
            return Err(error::gone());
        }
        let lane = self.client.take_lane().ok_or_else(error::too_many)?;
        self.lanes.insert(lane.0.lane(), On::Socket(Arc::clone(state)));
        Ok(lane)
    }

    fn stream(
        &mut self,
        endpoint: &Arc<Endpoint>,
        cpu: usize,
        lane: Lane,
        ends: Option<FourTuple>,
    ) -> Stream {
        let (number, state) = (lane.0.lane(), Arc::new(State::new(ends)));
        self.lanes.insert(number, On::Stream(Arc::clone(&state)));
        Stream::new(endpoint, (cpu, number), state, lane)
    }

    /// Says something.
    pub(super) fn say(&mut self, command: &Command) {
        self.client.push(command);
        self.publish();
    }

    /// Both halves of a lane are gone.
    pub(super) fn close(&mut self, lane: u32, aborts: bool) {
        if let Some(on) = self.lanes.get_mut(&lane) {
            *on = On::Nobody;
            self.say(&Command::Close { lane, aborts });
        }
    }

    /// Waits for connections, which go to this queue.
    pub(super) fn listen(
        &mut self,
        endpoint: &Endpoint,
        number: u32,
        queue: &Arc<Queue>,
        commands: &[Command],
    ) -> io::Result<()> {
        if self.client.is_over() {
            return Err(error::gone());
        }
        endpoint.hold_number(number);
        self.listeners.insert(number, Offers { queue: Arc::clone(queue), owed: 0 });
        commands.iter().for_each(|command| self.client.push(command));
        self.publish();
        Ok(())
    }

    /// Offers so many lanes more to a listener, now or when they are free.
    pub(super) fn offer(&mut self, number: u32, count: usize) {
        if let Some(offers) = self.listeners.get_mut(&number) {
            offers.owed += count;
        }
        self.offer_owed();
        self.publish();
    }

    fn offer_owed(&mut self) {
        for (&listener, offers) in &mut self.listeners {
            while offers.owed > 0
                && let Some(taken) = self.client.take_lane()
            {
                offers.owed -= 1;
                let lane = taken.0.lane();
                self.lanes.insert(lane, On::Offer(taken));
                self.client.push(&Command::Offer { listener, lane });
            }
        }
    }

    /// Waits for connections no longer.
    pub(super) fn unlisten(&mut self, number: u32) {
        self.listeners.remove(&number);
        self.say(&Command::Unlisten(number));
    }

    fn note(&mut self, endpoint: &Arc<Endpoint>, cpu: usize, event: Event, wakes: &mut Vec<Waker>) {
        match event {
            Event::Listening(number, at) => {
                if at.is_err() {
                    endpoint.give_number(number);
                }
                if let Some(offers) = self.listeners.get(&number) {
                    offers.queue.listens(cpu, at, wakes);
                }
            }
            Event::Unlistened(number) => endpoint.give_number(number),
            Event::Accepted { listener, lane, ends } => {
                let Some(On::Offer(taken)) = self.lanes.remove(&lane) else { return };
                if let Some(queue) = self.listeners.get(&listener).map(|offers| Arc::clone(&offers.queue)) {
                    queue.push(self.stream(endpoint, cpu, taken, Some(ends)), wakes);
                } else {
                    // No caller waits for it any more.
                    drop(taken);
                    self.lanes.insert(lane, On::Nobody);
                    self.client.push(&Command::Close { lane, aborts: true });
                }
            }
            Event::Free(lane) => {
                self.lanes.remove(&lane);
                self.client.free_lane(lane);
                self.offer_owed();
            }
            Event::Answer(Question { lane, .. }, _)
            | Event::Failed(lane, _)
            | Event::Quote(lane, _)
            | Event::Connected(lane, _)
            | Event::Readable(lane)
            | Event::Writable(lane)
            | Event::Ended(lane) => match self.lanes.get(&lane) {
                Some(On::Stream(state)) => state.note(event, wakes),
                Some(On::Socket(state)) => state.note(cpu, event, wakes),
                Some(On::Offer(_) | On::Nobody) | None => {}
            },
        }
    }

    /// The netisr is gone, and nothing that was begun there goes on.
    fn end(&mut self, wakes: &mut Vec<Waker>) {
        for on in self.lanes.values() {
            match on {
                On::Stream(state) => state.end(wakes),
                On::Socket(state) => state.end(wakes),
                On::Offer(_) | On::Nobody => {}
            }
        }
        for offers in self.listeners.values() {
            offers.queue.end(wakes);
        }
        self.lanes.clear();
        self.listeners.clear();
    }

    fn publish(&mut self) {
        // What is broken is over, as soon as the netisr sees it.
        let _ = self.client.publish();
    }

    fn is_idle(&mut self) -> bool {
        let is_ended = self.client.is_over() && self.lanes.is_empty() && self.listeners.is_empty();
        is_ended || self.client.is_idle()
    }
}

/// Locks a mutex. After a panic of its holder the state is consistent: nothing is half done where a panic could be.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
