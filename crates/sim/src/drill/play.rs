//! Events, one after the other.

use core::time::Duration;

use drill::packet::{Direction, Flags, Packet, Payload, Ports, SeqStart, TcpOption, TcpOptions};
use drill::script::{Action, At, Command, Event, Pos, Script};
use drill::syscall::Call;

use super::build;
use super::clock::{Tolerance, When, begins};
use super::compare::{Came, Stamps, difference};
use super::conn::{Conn, Phase, Way};
use super::ends::Ends;
use super::lab::{Lab, Sent};
use super::seen::Seen;
use super::{Failure, Setup, shell};

/// The first port of the other end; each connection that it begins has the next.
const REMOTE_PORT: u16 = 40_000;

/// A script that is being played.
pub(super) struct Play<'a> {
    script: &'a Script,
    ends: Ends,
    lab: Lab,
    tolerance: Tolerance,
    /// All that were there so far; packets without ports are of the last.
    conns: Vec<Conn>,
    next_port: u16,
}

impl<'a> Play<'a> {
    /// Sets the stage for a script.
    pub(super) fn new(script: &'a Script, setup: &Setup) -> Result<Self, Failure> {
        let ends = Ends::of(script, setup.version)
            .map_err(|message| Failure { pos: Pos { line: 1, column: 1 }, message })?;
        let (lab, tolerance) = (Lab::new(&ends, setup), Tolerance::of(script));
        Ok(Self { script, ends, lab, tolerance, conns: Vec::new(), next_port: REMOTE_PORT })
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
        if curtain == script.events.len() {
            self.nothing_is_left(script.events.last().map_or_else(Pos::default, |event| event.time.pos))?;
        }
        script.cleanup.as_ref().map_or(Ok(()), |cleanup| self.command(cleanup))
    }

    fn event(&mut self, event: &Event) -> Result<(), Failure> {
        if let Action::Packet(packet) = &event.action
            && packet.direction == Direction::Outbound
        {
            let when = When::of(event.time.value, self.lab.now(), self.tolerance);
            return self.expect(packet, when);
        }
        self.wait(event)?;
        match &event.action {
            Action::Packet(packet) => self.inject(packet),
            Action::Command(command) => self.command(command),
            Action::Syscall(call) => fail(call.call.pos, "system calls cannot be made yet"),
            Action::Code(code) => fail(code.pos, "assertions cannot be evaluated yet"),
        }
    }

