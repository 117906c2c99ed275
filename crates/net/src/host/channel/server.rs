//! The netisr's end of a channel: a program that obeys what comes, and tells what has happened.

use std::collections::VecDeque;

use pkt::byte_channel::{Broken, Far, Reader, Writer};
use pkt::wake::Waker;

use super::bytes::{RECORD, Record};
use super::conn::{Conn, Stage};
use super::end::code;
use super::record::{Command, Connect, Event, Listen, Setting, Target};
use super::setting::prepare;
use super::{ANSWERS_MAX, COMMANDS_MAX, LISTENERS_MAX, OFFERS_MAX};
use crate::base::count::Count;
use crate::host::app::{App, AppContext, Handle};
use crate::host::sock::Error;
use crate::host::tcp::settings::Settings;
use crate::host::tcp::{self, Accepted, Id, ListenerId};
use crate::host::udp;
use crate::ip::ip_tx::IpTxParams;

/// Listeners and lanes that are looked at in a turn when the program's end has gone, and events that are not told.
const LEFT_MAX: usize = 256;

/// The netisr's end.
pub struct Channel {
    commands: Reader,
    events: Writer,
    lanes: Far,
    conns: Vec<Option<Box<Conn>>>,
    /// Lanes in use.
    held: usize,
    listeners: Vec<Listener>,
    /// Lanes with events for the program, each once.
    untold: VecDeque<Untold>,
    /// Number of replies among them.
    answers: usize,
    /// Commands are left because there were too many answers.
    is_held: bool,
    /// Memory for a datagram that is in two pieces.
    whole: Vec<u8>,
    /// The program's end is gone, and listeners and then lanes before this were looked at since.
    left: Option<usize>,
    /// Dropped last: the thread that it wakes must find the netisr gone.
    bell: ClientWakeup,
}

/// Wakes the reactor of the program's end, and once more when it is dropped.
struct ClientWakeup(Waker);

impl Drop for ClientWakeup {
    fn drop(&mut self) {
        self.0.wake_if_sleeping();
    }
}

/// The program's end says what cannot be.
pub(super) struct Wrong;

impl From<Broken> for Wrong {
    fn from(_: Broken) -> Self {
        Self
    }
}

#[derive(Clone, Copy)]
enum Untold {
    Lane(u32),
    Answer(Event),
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Untold>() <= 80);

/// A listener of the program, by its number.
#[derive(Default)]
enum Listener {
    #[default]
    Free,
    /// Its connections will behave like this.
    Prepared(Box<(Settings, IpTxParams)>),
    Open(ListenerId, VecDeque<u32>),
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Listener>() <= 40);

impl Channel {
    pub(super) fn new((events, commands): (Writer, Reader), lanes: Far, waker: Waker) -> Self {
        Self {
            commands,
            events,
            lanes,
            conns: Vec::new(),
            held: 0,
            listeners: Vec::new(),
            untold: VecDeque::new(),
            answers: 0,
            is_held: false,
            whole: Vec::new(),
            left: None,
            bell: ClientWakeup(waker),
        }
    }

    /// Obeys what has come, a bounded amount of it.
    fn obey(&mut self, cx: &mut AppContext<'_>) -> Result<(), Wrong> {
        // First whether more will come, then what is there.
        let is_abandoned = self.commands.is_abandoned();
        for _ in 0..COMMANDS_MAX {
            if self.commands.len()? < RECORD {
                return self.has_obeyed(cx, is_abandoned);
            }
            // A program that does not read replies gets no more commands served.
            self.is_held = self.answers >= ANSWERS_MAX && !is_abandoned;
            if self.is_held {
                return self.release();
            }
            let mut record: Record = [0; RECORD];
            self.commands.read(&mut record)?;
            self.do_as_told(cx, Command::decode(&record).ok_or(Wrong)?)?;
            cx.cpu.count(Count::ChannelCommands);
        }
        cx.wake_at(cx.now());
        self.release()
    }

    /// There are no more commands for now, or for ever.
    fn has_obeyed(&mut self, cx: &mut AppContext<'_>, is_abandoned: bool) -> Result<(), Wrong> {
        self.release()?;
        if is_abandoned {
            self.left.get_or_insert(0);
            self.close_all(cx)?;
        }
        Ok(())
    }

