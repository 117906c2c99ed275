//! The program on each netisr: connections, requests, answers.

mod memory;

use core::fmt::Write;
use core::net::SocketAddr;
use core::ops::Range;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use httpdate::HttpDate;
use net::app::{App, AppContext, Handle};
use net::sock::Error;
use net::tcp::settings::Settings;
use net::tcp::{self, Accepted, Id, IpTxParams, Listen};
use net::time::{Duration, Instant};
use pkt::counters::{CounterBlock, CounterReader};

use super::Limits;
use super::budget::{Budget, Client};
use super::conditional::Verdict;
use super::connection::{Asking, HttpConns, Sending, Spare, Stage};
use super::counters::Hit;
use super::file_reader::{self, FileReply, FileRequest, Found, Page, ReadRequest, Ticket, made};
use super::request::{self, HEAD_MAX, Parsed, Request};
use super::response::{self, Head, Part};

/// Connections of a server on each CPU at the most.
const VISITS_MAX: usize = 65_536;
/// Connections that may wait to be accepted: more than come in a turn.
const BACKLOG: usize = 1024;
/// Connections on each CPU that may ask with their SYN.
const OPENED_MAX: usize = BACKLOG / 2;
/// Requests of a connection that are answered before others on the CPU have their turn.
const REQUESTS_AT_ONCE: usize = 16;
/// Time for a head to come to its end, once it has begun.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Time between requests, and for the library.
const IDLE: Duration = Duration::from_secs(60);
/// Time for the other end to close a connection behind the last answer.
const LINGER: Duration = Duration::from_secs(5);
/// There is no such page.
const NOT_FOUND: u16 = 404;
/// Bytes of an answer that TCP takes at once.
const SENT_AT_ONCE: u64 = 32 << 10;
/// All connections are looked at once in this time, whether theirs is over.
const ROUND: Duration = Duration::from_secs(1);
/// Connections that are looked at for this at once.
const LOOKED_AT: u32 = 4096;
/// Files that are remembered on each CPU, their bytes, and how long.
const REMEMBERED_MAX: usize = 4096;
const REMEMBERED_BYTES: u64 = 64 << 20;
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// A web server on one CPU.
pub struct Web {
    addr: SocketAddr,
    files: Files,
    visits: HttpConns,
    budget: Budget,
    remembered: Memory,
    hits: CounterBlock<Hit>,
    date: Date,
    /// Where to go on looking for connections whose time is over.
    round: u32,
    head: Box<[u8; HEAD_MAX]>,
    /// The memory of the request before.
    request: Request,
    spare: Spare,
}

/// Where what is asked for is.
enum Files {
    /// In a folder, which a thread reads.
    Library(file_reader::FileClient),
    /// Here, by their names.
    Pages(HashMap<Vec<u8>, Arc<Page>>),
}

/// Files that were read a moment ago.
#[derive(Default)]
struct Memory {
    pages: HashMap<Vec<u8>, (Arc<Page>, Instant)>,
    bytes: u64,
}

/// The time as heads say it, made anew each second.
#[derive(Default)]
struct Date {
    text: String,
    until: Option<Instant>,
}

/// The next step of a connection.
enum Step {
    /// Look at it again: it is in another stage.
    On,
    /// Wait for something to happen.
    Wait,
    /// It is gone.
    Gone,
}

impl Web {
    pub(super) fn new(addr: SocketAddr, library: file_reader::FileClient, budget: Budget) -> Self {
        Self::with(addr, Files::Library(library), budget)
    }

    /// One that serves at `addr` what it is given: names, without the slash in front, and bytes. The page of a folder ends
    /// with a slash; `/` is what a client gets that asks for nothing else.
    #[must_use]
    pub fn of_pages(addr: SocketAddr, pages: &[(&str, &[u8])]) -> Self {
        let pages =
            pages.iter().map(|(name, bytes)| (name.as_bytes().to_vec(), file_reader::held(name, bytes)));
        Self::with(addr, Files::Pages(pages.collect()), Budget::alone(Limits::default()))
    }

    fn with(addr: SocketAddr, files: Files, budget: Budget) -> Self {
        Self {
            addr,
            files,
            visits: HttpConns::default(),
            budget,
            remembered: Memory::default(),
            hits: CounterBlock::new(),
            date: Date::default(),
            round: 0,
            head: Box::new([0; HEAD_MAX]),
            request: Request::default(),
            spare: Spare::default(),
        }
    }

