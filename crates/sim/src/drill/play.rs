//! Events, one after the other.

use core::time::Duration;
use std::collections::VecDeque;

use drill::packet::{Direction, Flags, Packet, Payload, TcpOptions};
use drill::script::{Action, At, Command, Event, Pos, Script};
use drill::syscall::{Call, Syscall};

use super::build;
use super::clock::{Tolerance, When, begins, ends};
use super::compare::{Came, Stamps, difference};
use super::conn::{Conn, Conns, FourTuple};
use super::ends::Endpoints;
use super::lab::{Lab, Sent};
use super::linux::aggregate::{self, Whole};
use super::orders::Subject;
use super::pending::Pending;
use super::program::Program;
use super::seen::Seen;
use super::shell::{self, Order};
use super::{Failure, Setup, assert, calls, linux, orders};

/// A script that is being played.
pub(super) struct Play<'a> {
    script: &'a Script,
    ends: Endpoints,
    lab: Lab,
    program: Program,
    tolerance: Tolerance,
    conns: Conns,
    /// Segments that follow each other are taken for the one that is expected.
    aggregates: bool,
    /// A call that has to wait.
    pending: Option<Pending<'a>>,
    /// Packets that no line has expected so far: of other connections than the lines that came.
    held: VecDeque<(Sent, Seen)>,
}

impl<'a> Play<'a> {
    /// Sets the stage for a script.
    pub(super) fn new(script: &'a Script, setup: &Setup) -> Result<Self, Failure> {
        let ends = Endpoints::of(script, setup.version)
            .map_err(|message| Failure { pos: Pos { line: 1, column: 1 }, message })?;
        Ok(Self {
            script,
            lab: Lab::new(&ends, setup),
            program: Program::default(),
            tolerance: Tolerance::of(script),
            conns: Conns::new(ends.bind_port),
            aggregates: aggregate::is_allowed(script),
            pending: None,
            held: VecDeque::new(),
            ends,
        })
    }