    fn release(&mut self) -> Result<(), Wrong> {
        if self.commands.release()? {
            self.bell.0.wake_if_sleeping();
        }
        Ok(())
    }

    fn do_as_told(&mut self, cx: &mut AppContext<'_>, command: Command) -> Result<(), Wrong> {
        match command {
            Command::Set(Target::Lane(lane), setting) => self.lane(cx, lane)?.set(cx.cpu, setting),
            Command::Set(Target::Listener(listener), setting) => self.set_listener(cx, listener, setting)?,
            Command::Connect(wanted) => self.connect(cx, &wanted)?,
            Command::Listen(wanted) => self.listen(cx, &wanted)?,
            Command::Open { listener, backlog } => self.open(cx, listener, backlog)?,
            Command::Offer { listener, lane } => self.offer(cx, listener, lane)?,
            Command::Unlisten(listener) => self.unlisten(cx, listener)?,
            Command::Bind(question, place) => self.bind(cx, question, place)?,
            Command::Speak { question, remote, zone } => self.speak(cx, question, remote, zone)?,
            Command::Vacate(question) => self.vacate(cx, question)?,
            Command::Join(question, wanted) => {
                self.change_socket(cx, question, |socket, cpu| socket.join(cpu, &wanted))?
            }
            Command::Name { lane, sender } => self.name_sender(lane, sender)?,
            Command::GroupsBy(question, link) => {
                self.change_socket(cx, question, |socket, cpu| socket.send_groups_by(cpu, link))?
            }
            Command::Look(lane) => self.look(cx, lane)?,
            Command::Close { lane, aborts } => self.close(cx, lane, aborts)?,
        }
        Ok(())
    }

    /// The lane of this number: one that is in use, or was begun for us.
    pub(super) fn lane(&mut self, cx: &AppContext<'_>, lane: u32) -> Result<&mut Conn, Wrong> {
        let at = lane as usize;
        if !matches!(self.conns.get(at), Some(Some(_))) {
            let streams = self.lanes.take(lane).ok_or(Wrong)?;
            if self.conns.len() <= at {
                self.conns.resize_with(at + 1, || None);
            }
            let how = Box::new((cx.cpu.sysctls.tcp, IpTxParams::default()));
            self.conns[at] = Some(Box::new(Conn::new(streams, Stage::Prepared(how))));
            self.held += 1;
        }
        self.conn(lane).ok_or(Wrong)
    }

    /// A lane that is in use.
    pub(super) fn conn(&mut self, lane: u32) -> Option<&mut Conn> {
        self.conns.get_mut(lane as usize)?.as_deref_mut()
    }

    fn connect(&mut self, cx: &mut AppContext<'_>, wanted: &Connect) -> Result<(), Wrong> {
        let &Connect { lane, remote, local, port, zone } = wanted;
        let Stage::Prepared(how) = &self.lane(cx, lane)?.stage else { return Err(Wrong) };
        let (settings, tx_params) = **how;
        let begun = cx.connect(&tcp::Connect { remote, local, port, zone, settings, tx_params }, lane);
        let conn = self.lane(cx, lane)?;
        match begun {
            Ok(id) => {
                conn.stage = Stage::Up(id);
                conn.send(cx.cpu)?;
            }
            Err(why) => conn.fail(Vec::new(), code(why))?,
        }
        self.has_news(lane);
        Ok(())
    }

    fn set_listener(
        &mut self,
        cx: &mut AppContext<'_>,
        listener: u32,
        setting: Setting,
    ) -> Result<(), Wrong> {
        let place = self.listener(listener)?;
        if matches!(place, Listener::Free) {
            *place = Listener::Prepared(Box::new((cx.cpu.sysctls.tcp, IpTxParams::default())));
        }
        match place {
            Listener::Prepared(how) => prepare(&mut how.0, &mut how.1, setting),
            // Connections that wait to be accepted stay as they were begun.
            Listener::Open(id, _) => {
                let set = |settings: &mut Settings, tx_params: &mut IpTxParams| {
                    prepare(settings, tx_params, setting);
                };
                // It is there while it has its number.
                let _ = tcp::change_listener(cx.cpu, *id, set);
            }
            Listener::Free => {}
        }
        Ok(())
    }