    /// Returns a reader of its counters.
    pub(crate) fn counters(&self) -> CounterReader<Hit> {
        self.hits.reader()
    }

    /// Does what can be done for a connection now.
    fn serve(&mut self, cx: &mut AppContext<'_>, key: u32) {
        let mut answered = 0;
        loop {
            let Some(visit) = self.visits.get_mut(key) else { return };
            let id = visit.id;
            let step = match &visit.stage {
                Stage::Reads { .. } if answered == REQUESTS_AT_ONCE => return cx.again(id),
                Stage::Reads { .. } => {
                    answered += 1;
                    self.read(cx, key, id)
                }
                Stage::Asks(_) => Step::Wait,
                Stage::Sends(_) => self.send(cx, key, id),
                Stage::Ends => self.linger(cx, key, id),
            };
            match step {
                Step::On => {}
                Step::Wait => return self.charge_waiting(cx, key),
                Step::Gone => return,
            }
        }
    }

    /// The next head, if it is there.
    fn read(&mut self, cx: &mut AppContext<'_>, key: u32, id: Id) -> Step {
        let len = match tcp::peek(cx.cpu, id, self.head.as_mut_slice()) {
            Ok(0) => return self.close(cx, key, id),
            Ok(len) => len,
            Err(_) => return Step::Wait,
        };
        match request::parse(&self.head[..len], &mut self.request) {
            Parsed::Incomplete => self.head_begins(cx, key, id),
            Parsed::Wrong(status) => {
                self.hits.inc(Hit::Requests);
                self.answer(cx, key, Err(status), None)
            }
            Parsed::Request(len) => {
                self.hits.inc(Hit::Requests);
                // It is there: it was seen a moment ago.
                let _ = tcp::read_in_place(cx.cpu, id, |_| (len, ()));
                self.look_up(cx, key)
            }
        }
    }

    /// A part of a head has come: the rest must follow in time. If the other end sends no more, there is none.
    fn head_begins(&mut self, cx: &mut AppContext<'_>, key: u32, id: Id) -> Step {
        let is_over = tcp::connection(cx.cpu, id).is_none_or(|(_, tcb)| tcb.is_finished());
        if is_over {
            return self.close(cx, key, id);
        }
        if let Some(visit) = self.visits.get_mut(key)
            && matches!(visit.stage, Stage::Reads { has_begun: false })
        {
            visit.stage = Stage::Reads { has_begun: true };
            visit.deadline = cx.now() + HEAD_WITHIN;
        }
        Step::Wait
    }

    /// Answers at once what is here or remembered, and asks the library for the rest.
    fn look_up(&mut self, cx: &AppContext<'_>, key: u32) -> Step {
        let request = core::mem::take(&mut self.request);
        let remembered = self.remembered.find(&request, cx.now());
        let more = remembered.as_ref().map_or(0, |page| page.len.min(SENT_AT_ONCE));
        if !self.admits(key, more) {
            self.request = request;
            return self.refuse(cx, key);
        }
        let page = match (remembered, &self.files) {
            (Some(page), _) => {
                self.hits.inc(Hit::Remembered);
                Ok(page)
            }
            (None, Files::Pages(pages)) => pages.get(&request.name).cloned().ok_or(NOT_FOUND),
            (None, Files::Library(_)) => {
                let what = ReadRequest::Find { name: request.name.clone() };
                return self.ask(cx, key, what, Asking::Page(request));
            }
        };
        let step = self.answer(cx, key, page, Some(&request));
        self.request = request;
        step
    }

    fn ask(&mut self, cx: &AppContext<'_>, key: u32, what: ReadRequest, asking: Asking) -> Step {
        let Some(visit) = self.visits.get_mut(key) else { return Step::Gone };
        visit.serial = visit.serial.wrapping_add(1);
        visit.stage = Stage::Asks(Box::new(asking));
        visit.deadline = cx.now() + IDLE;
        let ticket = Ticket { key, serial: visit.serial };
        if let Files::Library(library) = &self.files {
            // Without its thread there is no reply, and the connection will time out.
            let _ =
                library.asks.send(FileRequest { client: library.place, program: cx.program(), ticket, what });
        }
        Step::Wait
    }

