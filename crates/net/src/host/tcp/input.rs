//! Demultiplexes segments and timers to connections, half-open connections, TIME-WAIT entries and listeners.

use std::sync::Arc;

use pkt::{Note, Pkt};
use wire::Protocol;
use wire::tcp::{Flags, HEADER_LEN, Header};

use super::build::IpTxParams;
use super::listen::ListenerId;
use super::pcbs::{Conn, Found, Owner, Pcbs, Settled};
use super::seq::Seq;
use super::settings::Settings;
use super::syncache::SynEntry;
use super::tcb::wait::TimeWaitAction;
use super::tcb::{HostCounts, Out, Reply, Segment, State, Tcb};
use super::{build, cookie, held, reset, signature};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::fib::FibIndex;
use crate::host::pcb::FourTuple;
use crate::ip::{l4, output, punt};
use crate::turn::cpu::Cpu;

/// Connections, half-open ones and those in TIME-WAIT whose time has come that are looked at in one turn.
const DUE_MAX: usize = 256;

/// Connections that send before output queues are looked at again.
const BETWEEN_LOOKS: usize = 8;

/// Takes a segment for this host in. `pkt` starts with its network header, `pkt.l4` is where TCP starts.
///
/// Next   the connection, a listener, or a reset.
/// Drops  [`DropReason::TcpMalformed`], [`DropReason::TcpBadChecksum`], [`DropReason::TcpUnsigned`],
///        [`DropReason::TcpBadSignature`], [`DropReason::NoPort`].
///
/// # Spec
/// RFC 9293 §3.1, §3.10.7; RFC 2385.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.count(Count::TcpIn);
    match judge(cpu, &pkt) {
        Err(reason) => cpu.drop_pkt(pkt, reason),
        Ok(_) if cpu.tcp.is_none() => closed(cpu, pkt, IpTxParams::default()),
        Ok(header) => deliver(cpu, pkt, &header),
    }
}

/// The header of a segment that is as long as it says, and intact.
fn judge(cpu: &Cpu, pkt: &Pkt) -> Result<Header, DropReason> {
    let range = l4::range(pkt);
    let bytes = pkt.head().get(range.start..).unwrap_or_default();
    let header = Header::parse(bytes).map_err(|_| DropReason::TcpMalformed)?;
    let intact = l4::is_intact(cpu, pkt, Protocol::TCP, range);
    if intact { Ok(header) } else { Err(DropReason::TcpBadChecksum) }
}

/// Ends a segment to a closed port: the kernel's answer it is where the interface has a twin.
fn closed(cpu: &mut Cpu, pkt: Pkt, tx_params: IpTxParams) {
    if let Err(pkt) = punt::offer(cpu, pkt) {
        reset::closed(cpu, pkt, tx_params);
    }
}

fn deliver(cpu: &mut Cpu, pkt: Pkt, header: &Header) {
    let (src, dst) = l4::ends(&pkt);
    let ends = FourTuple::new((dst, header.dst_port).into(), (src, header.src_port).into(), pkt.rcvif);
    let ends = cpu.tcp.as_ref().map_or(ends, |pcbs| pcbs.scoped(ends, pkt.rcvif));
    if cfg!(debug_assertions) && cpu.placement.owner(ends.flow()) != cpu.id {
        cpu.count(Count::Strays);
    }
    let found = cpu.tcp.as_ref().and_then(|pcbs| pcbs.find(&ends));
    let is_signed = cpu.tcp.as_mut().is_some_and(|pcbs| signature::is_demanded(pcbs, found, &ends, header));
    if is_signed && let Err(reason) = signature::check(cpu, &pkt, header) {
        return cpu.drop_pkt(pkt, reason);
    }
    if cpu.tables.has_twins && found.is_none() && cpu.tcp.as_ref().is_none_or(|pcbs| !pcbs.listens(&ends)) {
        return closed(cpu, pkt, IpTxParams::default());
    }
    let answer = match found {
        Some(Found::Conn(at)) => to_connection(cpu, at, &pkt, header),
        Some(Found::Half(at)) => to_half(cpu, at, &pkt, header),
        Some(Found::Wait(at)) => to_wait(cpu, at, ends, &pkt, header),
        None => to_listener(cpu, ends, &pkt, header, None),
    };
    match answer {
        Reply::Reset => {
            let tx_params = cpu.tcp.as_ref().map(|pcbs| pcbs.tx_params(&ends)).unwrap_or_default();
            reset::closed(cpu, pkt, tx_params);
        }
        Reply::Nothing | Reply::Challenge | Reply::Withheld => {
            cpu.count(Count::TcpTaken);
            cpu.pool.give(pkt);
        }
    }
}