    /// A listener takes connections; one that is gone needs nothing.
    fn open(&mut self, cx: &mut AppContext<'_>, listener: u32, backlog: u32) -> Result<(), Wrong> {
        if let Listener::Open(id, _) = self.listener(listener)? {
            let id = *id;
            if let Some(settings) = tcp::listener_settings(cx.cpu, id) {
                let _ = tcp::open(cx.cpu, id, backlog as usize, settings);
            }
            // From here on peers are not refused: what has asked for it may say so.
            let at = tcp::local(cx.cpu, id).ok_or(Error::NotConnected);
            self.answer(Event::Listening(listener, at));
        }
        Ok(())
    }

    fn listen(&mut self, cx: &mut AppContext<'_>, wanted: &Listen) -> Result<(), Wrong> {
        let &Listen { listener, addr, zone, only_v6, is_shared, backlog } = wanted;
        let default = (cx.cpu.sysctls.tcp, IpTxParams::default());
        let (settings, tx_params) = match self.listener(listener)? {
            Listener::Free => default,
            Listener::Prepared(how) => **how,
            Listener::Open(..) => return Err(Wrong),
        };
        let opens = backlog.is_some();
        let backlog = backlog.unwrap_or(0) as usize;
        let listen = tcp::Listen { addr, zone, only_v6, backlog, is_shared, settings, tx_params };
        let begun = if opens { cx.listen(&listen, listener) } else { cx.bind(&listen, listener) };
        let at = begun.map(|id| tcp::local(cx.cpu, id).unwrap_or(addr));
        let place = self.listener(listener)?;
        *place = begun.map_or(Listener::Free, |id| Listener::Open(id, VecDeque::new()));
        self.answer(Event::Listening(listener, at));
        Ok(())
    }

    fn listener(&mut self, listener: u32) -> Result<&mut Listener, Wrong> {
        if listener >= LISTENERS_MAX {
            return Err(Wrong);
        }
        let at = listener as usize;
        if self.listeners.len() <= at {
            self.listeners.resize_with(at + 1, Listener::default);
        }
        self.listeners.get_mut(at).ok_or(Wrong)
    }

    /// A lane for a connection that a listener accepts.
    fn offer(&mut self, cx: &mut AppContext<'_>, listener: u32, lane: u32) -> Result<(), Wrong> {
        let conn = self.lane(cx, lane)?;
        if !matches!(conn.stage, Stage::Prepared(_)) {
            return Err(Wrong);
        }
        conn.stage = Stage::Offered(listener);
        match self.listener(listener)? {
            Listener::Open(id, offers) if offers.len() < OFFERS_MAX => {
                offers.push_back(lane);
                if offers.len() == 1 {
                    tcp::watch::look_again_at_listener(cx.cpu, *id);
                }
            }
            Listener::Open(..) => return Err(Wrong),
            // It could not begin, and the program does not know yet.
            Listener::Free | Listener::Prepared(_) => self.leave(lane),
        }
        Ok(())
    }

    fn unlisten(&mut self, cx: &mut AppContext<'_>, listener: u32) -> Result<(), Wrong> {
        if let Listener::Open(id, offers) = core::mem::take(self.listener(listener)?) {
            tcp::unlisten(cx.cpu, id);
            offers.into_iter().for_each(|lane| self.leave(lane));
            self.answer(Event::Unlistened(listener));
        }
        Ok(())
    }

    /// Moves what can be moved on a lane.
    fn look(&mut self, cx: &mut AppContext<'_>, lane: u32) -> Result<(), Wrong> {
        // One that is free meanwhile needs nothing.
        let Some(conn) = self.conn(lane) else { return Ok(()) };
        if matches!(conn.stage, Stage::Socket(_)) {
            return self.look_at_socket(cx, lane);
        }
        let Stage::Up(id) = conn.stage else {
            conn.receive(cx.cpu)?;
            self.has_news(lane);
            return Ok(());
        };
        if !conn.is_closing {
            conn.receive(cx.cpu)?;
        }
        let is_sent = conn.send(cx.cpu)?;
        match (conn.is_closing, conn.is_closing && conn.has_unread(cx.cpu)) {
            //= https://www.rfc-editor.org/rfc/rfc1122#section-4.2.2.13
            //# if new data is received after CLOSE is called, its TCP
            //# SHOULD send a RST to show that data was lost.
            (true, true) => {
                // It was there a moment ago.
                let _ = tcp::abort(cx.cpu, id);
                self.leave(lane);
            }
            (true, false) if is_sent => {
                let _ = tcp::close(cx.cpu, id);
                self.leave(lane);
            }
            _ => self.has_news(lane),
        }
        Ok(())
    }