    /// The library has answered.
    fn answered(&mut self, cx: &mut AppContext<'_>, answer: FileReply) {
        let Some((_, asking)) = self.visits.waiting(answer.ticket) else { return };
        let key = answer.ticket.key;
        match (asking, answer.found) {
            (Asking::Page(request), Ok(Found::Page(page))) => self.found(cx, key, page, &request),
            (Asking::Page(request), Ok(Found::Elsewhere(location))) => {
                self.redirect(cx, key, &request, &location);
            }
            (Asking::Page(request), Err(status)) => drop(self.answer(cx, key, Err(status), Some(&request))),
            (Asking::Piece(mut sending), Ok(Found::Piece(piece))) => {
                if sending.refill(piece) {
                    self.begin_sending(cx, key, sending);
                } else {
                    self.abort(cx, key);
                }
            }
            // What was promised cannot be kept: the file cannot be read any more.
            _ => self.abort(cx, key),
        }
        self.serve(cx, key);
    }

    /// Answers with a page that the library has found, if there is memory for it. One that another connection asked for is shared.
    fn found(&mut self, cx: &AppContext<'_>, key: u32, page: Arc<Page>, request: &Request) {
        let remembered = self.remembered.find(request, cx.now());
        let own = if remembered.is_some() { 0 } else { page.first.len() as u64 };
        if !self.admits(key, own + page.len.min(SENT_AT_ONCE)) {
            self.refuse(cx, key);
            return;
        }
        let page = remembered.unwrap_or_else(|| {
            self.remembered.keep(request, &page, cx.now());
            page
        });
        self.answer(cx, key, Ok(page), Some(request));
    }

    /// Begins to answer: with a page, or with the status that says why not.
    fn answer(
        &mut self,
        cx: &AppContext<'_>,
        key: u32,
        page: Result<Arc<Page>, u16>,
        request: Option<&Request>,
    ) -> Step {
        let keeps = request.is_some_and(|request| request.keeps);
        let (mut status, page) = match page {
            Ok(page) => (200, page),
            Err(status) => (status, made(response::page(status))),
        };
        let (mut page, mut bytes, mut range) = (Arc::clone(&page), 0..page.len, None);
        if let Some(request) = request.filter(|_| status == 200) {
            (status, bytes, range) = part(request, &page);
        }
        if status == 412 {
            page = made(response::page(status));
            bytes = 0..page.len;
        }
        let date = self.date.at(cx.now());
        let (mime, len, validator) = (page.mime, bytes.end - bytes.start, page.validator.as_ref());
        let whole = (len == page.len && range.is_none() && status != 304).then_some(&*page.fields);
        let head = Head { status, date, whole, mime, len, validator, range, location: None, keeps };
        self.hits.inc(Hit::of_status(status));
        let head_only = status == 304 || request.is_some_and(|request| request.head_only);
        let mut sending = self.spare.take();
        sending.begin(&head, &page, if head_only { 0..0 } else { bytes });
        self.begin_sending(cx, key, sending)
    }

    fn redirect(&mut self, cx: &AppContext<'_>, key: u32, request: &Request, location: &str) {
        let page = made(response::page(301));
        let (mime, len, keeps, date) = (page.mime, page.len, request.keeps, self.date.at(cx.now()));
        let (whole, location) = (Some(&*page.fields), Some(location));
        let head =
            Head { status: 301, date, whole, mime, len, validator: None, range: None, location, keeps };
        self.hits.inc(Hit::Redirection);
        let mut sending = self.spare.take();
        sending.begin(&head, &page, if request.head_only { 0..0 } else { 0..len });
        self.begin_sending(cx, key, sending);
    }

    fn begin_sending(&mut self, cx: &AppContext<'_>, key: u32, mut sending: Box<Sending>) -> Step {
        if let Some(visit) = self.visits.get_mut(key) {
            sending.since = Some(cx.now());
            visit.stage = Stage::Sends(sending);
            visit.deadline = cx.now() + self.budget.limits.stall;
        }
        Step::On
    }