/// The segments that a packet brings: one, or of a packet in several buffers one for each.
fn segments(pkt: &Pkt, header: &Header, mut each: impl FnMut(&Segment<'_>)) {
    let is_marked = is_marked(pkt);
    let mut skip = payload_at(pkt);
    if !pkt.is_chained() {
        let payload = pkt.head().get(skip..).unwrap_or_default();
        return each(&Segment { header, payload, is_marked });
    }
    let mut left = pkt.len() - skip;
    let mut header = *header;
    let ends = header.flags;
    for bytes in pkt.fragments() {
        let Some(payload) = bytes.get(skip..) else {
            skip -= bytes.len();
            continue;
        };
        skip = 0;
        let payload = &payload[..payload.len().min(left)];
        left -= payload.len();
        // What ends the stream, and pushes it, stands behind the last byte.
        let early = Flags(Flags::FIN.0 | Flags::PSH.0);
        header.flags = if left > 0 { Flags(ends.0 & !early.0) } else { ends };
        each(&Segment { header: &header, payload, is_marked });
        header.seq = header.seq.wrapping_add(u32::try_from(payload.len()).unwrap_or(0));
        if left == 0 {
            return;
        }
    }
}

/// Where the payload begins, as the header says: options that are not known, or that do nothing, count.
pub(super) fn payload_at(pkt: &Pkt) -> usize {
    const DATA_OFFSET: usize = 12;
    let at = usize::from(pkt.l4);
    at + pkt.head().get(at + DATA_OFFSET).map_or(HEADER_LEN, |byte| usize::from(byte >> 4) * 4)
}

/// Whether a router has marked it: CE (RFC 3168 §5).
fn is_marked(pkt: &Pkt) -> bool {
    let ip = pkt.window(0);
    let field = if l4::is_ip4(pkt) { ip[1] } else { ip[1] >> 4 };
    field & 0b11 == 0b11
}

fn to_connection(cpu: &mut Cpu, at: u32, pkt: &Pkt, header: &Header) -> Reply {
    let now = cpu.now;
    let Some(pcbs) = &mut cpu.tcp else { return Reply::Nothing };
    let Some(mut conn) = pcbs.take_at(at) else { return Reply::Nothing };
    conn.note = pkt.note();
    let incoming = pkt.len().saturating_sub(payload_at(pkt));
    if incoming > 0 {
        conn.tcb.borrow_to_receive(incoming, &mut pcbs.rings);
    }
    let mut answer = Reply::Nothing;
    segments(pkt, header, |segment| match conn.tcb.arrive(segment, now) {
        Reply::Nothing => {}
        other => answer = other,
    });
    challenge(cpu, &mut conn.tcb, answer);
    if let Some(pcbs) = &mut cpu.tcp {
        pcbs.bring(conn);
    }
    answer
}

/// Asks the other end whether it meant what it sent, if that is the answer, and counts those that are not sent.
fn challenge(cpu: &mut Cpu, tcb: &mut Tcb, answer: Reply) {
    match answer {
        Reply::Challenge if tcb.challenge(cpu.now) => cpu.count(Count::TcpChallenges),
        Reply::Challenge | Reply::Withheld => cpu.count(Count::TcpAnswersLimited),
        Reply::Nothing | Reply::Reset => {}
    }
}

fn to_half(cpu: &mut Cpu, at: u32, pkt: &Pkt, header: &Header) -> Reply {
    let now = cpu.now;
    let Some(pcbs) = &mut cpu.tcp else { return Reply::Nothing };
    let Some(mut conn) = pcbs.revive(at) else { return Reply::Nothing };
    let Some(half) = pcbs.half_mut(at) else { return Reply::Nothing };
    let (ends, tx_params) = (half.ends, half.tx_params);
    let Some(listener) = pcbs.listeners.find(&ends) else {
        pcbs.discard(conn);
        pcbs.remove_half(at);
        return Reply::Reset;
    };
    let (id, is_full) = (listener.id, listener.is_full());
    let tcb = &mut conn.tcb;
    let incoming = pkt.len().saturating_sub(payload_at(pkt));
    if incoming > 0 {
        tcb.borrow_to_receive(incoming, &mut pcbs.rings);
    }
    let mut answer = Reply::Nothing;
    segments(pkt, header, |segment| match tcb.arrive(segment, now) {
        Reply::Nothing => {}
        other => answer = other,
    });
    challenge(cpu, tcb, answer);
    match tcb.state() {
        State::Closed => {
            discard(cpu, conn);
            remove_half(cpu, at);
            return answer;
        }
        State::SynReceived => send_now(cpu, (&ends, tx_params), pkt.note(), tcb),
        // The other end takes its acknowledgment for lost, and comes again.
        _ if is_full => cpu.count(Count::TcpQueueFull),
        _ => return establish(cpu, conn, id, pkt.note(), Some(at)),
    }
    rest(cpu, at, conn);
    answer
}

fn discard(cpu: &mut Cpu, conn: Box<Conn>) {
    if let Some(pcbs) = &mut cpu.tcp {
        pcbs.discard(conn);
    }
}

/// A half-open connection rests until something comes, or is due.
fn rest(cpu: &mut Cpu, at: u32, conn: Box<Conn>) {
    let Some(pcbs) = &mut cpu.tcp else { return };
    if let Some(half) = pcbs.half_mut(at) {
        half.rest(&conn.tcb);
    }
    pcbs.discard(conn);
}

fn remove_half(cpu: &mut Cpu, at: u32) {
    if let Some(pcbs) = &mut cpu.tcp {
        pcbs.remove_half(at);
    }
}

fn send_now(cpu: &mut Cpu, (ends, tx_params): (&FourTuple, IpTxParams), note: Option<Note>, tcb: &mut Tcb) {
    let now = cpu.now;
    tcb.output(now, &mut |out| build::send(cpu, ends, tx_params, note, out));
}

/// A connection that has come about waits to be accepted. If there is no room for it, the other end is told: it believes that
/// the connection stands. `was`: it was half-open until now.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.5.2
//# If the connection does not exist (CLOSED), then a reset is
//# sent in response to any incoming segment except another reset.
fn establish(
    cpu: &mut Cpu,
    conn: Box<Conn>,
    listener: ListenerId,
    note: Option<Note>,
    was: Option<u32>,
) -> Reply {
    let Some(pcbs) = &mut cpu.tcp else { return Reply::Reset };
    let owner = Owner::Listener(listener);
    let added = match was {
        Some(at) => pcbs.promote(at, conn, owner),
        None => pcbs.add(conn, owner),
    };
    let Some(id) = added else {
        cpu.count(Count::TcpTooMany);
        return Reply::Reset;
    };
    if let Some(conn) = pcbs.get_mut(id) {
        conn.note = note;
    }
    pcbs.wait_at(listener, id);
    cpu.count(Count::TcpAccepts);
    Reply::Nothing
}

fn to_wait(cpu: &mut Cpu, at: u32, ends: FourTuple, pkt: &Pkt, header: &Header) -> Reply {
    let now = cpu.now;
    let Some(pcbs) = &mut cpu.tcp else { return Reply::Nothing };
    let is_full = pcbs.is_full_of_halves();
    let Some(wait) = pcbs.wait_mut(at) else { return Reply::Nothing };
    let payload: &[u8] = if pkt.len() > payload_at(pkt) { &[0] } else { &[] };
    match wait.wait.arrive(&Segment { header, payload, is_marked: false }, now) {
        TimeWaitAction::Nothing => Reply::Nothing,
        TimeWaitAction::Ack(header) => {
            let out = Out { header, payload: [&[], &[]], cut: 0, may_be_marked: false };
            let tx_params = wait.tx_params;
            build::send(cpu, &ends, tx_params, pkt.note(), &out);
            Reply::Nothing
        }
        TimeWaitAction::Withheld => {
            cpu.count(Count::TcpAnswersLimited);
            Reply::Nothing
        }
        TimeWaitAction::Again => {
            let behind = wait.wait.behind();
            if is_full && !Seq(cookie::bake(&cpu.secret, &ends, header, now)).is_after(behind) {
                // A number that is a cookie cannot be chosen. The other end comes again, and TIME-WAIT lasts.
                return Reply::Nothing;
            }
            pcbs.remove_wait(at);
            to_listener(cpu, ends, pkt, header, Some(behind))
        }
    }
}

/// A segment of no connection: one may begin with it. `behind`: where the one before has come to, if it was in TIME-WAIT.
fn to_listener(cpu: &mut Cpu, ends: FourTuple, pkt: &Pkt, header: &Header, behind: Option<Seq>) -> Reply {
    let listener = cpu.tcp.as_mut().and_then(|pcbs| pcbs.listeners.find(&ends));
    let Some(listener) = listener else { return Reply::Reset };
    let (id, drop_synfin) = (listener.id, listener.listen.settings.drop_synfin);
    let (syn, ack, rst) = (header.flags.syn(), header.flags.ack(), header.flags.rst());
    match (syn, ack, rst) {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.2
        //# An incoming RST should be ignored.
        (_, _, true) => Reply::Nothing,
        (true, false, _) if header.flags.fin() && drop_synfin => Reply::Nothing,
        (true, false, _) => to_open(cpu, ends, (id, behind), pkt, header),
        (false, true, _) => to_cookie(cpu, ends, pkt, header),
        (true, true, _) => Reply::Reset,
        // What neither begins nor acknowledges anything is not worth an answer.
        (false, false, _) => Reply::Nothing,
    }
}

/// A SYN for a listener. The connection begins behind the one before.
fn to_open(
    cpu: &mut Cpu,
    ends: FourTuple,
    (id, behind): (ListenerId, Option<Seq>),
    pkt: &Pkt,
    header: &Header,
) -> Reply {
    if !reset::is_between_two_hosts(cpu, pkt) {
        return Reply::Nothing;
    }
    let now = cpu.now;
    let (mut iss, clock) = match behind {
        None => cookie::beginnings(&cpu.secret, &ends, now),
        Some(behind) => cookie::beginnings_behind(&cpu.secret, &ends, behind, now),
    };
    let Some(pcbs) = &mut cpu.tcp else { return Reply::Nothing };
    let is_full = pcbs.is_full_of_halves();
    if is_full {
        pcbs.cookies_until = now + 2 * cookie::EPOCH;
        iss = cookie::bake(&cpu.secret, &ends, header, now);
    }
    let Some(listener) = pcbs.listeners.get(id) else { return Reply::Nothing };
    // Answers go by the table that the SYN was routed by.
    let tx_params = IpTxParams { fib: cpu.tables.fib_of(pkt), ..listener.listen.tx_params };
    let Some(settings) = super::calls::along_of(cpu, tx_params.fib, &ends, id) else { return Reply::Nothing };
    cpu.counters.add(Count::TcpCookiesSent, is_full.into());
    let mut half = SynEntry::new(ends, tx_params, header, iss, clock, now);
    let asks = header.options.fast_open.is_some() && settings.opens_fast();
    if asks && !is_full && open_fast(cpu, &mut half, (id, &settings), pkt, header) {
        return Reply::Nothing;
    }
    let deadline = answer_syn(cpu, &mut half, settings, pkt.note());
    if let Some(pcbs) = cpu.tcp.as_mut().filter(|_| !is_full) {
        pcbs.add_half(half, deadline, now);
    }
    Reply::Nothing
}

/// Answers the SYN of a half-open connection, which rests from then on; returns when the answer is due again.
fn answer_syn(cpu: &mut Cpu, half: &mut SynEntry, settings: Arc<Settings>, note: Option<Note>) -> Instant {
    let (ends, tx_params) = (half.ends, half.tx_params);
    if let Some((header, deadline)) = half.usual_answer(&settings) {
        let out = Out { header, payload: [&[], &[]], cut: 0, may_be_marked: false };
        build::send(cpu, &ends, tx_params, note, &out);
        half.rest_at_once(settings);
        return deadline;
    }
    let mut conn = pcbs(cpu).begin((ends, tx_params), half.parameters(settings));
    half.begin(&mut conn.tcb);
    send_now(cpu, (&ends, tx_params), note, &mut conn.tcb);
    let deadline = conn.tcb.deadline();
    half.rest(&conn.tcb);
    discard(cpu, conn);
    deadline
}

/// A SYN that asks for a cookie to open fast with, or has one. If it is good and there is room, the connection waits to be
/// accepted with what came; else the other end is given one, and all goes its usual way.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.2.2
fn open_fast(
    cpu: &mut Cpu,
    half: &mut SynEntry,
    (id, settings): (ListenerId, &Arc<Settings>),
    pkt: &Pkt,
    header: &Header,
) -> bool {
    let Some(tcp) = &mut cpu.tcp else { return false };
    let Some(listener) = tcp.listeners.get(id) else { return false };
    let may_open = listener.may_open(cpu.now);
    let wanted = header.options.fast_open.filter(|_| !settings.signs);
    let Some(shown) = wanted else { return false };
    let is_good = cpu.opener.is_good(&half.ends, shown, cpu.now);
    let given = cpu.opener.cookie(&half.ends, cpu.now);
    half.cookie = given.filter(|given| *given != shown);
    if !is_good || !may_open {
        cpu.count(if is_good { Count::TcpOpensLimited } else { Count::TcpOpenCookies });
        return false;
    }
    let addressed = (half.ends, half.tx_params);
    let mut conn = pcbs(cpu).begin(addressed, half.parameters(Arc::clone(settings)));
    half.begin(&mut conn.tcb);
    segments(pkt, header, |segment| conn.tcb.take_early(segment.payload));
    wait_opened(cpu, conn, id).is_some()
}

/// A connection waits to be accepted though it does not stand yet.
fn wait_opened(cpu: &mut Cpu, conn: Box<Conn>, id: ListenerId) -> Option<()> {
    let pcbs = cpu.tcp.as_mut()?;
    let conn = pcbs.add(conn, Owner::Listener(id))?;
    pcbs.get_mut(conn)?.opened_at = Some(id);
    pcbs.wait_at(id, conn);
    pcbs.listeners.get_mut(id)?.opened += 1;
    cpu.count(Count::TcpOpened);
    Some(())
}

/// An acknowledgment of nothing we know of: perhaps of a cookie.
fn to_cookie(cpu: &mut Cpu, ends: FourTuple, pkt: &Pkt, header: &Header) -> Reply {
    let now = cpu.now;
    let Some(tcp) = cpu.tcp.as_mut().filter(|tcp| now < tcp.cookies_until) else { return Reply::Reset };
    let Some(syn) = cookie::open(&cpu.secret, &ends, header, now) else { return Reply::Reset };
    let Some(listener) = tcp.listeners.find(&ends) else { return Reply::Reset };
    let (id, tx_params, is_full) = (listener.id, listener.listen.tx_params, listener.is_full());
    if is_full {
        cpu.count(Count::TcpQueueFull);
        return Reply::Nothing;
    }
    let (_, clock) = cookie::beginnings(&cpu.secret, &ends, now);
    let tx_params = IpTxParams { fib: cpu.tables.fib_of(pkt), ..tx_params };
    let half = SynEntry::new(ends, tx_params, &syn, header.ack.wrapping_sub(1), clock, now);
    let Some(settings) = super::calls::along_of(cpu, tx_params.fib, &ends, id) else { return Reply::Reset };
    let mut conn = pcbs(cpu).begin((ends, tx_params), half.parameters(settings));
    half.revive(&mut conn.tcb);
    segments(pkt, header, |segment| {
        let _ = conn.tcb.arrive(segment, now);
    });
    cpu.count(Count::TcpCookiesTaken);
    establish(cpu, conn, id, pkt.note(), None)
}

/// Does what is due of connections, a bounded amount of it, and answers how much.
pub(crate) fn expire(cpu: &mut Cpu) -> usize {
    for done in 0..DUE_MAX {
        let now = cpu.now;
        let Some(found) = cpu.tcp.as_mut().and_then(|pcbs| pcbs.due(now)) else { return done };
        match found {
            Found::Conn(at) => expire_connection(cpu, at),
            Found::Half(at) => expire_half(cpu, at),
            Found::Wait(at) => expire_wait(cpu, at),
        }
    }
    DUE_MAX
}

fn expire_connection(cpu: &mut Cpu, at: u32) {
    let now = cpu.now;
    let Some(pcbs) = &mut cpu.tcp else { return };
    let Some(mut conn) = pcbs.take_at(at) else { return };
    conn.tcb.expire(now);
    pcbs.put(conn);
}

fn expire_half(cpu: &mut Cpu, at: u32) {
    let now = cpu.now;
    let Some(pcbs) = &mut cpu.tcp else { return };
    let Some(half) = pcbs.half_mut(at) else { return };
    let (ends, tx_params) = (half.ends, half.tx_params);
    let has_listener = pcbs.listeners.find(&ends).is_some();
    let Some(mut conn) = has_listener.then(|| pcbs.revive(at)).flatten() else {
        return pcbs.remove_half(at);
    };
    if conn.tcb.deadline() <= now {
        conn.tcb.expire(now);
        let is_again = pcbs.half_mut(at).is_some_and(|half| half.answered_again().is_some());
        if conn.tcb.state() == State::Closed || !is_again {
            pcbs.discard(conn);
            pcbs.remove_half(at);
            return cpu.count(Count::TcpHalvesTimedOut);
        }
        send_now(cpu, (&ends, tx_params), None, &mut conn.tcb);
    }
    let deadline = conn.tcb.deadline();
    rest(cpu, at, conn);
    if let Some(pcbs) = &mut cpu.tcp {
        pcbs.postpone(Found::Half(at), deadline, now);
    }
}

fn expire_wait(cpu: &mut Cpu, at: u32) {
    let now = cpu.now;
    let Some(pcbs) = &mut cpu.tcp else { return };
    match pcbs.wait_mut(at).map(|wait| wait.wait.until()) {
        Some(until) if until > now => pcbs.postpone(Found::Wait(at), until, now),
        _ => pcbs.remove_wait(at),
    }
}

/// Sends what connections have to send at the end of a turn, and answers how many these are, and whether some are [`held`].
/// Connections that have more than they send at once go on in the next turn.
pub(crate) fn roll_up(cpu: &mut Cpu) -> (usize, bool) {
    let done = output_touched(cpu);
    let Some(pcbs) = &mut cpu.tcp else { return (done, false) };
    pcbs.end_turn();
    (done, pcbs.held.len() > 0)
}

/// Sends what connections have to send, those that something came for, that were asked for something, or whose time
/// came; and answers how many these are.
#[inline]
pub(crate) fn output_touched(cpu: &mut Cpu) -> usize {
    // Most chunks of a router touch no connection.
    if cpu.tcp.as_ref().is_some_and(|pcbs| pcbs.has_touched()) { output_all(cpu) } else { 0 }
}

fn output_all(cpu: &mut Cpu) -> usize {
    let mut done = 0;
    loop {
        let is_pressed = cpu.ifqs.is_pressed();
        for _ in 0..BETWEEN_LOOKS {
            let Some(conn) = cpu.tcp.as_mut().and_then(|pcbs| pcbs.next_touched()) else { return done };
            let conn = if is_pressed { held::hold(cpu, conn) } else { Some(conn) };
            if let Some(conn) = conn {
                send_touched(cpu, conn);
            }
            done += 1;
        }
    }
}

/// Sends what one connection has to send.
#[inline(always)]
pub(super) fn send_touched(cpu: &mut Cpu, mut conn: Box<Conn>) {
    let now = cpu.now;
    let (ends, tx_params, note) = (conn.ends, conn.tx_params, conn.note);
    conn.tcb.output(now, &mut |out| build::send(cpu, &ends, tx_params, note, out));
    learn(cpu, &mut conn.tcb, &ends, tx_params.fib);
    if conn.tcb.goes_on() {
        cpu.count(Count::TcpBursts);
    }
    if cpu.tcp.as_mut().is_some_and(|pcbs| pcbs.settle(conn, now) == Settled::Cut) {
        cpu.count(Count::TcpWaitsCut);
    }
}

/// Saves results for the next connection to the same peer; and counts attempts.
fn learn(cpu: &mut Cpu, tcb: &mut Tcb, ends: &FourTuple, fib: FibIndex) {
    let (opened, mss, told, now) = (tcb.opened(), tcb.found_path(), tcb.told_path(), cpu.now);
    if let Some(HostCounts { again, out_of_order, timeouts }) = tcb.take_news() {
        cpu.counters.add(Count::TcpRetransmits, again.into());
        cpu.counters.add(Count::TcpOutOfOrder, out_of_order.into());
        cpu.counters.add(Count::TcpTimeouts, timeouts.into());
    }
    if tcb.has_probed() {
        cpu.count(Count::TcpTailProbes);
    }
    if tcb.doubts() {
        cpu.count(Count::TcpDoubts);
        output::doubted(cpu, fib, ends.remote, ends.zone);
    }
    let is_news = opened.is_some() || mss.is_some() || told.is_some();
    let Some(pcbs) = cpu.tcp.as_mut().filter(|_| is_news) else { return };
    if let Some(told) = told {
        pcbs.paths.learn_mss(ends.remote, told, now);
    }
    if let Some(opened) = opened {
        pcbs.paths.learn(ends.remote, opened, now);
    }
    if let Some(mss) = mss {
        pcbs.paths.learn_mss(ends.remote, mss, now);
        cpu.count(Count::TcpPathsFound);
    }
}

/// Returns the connections of this CPU, made at the first use.
#[inline]
pub(super) fn pcbs(cpu: &mut Cpu) -> &mut Pcbs {
    let Cpu { tcp, secret, .. } = cpu;
    tcp.get_or_insert_with(|| begin(secret))
}

#[cold]
#[inline(never)]
fn begin(secret: &mut Secret) -> Box<Pcbs> {
    Box::new(Pcbs::new(secret))
}