    /// The program has left a lane.
    fn close(&mut self, cx: &mut AppContext<'_>, lane: u32, aborts: bool) -> Result<(), Wrong> {
        let conn = self.lane(cx, lane)?;
        conn.is_closing = true;
        match conn.stage {
            Stage::Up(id) if aborts => {
                let _ = tcp::abort(cx.cpu, id);
                self.leave(lane);
            }
            Stage::Up(_) | Stage::Socket(_) => self.look(cx, lane)?,
            Stage::Offered(listener) => {
                if let Listener::Open(_, offers) = self.listener(listener)? {
                    offers.retain(|offer| *offer != lane);
                }
                self.leave(lane);
            }
            Stage::Prepared(_) | Stage::Over { .. } => self.leave(lane),
        }
        Ok(())
    }

    /// Closes what the program has left behind, some of it in each turn, and leaves when nothing is left.
    fn close_all(&mut self, cx: &mut AppContext<'_>) -> Result<(), Wrong> {
        let Some(from) = self.left else { return Ok(()) };
        let listeners = self.listeners.len();
        let all = listeners + self.conns.len();
        let to = all.min(from + LEFT_MAX);
        for at in from..to {
            let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            match at.checked_sub(listeners).map(number) {
                None => self.unlisten(cx, number(at))?,
                Some(lane) if self.conn(lane).is_some_and(|conn| !conn.is_closing) => {
                    self.close(cx, lane, false)?;
                }
                Some(_) => {}
            }
        }
        self.left = Some(to);
        if to < all {
            cx.wake_at(cx.now());
        }
        Ok(())
    }

    /// The netisr has nothing to do with a lane any more.
    pub(super) fn leave(&mut self, lane: u32) {
        if let Some(conn) = self.conn(lane) {
            conn.leave();
            self.has_news(lane);
        }
    }

    /// The program is to be told of a lane, if there is something.
    pub(super) fn has_news(&mut self, lane: u32) {
        let Some(conn) = self.conn(lane) else { return };
        if conn.news(lane).is_some() && !core::mem::replace(&mut conn.is_listed, true) {
            self.untold.push_back(Untold::Lane(lane));
        }
    }

    /// The program is to be told what became of what it has asked.
    pub(super) fn answer(&mut self, event: Event) {
        self.answers += 1;
        self.untold.push_back(Untold::Answer(event));
    }

    /// Moves the datagrams of a lane, as many as may be at once; true if there are more.
    pub(super) fn exchange(&mut self, cx: &mut AppContext<'_>, lane: u32) -> Result<bool, Wrong> {
        let Self { conns, whole, .. } = self;
        let conn = conns.get_mut(lane as usize).and_then(Option::as_deref_mut);
        Ok(conn.map_or(Ok(false), |conn| conn.exchange(cx.cpu, whole))?)
    }

    /// Tells the program what there is room for; the rest is told when there is room again.
    fn tell(&mut self, cx: &mut AppContext<'_>) -> Result<(), Wrong> {
        if self.left.is_some() {
            self.forget_news(cx);
            return Ok(());
        }
        let mut told = 0;
        while let Some(event) = self.next_news() {
            if self.events.free()? < RECORD {
                if self.events.waits()? {
                    cx.cpu.count(Count::ChannelEventsHeld);
                    break;
                }
                continue;
            }
            self.events.write(&event.encode())?;
            self.has_told(event);
            told += 1;
        }
        if self.is_held && self.answers < ANSWERS_MAX {
            cx.wake_at(cx.now());
        }
        if told > 0 {
            // This stream has no waiting reader: the reactor is woken.
            let _ = self.events.publish();
            self.bell.0.wake_if_sleeping();
        }
        Ok(())
    }