    /// Sends what there is room for.
    fn send(&mut self, cx: &mut AppContext<'_>, key: u32, id: Id) -> Step {
        let Some(visit) = self.visits.get_mut(key) else { return Step::Gone };
        let Stage::Sends(sending) = &mut visit.stage else { return Step::On };
        loop {
            let bytes = sending.next();
            if bytes.is_empty() {
                break;
            }
            let len = bytes.len();
            // A connection that cannot be sent to will be closed.
            let Ok(sent) = tcp::send(cx.cpu, id, bytes) else { return Step::Wait };
            sending.advance(sent);
            self.hits.add(Hit::Bytes, sent as u64);
            visit.sent += sent as u64;
            visit.has_moved = true;
            visit.deadline = cx.now() + self.budget.limits.stall;
            if sent < len {
                return Step::Wait;
            }
        }
        self.sent(cx, key, id)
    }

    /// Continues after all bytes were sent: more has to be read, or the response is complete.
    fn sent(&mut self, cx: &mut AppContext<'_>, key: u32, id: Id) -> Step {
        let Some(visit) = self.visits.get_mut(key) else { return Step::Gone };
        let Stage::Sends(mut sending) = core::mem::replace(&mut visit.stage, Stage::Ends) else {
            return Step::On;
        };
        let most = sending.next_piece(cx.now(), self.budget.is_tight());
        if let Some((file, rest)) = &sending.rest {
            let what = ReadRequest::Read { file: Arc::clone(file), at: rest.start, most };
            return self.ask(cx, key, what, Asking::Piece(sending));
        }
        let keeps = sending.keeps;
        self.spare.give(sending);
        if keeps {
            visit.stage = Stage::Reads { has_begun: false };
            visit.deadline = cx.now() + IDLE;
            return Step::On;
        }
        visit.deadline = cx.now() + LINGER;
        //= https://www.rfc-editor.org/rfc/rfc9112#section-9.6
        //# To avoid the TCP reset problem, servers typically close a connection
        //# in stages.
        let _ = tcp::shutdown(cx.cpu, id);
        Step::On
    }

    /// Reads what the other end still sends, and waits for its end.
    fn linger(&mut self, cx: &mut AppContext<'_>, key: u32, id: Id) -> Step {
        let all = |[first, second]: [&[u8]; 2]| (first.len() + second.len(), ());
        match tcp::read_in_place(cx.cpu, id, all) {
            Ok(Some(())) | Err(Error::WouldBlock) => Step::Wait,
            _ => self.close(cx, key, id),
        }
    }

    /// Ends a connection, when all that was sent is acknowledged: until then TCP's buffer is held for its reader.
    fn close(&mut self, cx: &mut AppContext<'_>, key: u32, id: Id) -> Step {
        let is_held = tcp::connection(cx.cpu, id).is_some_and(|(_, tcb)| tcb.queued() > 0);
        if let Some(visit) = self.visits.get_mut(key).filter(|_| is_held) {
            visit.stage = Stage::Ends;
            (visit.deadline, visit.has_moved) = (cx.now() + LINGER, true);
            let _ = tcp::shutdown(cx.cpu, id);
            return Step::Wait;
        }
        // What has ended by itself needs no closing.
        let _ = tcp::close(cx.cpu, id);
        self.remove(key);
        Step::Gone
    }

    /// Forgets a connection, and what it held.
    fn remove(&mut self, key: u32) {
        if let Some(visit) = self.visits.get_mut(key) {
            self.budget.set(visit.client, &mut visit.charged, 0);
            self.visits.remove(key);
        }
    }

    fn abort(&mut self, cx: &mut AppContext<'_>, key: u32) {
        if let Some(id) = self.visits.get_mut(key).map(|visit| visit.id) {
            let _ = tcp::abort(cx.cpu, id);
            self.remove(key);
        }
    }

    /// Ends a connection whose time is over. A client that has begun a request gets a response.
    fn give_up(&mut self, cx: &mut AppContext<'_>, key: u32) {
        let Some(visit) = self.visits.get_mut(key) else { return };
        let id = visit.id;
        match visit.stage {
            Stage::Reads { has_begun: true } => {
                self.hits.inc(Hit::TimedOut);
                self.answer(cx, key, Err(408), None);
                self.serve(cx, key);
            }
            Stage::Reads { .. } | Stage::Ends => drop(self.close(cx, key, id)),
            Stage::Asks(_) | Stage::Sends(_) => {
                self.hits.inc(Hit::TimedOut);
                self.abort(cx, key);
            }
        }
    }
}