    /// Plays all events.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        let script = self.script;
        if let Some(init) = &script.init {
            self.command(init)?;
        }
        let curtain = curtain(&script.events);
        for (at, event) in script.events.iter().enumerate() {
            if at == curtain {
                self.nothing_is_left(event.time.pos)?;
            }
            self.event(event)?;
        }
        self.finish_pending()?;
        if curtain == script.events.len() {
            self.nothing_is_left(script.events.last().map_or_else(Pos::default, |event| event.time.pos))?;
        }
        script.cleanup.as_ref().map_or(Ok(()), |cleanup| self.command(cleanup))
    }

    /// Plays all events, and answers the packet that the host sends then.
    pub(super) fn hear(mut self) -> Option<Packet> {
        let script = self.script;
        script.events.iter().try_for_each(|event| self.event(event)).ok()?;
        let at = self.conns.last_at()?;
        self.next(at, Pos::default(), self.lab.now()).ok()?.map(|(_, seen)| seen.packet)
    }

    fn event(&mut self, event: &'a Event) -> Result<(), Failure> {
        if let Action::Packet(packet) = &event.action
            && packet.direction == Direction::Outbound
        {
            let when = When::of(event.time.value, self.lab.now(), self.tolerance);
            return self.expect(packet, when);
        }
        if matches!(event.action, Action::Syscall(_)) {
            self.finish_pending()?;
        }
        let last = self.lab.now();
        self.wait(event)?;
        match &event.action {
            Action::Packet(packet) => self.inject(packet),
            Action::Command(command) => self.command(command),
            Action::Syscall(call) => self.call(call, event, last),
            Action::Code(code) => {
                let fd = self.conns.last_fd();
                let socket = fd.and_then(|fd| self.program.sockets.get(&fd));
                let reader = assert::Reader { socket, is_linux: self.ends.is_linux };
                assert::check(code, reader, &mut self.lab).or_else(|(pos, message)| fail(pos, message))
            }
        }
    }

    /// Waits for the time of an event that the script itself does.
    fn wait(&mut self, event: &Event) -> Result<(), Failure> {
        let (time, last) = (event.time.value, self.lab.now());
        let when = When::of(time, last, self.tolerance);
        let at = begins(time, last);
        while self.lab.step(at) {
            self.poll_pending()?;
        }
        match when.wrong(self.lab.now()) {
            Some(wrong) => fail(event.time.pos, format!("this begins {wrong}")),
            None => Ok(()),
        }
    }

    fn command(&mut self, command: &At<Command>) -> Result<(), Failure> {
        let orders = shell::read_all(&command.value.0).or_else(|message| fail(command.pos, message))?;
        let done = orders.into_iter().try_for_each(|order| self.obey(order));
        done.or_else(|message| fail(command.pos, message))
    }

    fn obey(&mut self, order: Order) -> Result<(), String> {
        let Self { lab, program: Program { sysctls, sockets, .. }, ends, .. } = self;
        let subject = Subject { lab, sysctls, local: ends.local.addr, remote: ends.remote };
        orders::obey(order, subject, sockets.values())
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), Failure> {
        let conn = self.conns.receiver(packet);
        let tuple = FourTuple {
            src: (self.ends.remote, conn.remote_port),
            dst: (self.ends.local.addr, conn.local_port),
        };
        let secret = self.ends.secret.as_deref();
        let bytes =
            build::packet(packet, tuple, conn, secret).or_else(|message| fail(packet.pos, message))?;
        self.lab.inject(&bytes);
        self.poll_pending()
    }

    fn call(&mut self, call: &'a Syscall, event: &Event, last: Duration) -> Result<(), Failure> {
        calls::announce(call, &self.ends, &mut self.conns);
        let end = call.end.map(|end| ends(event.time.value, end.value, last));
        let when = end.map(|end| When::at(end, last, self.tolerance));
        self.pending = Some(Pending::new(call, self.lab.now(), when));
        self.poll_pending()?;
        match &self.pending {
            Some(pending) if pending.when.is_none() => {
                fail(call.call.pos, format!("expected `{call}`; it has to wait"))
            }
            _ => Ok(()),
        }
    }

    /// Asks again for what has to wait.
    fn poll_pending(&mut self) -> Result<(), Failure> {
        let Some(mut pending) = self.pending.take() else { return Ok(()) };
        let pos = pending.call.call.pos;
        let is_done = pending
            .poll(&mut self.program, &mut self.lab, &self.ends, &mut self.conns)
            .or_else(|message| fail(pos, message))?;
        if !is_done {
            self.pending = Some(pending);
        }
        Ok(())
    }

    /// Waits for what has to wait.
    fn finish_pending(&mut self) -> Result<(), Failure> {
        while let Some(Pending { call, when: Some(when), .. }) = self.pending {
            let until = when.latest();
            let is_busy = self.lab.step(until);
            self.poll_pending()?;
            if !is_busy && self.pending.is_some() {
                return fail(
                    call.call.pos,
                    format!("expected `{call}`; it waits until {:.6}", until.as_secs_f64()),
                );
            }
        }
        Ok(())
    }

    /// Waits for a packet, and holds it to what the script says.
    fn expect(&mut self, demanded: &Packet, when: When) -> Result<(), Failure> {
        let Some(at) = self.conns.sender_at(demanded) else {
            return fail(demanded.pos, format!("expected {demanded}; there is no socket that could send it"));
        };
        let Some((sent, seen)) = self.next(at, demanded.pos, when.latest())? else {
            let until = when.latest().as_secs_f64();
            return fail(demanded.pos, format!("expected {demanded}; nothing came until {until:.6}"));
        };
        let (sent, seen) = self.whole(at, demanded, when, sent, seen)?;
        let is_possible = self.conns.may_send(at, seen.ports);
        let conn = self.conns.at(at);
        conn.hear(demanded, &seen.packet);
        let mut came = seen.in_script(conn);
        if self.ends.is_linux
            && let Payload::Tcp(tcp) = &mut came.payload
            && let TcpOptions::List(options) = &mut tcp.options.value
        {
            *options = linux::laid_out(options);
        }
        let stamps = Stamps {
            tick_usecs: self.script.number("tcp_ts_tick_usecs").unwrap_or(0),
            tolerance: self.tolerance.least,
        };
        let shown = Came { packet: &came, on_wire: &seen.packet, is_ipv6: self.ends.is_ipv6() };
        let ports = demanded.ports.map(|ports| ports.value).filter(|ports| *ports != seen.ports);
        let is_of_another = ports.is_some() || !is_possible;
        let wrong = is_of_another.then(|| format!("ports {} > {}", seen.ports.src, seen.ports.dst));
        let wrong = wrong.or_else(|| difference(demanded, shown, stamps));
        let wrong = wrong.or_else(|| strange(conn, &came, &seen.bytes)).or_else(|| when.wrong(sent.at));
        match wrong {
            Some(wrong) => fail(demanded.pos, format!("expected {demanded}; came {came}: {wrong}")),
            None => Ok(()),
        }
    }

    /// The packet with those that follow it, where the script expects a longer one and may have it in several.
    fn whole(
        &mut self,
        at: usize,
        demanded: &Packet,
        when: When,
        mut sent: Sent,
        seen: Seen,
    ) -> Result<(Sent, Seen), Failure> {
        let ports = seen.ports;
        let mut whole = Whole::new(seen.packet, seen.bytes);
        while self.aggregates && whole.lacks(demanded) {
            let Some((next_sent, next)) = self.next(at, demanded.pos, when.latest())? else { break };
            if !whole.take(&next.packet, &next.bytes, demanded) {
                return fail(demanded.pos, format!("expected {demanded}; of it only {} came", whole.packet));
            }
            sent = next_sent;
        }
        Ok((sent, Seen { ports, packet: whole.packet, bytes: whole.bytes }))
    }

    /// The next packet of a connection, if it comes until then. Those of others wait for a line that expects them.
    fn next(&mut self, at: usize, pos: Pos, until: Duration) -> Result<Option<(Sent, Seen)>, Failure> {
        loop {
            self.hold_sent(pos)?;
            let Self { held, conns, .. } = self;
            if let Some(first) = held.iter().position(|(_, seen)| conns.concerns(at, seen.ports)) {
                return Ok(held.remove(first));
            }
            let is_busy = self.lab.step(until);
            self.poll_pending()?;
            if !is_busy {
                return Ok(None);
            }
        }
    }

    /// Reads what the host has sent meanwhile.
    fn hold_sent(&mut self, pos: Pos) -> Result<(), Failure> {
        while let Some(sent) = self.lab.take_sent() {
            match Seen::read(&sent.bytes, self.ends.secret.as_deref()) {
                Ok(seen) => self.held.push_back((sent, seen)),
                Err(why) => return fail(pos, format!("a packet came that cannot be read: {why}")),
            }
        }
        match self.lab.take_stray() {
            None => Ok(()),
            Some(to) => fail(pos, format!("expected no packet to {to}; one came")),
        }
    }

    /// Whether the last packet of the script goes to the host and is the end of a stream. Such a script need not say that it is
    /// acknowledged: RFC 9293 §3.10.7.4 demands that in each state.
    fn ends_with_fin(&self) -> bool {
        let last = self.script.events.iter().rev().find_map(|event| match &event.action {
            Action::Packet(packet) => Some(packet),
            _ => None,
        });
        last.is_some_and(|last| {
            let ends = matches!(&last.payload, Payload::Tcp(tcp) if tcp.flags.value.contains(Flags::FIN));
            ends && last.direction == Direction::Inbound
        })
    }

    /// No packet of the host is left that no line has expected, of any connection.
    fn nothing_is_left(&mut self, pos: Pos) -> Result<(), Failure> {
        while self.lab.step(self.lab.now()) {
            self.poll_pending()?;
        }
        self.hold_sent(pos)?;
        let mut left = core::mem::take(&mut self.held);
        if self.ends_with_fin() && left.front().is_some_and(|(_, seen)| is_bare_ack(&seen.packet)) {
            left.pop_front();
        }
        let Some((_, seen)) = left.pop_front() else { return Ok(()) };
        let known =
            (0..=self.conns.last_at().unwrap_or(0)).rev().find(|at| self.conns.knows(*at, seen.ports));
        let came = known.map_or_else(|| seen.packet.clone(), |at| seen.in_script(self.conns.at(at)));
        fail(pos, format!("expected no packet any more; came {came}"))
    }
}

/// Where a script begins to clean up: behind this it demands nothing of packets.
fn curtain(events: &[Event]) -> usize {
    let cleans = |event: &&Event| match &event.action {
        Action::Syscall(call) => call.call.value == Call::Close,
        Action::Command(_) => true,
        Action::Packet(_) | Action::Code(_) => false,
    };
    events.len() - events.iter().rev().take_while(cleans).count()
}

/// An acknowledgment and nothing else.
fn is_bare_ack(packet: &Packet) -> bool {
    matches!(&packet.payload, Payload::Tcp(tcp) if tcp.flags.value == Flags::ACK && tcp.seq.value.len == 0)
}

/// Bytes that the program has not sent, at least not there.
fn strange(conn: &Conn, came: &Packet, bytes: &[u8]) -> Option<String> {
    let Payload::Tcp(tcp) = &came.payload else { return None };
    (!conn.has_written(tcp, bytes)).then(|| "other bytes than the program has sent".to_owned())
}

fn fail<T>(pos: Pos, message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { pos, message: message.into() })
}