    /// The program's end is gone and makes no room: what it would be told has happened, some of it in each turn.
    fn forget_news(&mut self, cx: &mut AppContext<'_>) {
        for _ in 0..LEFT_MAX {
            let Some(event) = self.next_news() else { return };
            self.has_told(event);
        }
        cx.wake_at(cx.now());
    }

    /// Returns the next event.
    fn next_news(&mut self) -> Option<Event> {
        loop {
            match *self.untold.front()? {
                Untold::Answer(event) => return Some(event),
                Untold::Lane(lane) => {
                    let conn = self.conn(lane)?;
                    if let Some(event) = conn.news(lane) {
                        return Some(event);
                    }
                    conn.is_listed = false;
                    self.untold.pop_front();
                }
            }
        }
    }

    fn has_told(&mut self, event: Event) {
        match self.untold.front() {
            Some(Untold::Lane(lane)) => {
                let lane = *lane;
                if let Some(conn) = self.conn(lane) {
                    conn.told();
                }
                if matches!(event, Event::Free(_)) {
                    self.held -= self.conns.get_mut(lane as usize).and_then(Option::take).map_or(0, |_| 1);
                    self.untold.pop_front();
                }
            }
            Some(Untold::Answer(_)) => {
                self.answers -= 1;
                self.untold.pop_front();
            }
            None => {}
        }
    }

    /// Goes on after `done`, unless the program's end says what cannot be.
    fn goes_on(&self, cx: &mut AppContext<'_>, done: Result<(), Wrong>) {
        if done.is_err() {
            cx.cpu.count(Count::ChannelsBroken);
            cx.leave();
        } else {
            cx.roll_up();
        }
    }
}

impl App for Channel {
    fn begin(&mut self, _: &mut AppContext<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn room(&mut self, listener: u32) -> usize {
        match self.listeners.get(listener as usize) {
            Some(Listener::Open(_, offers)) => offers.len(),
            _ => 0,
        }
    }

    fn accepted(&mut self, cx: &mut AppContext<'_>, listener: u32, accepted: Accepted) -> u32 {
        let lane = match self.listeners.get_mut(listener as usize) {
            Some(Listener::Open(_, offers)) => offers.pop_front(),
            _ => None,
        };
        let Some((lane, conn)) = lane.and_then(|lane| Some((lane, self.conn(lane)?))) else {
            // As many are accepted as there is room for, so this cannot be.
            let _ = tcp::abort(cx.cpu, accepted.id);
            return u32::MAX;
        };
        conn.accepted(listener, accepted.id, accepted.ends);
        // From now on it waits for what the program writes, which may be the first to speak.
        let done = conn.send(cx.cpu).map(drop).map_err(Wrong::from);
        self.has_news(lane);
        self.goes_on(cx, done);
        lane
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let done = self.look(cx, conn.key);
        self.goes_on(cx, done);
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        if let Some(own) = self.conn(conn.key) {
            own.stands(cx.cpu);
        }
        let done = self.look(cx, conn.key);
        self.goes_on(cx, done);
    }

    fn closed(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>, why: Option<Error>) {
        let Some(own) = self.conn(conn.key) else { return };
        if own.is_closing {
            self.leave(conn.key);
            return cx.roll_up();
        }
        let done = own.end(cx.cpu, conn.id, why).map_err(Wrong::from);
        self.has_news(conn.key);
        self.goes_on(cx, done);
    }

    fn datagrams(&mut self, cx: &mut AppContext<'_>, socket: Handle<udp::Id>) {
        let done = self.look(cx, socket.key);
        self.goes_on(cx, done);
    }

    fn called(&mut self, cx: &mut AppContext<'_>) {
        let done = self.obey(cx);
        self.goes_on(cx, done);
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        self.called(cx);
    }

    fn roll_up(&mut self, cx: &mut AppContext<'_>) {
        let done = self.tell(cx);
        let is_over = self.left.is_some() && self.held == 0;
        match done {
            Ok(()) if is_over => cx.leave(),
            Ok(()) => {}
            wrong => self.goes_on(cx, wrong),
        }
    }
}