    /// Waits for the time of an event that the script itself does.
    fn wait(&mut self, event: &Event) -> Result<(), Failure> {
        let (time, last) = (event.time.value, self.lab.now());
        let when = When::of(time, last, self.tolerance);
        self.lab.run_until(begins(time, last));
        match when.wrong(self.lab.now()) {
            Some(wrong) => fail(event.time.pos, format!("this begins {wrong}")),
            None => Ok(()),
        }
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "commands change the host")]
    fn command(&mut self, command: &At<Command>) -> Result<(), Failure> {
        match shell::read(&command.value.0) {
            Ok(shell::Order::Nothing) => Ok(()),
            Ok(_) => fail(command.pos, "commands cannot be carried out yet"),
            Err(message) => fail(command.pos, message),
        }
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), Failure> {
        let at = self.conn_of(packet);
        let conn = &mut self.conns[at];
        meet(conn, packet);
        let way =
            Way { src: (self.ends.remote, conn.remote_port), dst: (self.ends.local.addr, conn.local_port) };
        let bytes = build::packet(packet, way, conn).or_else(|message| fail(packet.pos, message))?;
        self.lab.inject(&bytes);
        Ok(())
    }

    /// The connection that a packet to the host is of; a new one, if there is none.
    fn conn_of(&mut self, packet: &Packet) -> usize {
        if let Some(ports) = packet.ports {
            let (src, dst) = (ports.dst, ports.src);
            let known = self.conns.iter().position(|conn| conn.sends(Ports { src, dst }));
            return known.unwrap_or_else(|| self.called(packet, dst, src));
        }
        match self.conns.last() {
            Some(last) if last.phase == Phase::Listening || last.remote_port == 0 => {
                let (remote, local) = (self.next_port, last.local_port.max(1));
                let local = if last.local_port == 0 { self.ends.bind_port } else { local };
                self.next_port += 1;
                self.called(packet, remote, local)
            }
            Some(_) => self.conns.len() - 1,
            None => {
                let (remote, local) = (self.next_port, self.ends.bind_port);
                self.next_port += 1;
                self.called(packet, remote, local)
            }
        }
    }

    /// A connection that the other end begins with this packet.
    fn called(&mut self, packet: &Packet, remote_port: u16, local_port: u16) -> usize {
        let is_listened = self.conns.last().is_some_and(|last| last.phase == Phase::Listening);
        let mut conn = Conn::new(Phase::Asked).between(local_port, remote_port);
        if let (Payload::Tcp(tcp), true) = (&packet.payload, is_listened)
            && let SeqStart::Relative(start) = tcp.seq.start
        {
            conn.remote_isn = start;
        }
        self.conns.push(conn);
        self.conns.len() - 1
    }

    /// Waits for a packet, and holds it to what the script says.
    fn expect(&mut self, demanded: &Packet, when: When) -> Result<(), Failure> {
        let at = self.sender_of(demanded)?;
        let Some((sent, seen)) = self.next(at, demanded.pos, when.latest())? else {
            let until = when.latest().as_secs_f64();
            return fail(demanded.pos, format!("expected {demanded}; nothing came until {until:.6}"));
        };
        let conn = &mut self.conns[at];
        hear(conn, demanded, &seen.packet);
        let came = seen.in_script(conn);
        let stamps = Stamps {
            tick_usecs: self.script.number("tcp_ts_tick_usecs").unwrap_or(0),
            tolerance: self.tolerance.least,
        };
        let shown = Came { packet: &came, on_wire: &seen.packet, is_ipv6: self.ends.is_ipv6() };
        let ports = demanded.ports.map(|ports| ports.value).filter(|ports| *ports != seen.ports);
        let wrong = ports.map(|_| format!("ports {} > {}", seen.ports.src, seen.ports.dst));
        let wrong = wrong.or_else(|| difference(demanded, shown, stamps)).or_else(|| when.wrong(sent.at));
        match wrong {
            Some(wrong) => fail(demanded.pos, format!("expected {demanded}; came {came}: {wrong}")),
            None => Ok(()),
        }
    }

    /// The connection that a packet from the host must be of.
    fn sender_of(&mut self, demanded: &Packet) -> Result<usize, Failure> {
        if let Some(ports) = demanded.ports
            && let Some(known) = self.conns.iter().position(|conn| conn.sends(ports.value))
        {
            return Ok(known);
        }
        match self.conns.last_mut() {
            None => fail(demanded.pos, "there is no socket that could send this"),
            Some(last) => {
                let is_syn = matches!(&demanded.payload, Payload::Tcp(tcp)
                    if tcp.flags.value.contains(Flags::SYN) && !tcp.flags.value.contains(Flags::ACK));
                if is_syn && last.phase == Phase::Connecting {
                    last.phase = Phase::SynSent;
                }
                Ok(self.conns.len() - 1)
            }
        }
    }

    /// The next packet of a connection. Those of connections that were there before are passed over.
    fn next(&mut self, at: usize, pos: Pos, until: Duration) -> Result<Option<(Sent, Seen)>, Failure> {
        while let Some(sent) = self.lab.next_sent(until) {
            let seen = match Seen::read(&sent.bytes) {
                Ok(seen) => seen,
                Err(why) => return fail(pos, format!("a packet came that cannot be read: {why}")),
            };
            let conn = &mut self.conns[at];
            if conn.local_port == 0 && conn.remote_port == seen.ports.dst {
                conn.local_port = seen.ports.src;
            }
            if conn.sends(seen.ports) || !self.is_of_another(at, &seen) {
                return Ok(Some((sent, seen)));
            }
        }
        Ok(None)
    }

    fn is_of_another(&self, at: usize, seen: &Seen) -> bool {
        self.conns.iter().enumerate().any(|(other, conn)| other != at && conn.sends(seen.ports))
    }

    /// No packet of the connection is left that no line has expected.
    fn nothing_is_left(&mut self, pos: Pos) -> Result<(), Failure> {
        let Some(at) = self.conns.len().checked_sub(1) else { return Ok(()) };
        match self.next(at, pos, self.lab.now())? {
            None => Ok(()),
            Some((_, seen)) => {
                let came = seen.in_script(&self.conns[at]);
                fail(pos, format!("expected no packet any more; came {came}"))
            }
        }
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

/// A packet goes to the host: what is known of its connection then.
fn meet(conn: &mut Conn, packet: &Packet) {
    let Payload::Tcp(tcp) = &packet.payload else { return };
    let flags = tcp.flags.value;
    if conn.phase == Phase::Answered && flags.contains(Flags::ACK) {
        conn.phase = Phase::Stands;
    } else if conn.phase == Phase::SynSent && flags.contains(Flags::SYN.with(Flags::ACK)) {
        conn.phase = Phase::Stands;
        if let SeqStart::Relative(start) = tcp.seq.start {
            conn.remote_isn = start;
        }
    }
}

/// A packet came from the host where the script expects one: what is known of its connection then.
fn hear(conn: &mut Conn, demanded: &Packet, came: &Packet) {
    let (Payload::Tcp(demanded), Payload::Tcp(came)) = (&demanded.payload, &came.payload) else { return };
    let (flags, SeqStart::Relative(live)) = (came.flags.value, came.seq.start) else { return };
    let is_answer = conn.phase == Phase::Asked && flags.contains(Flags::SYN.with(Flags::ACK));
    let is_first = conn.phase == Phase::SynSent && flags.contains(Flags::SYN) && conn.local_isn.1 == 0;
    if is_answer || is_first {
        let script = match demanded.seq.start {
            SeqStart::Relative(script) => script,
            SeqStart::Absolute(_) | SeqStart::Any => 0,
        };
        conn.local_isn = (script, live);
    }
    if is_answer {
        conn.phase = Phase::Answered;
    }
    let stamp = |options: &TcpOptions| match options {
        TcpOptions::List(list) => list.iter().find_map(|option| match option.value {
            TcpOption::Timestamps { val, .. } => val,
            _ => None,
        }),
        TcpOptions::Any => None,
    };
    if let (Some(script), Some(live)) = (stamp(&demanded.options.value), stamp(&came.options.value)) {
        conn.learn_stamp(script, live);
    }
}

fn fail<T>(pos: Pos, message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { pos, message: message.into() })
}