impl App for Web {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        let (addr, tx_params) = (self.addr, IpTxParams::default());
        // A request that comes twice does no harm: nothing is changed by any.
        let settings = Settings { fast_open_max: OPENED_MAX, ..cx.cpu.sysctls.tcp };
        let wanted =
            Listen { addr, zone: 0, only_v6: false, backlog: BACKLOG, is_shared: false, settings, tx_params };
        cx.listen(&wanted, 0)?;
        cx.wake_at(cx.now() + ROUND);
        Ok(())
    }

    fn accepted(&mut self, cx: &mut AppContext<'_>, _: u32, accepted: Accepted) -> u32 {
        self.hits.inc(Hit::Connections);
        if self.visits.len() >= VISITS_MAX {
            self.hits.inc(Hit::TooMany);
            let _ = tcp::abort(cx.cpu, accepted.id);
            return u32::MAX;
        }
        let client = Client::of(accepted.ends.remote);
        self.visits.add(accepted.id, client, cx.now(), cx.now() + IDLE)
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        self.serve(cx, conn.key);
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        self.serve(cx, conn.key);
    }

    fn closed(&mut self, _: &mut AppContext<'_>, conn: Handle<Id>, _: Option<Error>) {
        self.remove(conn.key);
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        let (now, end) = (cx.now(), u32::try_from(self.visits.end()).unwrap_or(u32::MAX));
        let from = if self.round < end { self.round } else { 0 };
        let to = end.min(from.saturating_add(LOOKED_AT));
        for key in from..to {
            self.review(cx, key);
            if self.visits.get_mut(key).is_some_and(|visit| visit.deadline <= now) {
                self.give_up(cx, key);
            }
        }
        self.round = to;
        cx.wake_at(now + ROUND / end.div_ceil(LOOKED_AT).max(1));
    }

    fn called(&mut self, cx: &mut AppContext<'_>) {
        if let Files::Library(library) = &self.files {
            library.looks();
        }
        while let Some(answer) = self.files.answered() {
            self.answered(cx, answer);
        }
    }
}

/// Which part of a page answers a request, under which status, and what is said of it.
fn part(request: &Request, page: &Page) -> (u16, Range<u64>, Option<Part>) {
    match request.conditions.verdict(page) {
        Verdict::NotModified => return (304, 0..0, None),
        Verdict::Failed => return (412, 0..0, None),
        Verdict::Send => {}
    }
    let wanted = request.range.filter(|_| request.conditions.is_range_valid(page));
    match wanted.map(|wanted| wanted.of(page.len)) {
        None => (200, 0..page.len, None),
        Some(None) => (416, 0..0, Some((None, page.len))),
        Some(Some(bytes)) => (206, bytes.clone(), Some((Some(bytes), page.len))),
    }
}

impl Files {
    fn answered(&self) -> Option<FileReply> {
        match self {
            Self::Library(library) => library.answered(),
            Self::Pages(_) => None,
        }
    }
}

impl Memory {
    fn find(&self, request: &Request, now: Instant) -> Option<Arc<Page>> {
        let (page, until) = self.pages.get(&request.name)?;
        (*until > now).then(|| Arc::clone(page))
    }

    /// Remembers a file that is all there. When there is no room, all others are forgotten.
    fn keep(&mut self, request: &Request, page: &Arc<Page>, now: Instant) {
        if page.file.is_some() {
            return;
        }
        if self.pages.len() >= REMEMBERED_MAX || self.bytes + page.len > REMEMBERED_BYTES {
            *self = Self::default();
        }
        self.bytes += page.len;
        let before = self.pages.insert(request.name.clone(), (Arc::clone(page), now + REMEMBERED_FOR));
        self.bytes -= before.map_or(0, |(page, _)| page.len);
    }
}

impl Date {
    fn at(&mut self, now: Instant) -> &str {
        if self.until.is_none_or(|until| until <= now) {
            self.text.clear();
            // Writing to a string does not fail.
            let _ = write!(self.text, "{}", HttpDate::from(SystemTime::now()));
            self.until = Some(now + Duration::from_secs(1));
        }
        &self.text
    }
}

#[cfg(test)]
mod tests;
