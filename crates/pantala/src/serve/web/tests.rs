//! Time limits, in virtual time: a client on another host that stalls.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};

use net::app::AppId;
use net::tcp::Connect;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::world::{HostId, Permit, World};

use super::*;
use crate::serve::conditional::Validator;

/// Both hosts have tried their addresses.
const BOOT: Duration = Duration::from_secs(12);
/// Nothing lasts longer.
const LIMIT: Duration = Duration::from_secs(300);

/// Says something, and reads what comes, or does not.
struct Guest {
    server: SocketAddr,
    says: &'static str,
    reads: bool,
    /// Bytes read in each second, if it does not read at once.
    sips: usize,
    conn: Option<Id>,
    began: Instant,
    tell: Sender<End>,
    heard: String,
}

/// The client's view of the end: the bytes it received, and when its connection or the peer's stream ended.
#[derive(Debug, PartialEq, Eq)]
struct End {
    heard: String,
    after: Duration,
    was_reset: bool,
}

impl Guest {
    fn tell(&mut self, cx: &AppContext<'_>, was_reset: bool) {
        let heard = core::mem::take(&mut self.heard);
        let _ = self.tell.send(End { heard, after: cx.now().since(self.began), was_reset });
    }
}

impl App for Guest {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        self.began = cx.now();
        self.conn = Some(cx.connect(&Connect::to(self.server), 0)?);
        if self.sips > 0 {
            cx.wake_at(cx.now());
        }
        Ok(())
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        assert_eq!(tcp::send(cx.cpu, conn.id, self.says.as_bytes()), Ok(self.says.len()));
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let mut bytes = vec![0; 65_536];
        while self.reads {
            match tcp::read(cx.cpu, conn.id, &mut bytes) {
                Ok(0) => return self.tell(cx, false),
                Ok(count) => self.heard += &String::from_utf8_lossy(&bytes[..count]),
                Err(_) => return,
            }
        }
    }

    fn closed(&mut self, cx: &mut AppContext<'_>, _: Handle<Id>, why: Option<Error>) {
        self.tell(cx, why == Some(Error::Reset));
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        if let Some(conn) = self.conn {
            let _ = tcp::read(cx.cpu, conn, &mut vec![0; self.sips]);
        }
        cx.wake_at(cx.now() + Duration::from_secs(1));
    }

    /// Speaks again, though it should not.
    fn called(&mut self, cx: &mut AppContext<'_>) {
        let conn = self.conn.expect("it has begun");
        assert_eq!(tcp::send(cx.cpu, conn, b"x"), Ok(1));
    }
}

/// Where the server waits.
const AT: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 80);

/// A server whose library is the test, and a guest.
struct Scene {
    world: World,
    client: HostId,
    guest: AppId,
    server: HostId,
    program: AppId,
    asked: Receiver<FileRequest>,
    answers: Sender<FileReply>,
    counters: CounterReader<Hit>,
    ends: Receiver<End>,
}

impl Scene {
    fn new(family: Family, says: &'static str, reads: bool) -> Self {
        Self::with(family, says, reads, |library| Web::new(AT, library, Budget::alone(Limits::default())))
    }

    /// Makes one for a server that may have no file thread.
    fn with(
        family: Family,
        says: &'static str,
        reads: bool,
        web: impl FnOnce(file_reader::FileClient) -> Web,
    ) -> Self {
        Self::with_guest(family, says, (reads, 0), web)
    }

    /// Makes one with a client that reads at once, or a number of bytes in each second.
    fn with_guest(
        family: Family,
        says: &'static str,
        (reads, sips): (bool, usize),
        web: impl FnOnce(file_reader::FileClient) -> Web,
    ) -> Self {
        let mut world = World::new("web", 1);
        world.allow(Permit::Loss);
        let cable = world.cable(cable::Spec::default());
        let [client, server] =
            [1, 2].map(|host| world.host(Spec::host("host").buffers(4096).port(Port::new(cable, 1, host))));
        world.run_for(BOOT);
        let (cx, asked, answers) = file_reader::FileClient::alone();
        let web = web(cx);
        let counters = web.counters();
        let program = world.of(server).cpus[0].netisr.begin(Box::new(web)).unwrap();
        let (tell, ends) = channel();
        let at = SocketAddr::new(family.addr(1, 2), 80);
        let (conn, began, heard) = (None, Instant::START, String::new());
        let guest = Guest { server: at, says, reads, sips, conn, began, tell, heard };
        let (begun, has_begun) = channel();
        assert!(world.of(client).call(0, move |netisr| begun.send(netisr.begin(Box::new(guest))).unwrap()));
        world.run_for(ROUND / 100);
        let guest = has_begun.try_recv().unwrap().unwrap();
        Self { world, client, guest, server, program, asked, answers, counters, ends }
    }

    /// Lets time pass until the guest has come to an end.
    fn end(&mut self) -> End {
        let mut end = None;
        let ends = &self.ends;
        self.world.run_until(LIMIT, |_| {
            end = ends.try_recv().ok();
            end.is_some()
        });
        end.expect("the guest comes to an end")
    }

    /// The library finds a large page.
    fn answer(&mut self) {
        let mut ask = None;
        let asked = &self.asked;
        self.world.run_until(LIMIT, |_| {
            ask = asked.try_recv().ok();
            ask.is_some()
        });
        let validator = Validator::new(SystemTime::UNIX_EPOCH, 1, SystemTime::now());
        let first = vec![b'x'; 10_000_000].into();
        let page = Page::new("text/plain", 10_000_000, Some(validator), first, None);
        let found = Ok(Found::Page(Arc::new(page)));
        self.answers.send(FileReply { ticket: ask.expect("it was asked").ticket, found }).unwrap();
        let program = self.program;
        assert!(self.world.of(self.server).call(0, move |netisr| netisr.call(program)));
    }
}

/// Not before its time, and soon after.
fn assert_after(end: &End, time: Duration) {
    assert!((time..time + 3 * ROUND).contains(&end.after), "{:?}, not {time:?}", end.after);
}

#[test]
fn an_idle_client_is_closed_after_a_minute() {
    for family in Family::BOTH {
        let mut scene = Scene::new(family, "", true);
        let end = scene.end();
        assert_after(&end, IDLE);
        assert_eq!((end.heard.as_str(), end.was_reset, scene.counters.get(Hit::TimedOut)), ("", false, 0));
    }
}

#[test]
fn an_unfinished_request_is_answered_408_after_ten_seconds() {
    for family in Family::BOTH {
        let mut scene = Scene::new(family, "GET / HTTP/1.1\r\nHo", true);
        let end = scene.end();
        assert_after(&end, HEAD_WITHIN);
        assert!(end.heard.starts_with("HTTP/1.1 408 ") && !end.was_reset, "{end:?}");
        assert_eq!(scene.counters.get(Hit::TimedOut), 1);
    }
}

#[test]
fn what_a_program_has_itself_is_served_at_once_and_there_is_nothing_else() {
    let answers = [
        ("GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "application/octet-stream", "all"),
        ("GET /a/b.html HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "text/html", "<b>"),
        ("GET /a/b.html HTTP/1.0\r\nRange: bytes=1-1\r\n\r\n", "HTTP/1.1 206 ", "text/html", "b"),
        ("GET /a/ HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ", "text/html", "</h1>\n"),
    ];
    for (family, (asks, status, mime, body)) in
        Family::BOTH.into_iter().flat_map(|family| answers.map(|answer| (family, answer)))
    {
        let pages: &[(&str, &[u8])] = &[("/", b"all"), ("a/b.html", b"<b>")];
        let mut scene = Scene::with(family, asks, true, |_| Web::of_pages(AT, pages));
        let end = scene.end();
        assert!(end.heard.starts_with(status) && end.heard.ends_with(body), "{end:?}");
        assert!(end.heard.contains(&format!("Content-Type: {mime}")), "{end:?}");
        assert!(end.after < ROUND, "{end:?}");
    }
}

#[test]
fn a_connection_whose_library_does_not_answer_is_given_up_after_a_minute() {
    let mut scene = Scene::new(Family::V6, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", true);
    let end = scene.end();
    assert_after(&end, IDLE);
    assert_eq!((end.was_reset, scene.counters.get(Hit::TimedOut)), (true, 1));
}

#[test]
fn a_client_that_reads_nothing_is_closed_after_a_minute() {
    for family in Family::BOTH {
        let mut scene = Scene::new(family, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", false);
        scene.answer();
        let end = scene.end();
        // What the buffer of the guest still takes counts, up to its end.
        let stall = Limits::default().stall;
        assert!((stall..2 * stall).contains(&end.after), "{:?}", end.after);
        let hits = [Hit::TimedOut, Hit::TooSlow].map(|hit| scene.counters.get(hit));
        assert_eq!((end.was_reset, hits.iter().sum()), (true, 1_u64), "a probe's byte is taken now and then");
    }
}

#[test]
fn after_the_last_response_the_server_lingers_five_seconds() {
    for (speaks_after, is_reset) in [(LINGER - ROUND, false), (LINGER + 3 * ROUND, true)] {
        let mut scene = Scene::new(Family::V4, "GET / HTTP/1.0\r\n\r\n", true);
        scene.answer();
        let end = scene.end();
        assert!(end.heard.starts_with("HTTP/1.1 200 ") && end.heard.ends_with("xx") && !end.was_reset);
        let program = scene.guest;
        scene.world.run_for(speaks_after);
        assert!(scene.world.of(scene.client).call(0, move |netisr| netisr.call(program)));
        scene.world.run_for(ROUND / 2);
        let was_reset = scene.ends.try_iter().any(|end| end.was_reset);
        assert_eq!(was_reset, is_reset, "it speaks after {speaks_after:?}");
    }
}

#[test]
fn a_page_for_which_there_is_no_memory_is_refused_and_the_client_told_when_to_come_again() {
    for family in Family::BOTH {
        let limits = Limits { memory: 1 << 20, client: 1 << 20, ..Limits::default() };
        let mut scene = Scene::with(family, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", true, |library| {
            Web::new(AT, library, Budget::alone(limits))
        });
        scene.answer();
        let end = scene.end();
        assert!(end.heard.starts_with("HTTP/1.1 503 ") && !end.was_reset, "{end:?}");
        assert!(end.heard.contains("\r\nRetry-After: 5\r\n") && end.after < ROUND, "{end:?}");
        assert_eq!((scene.counters.get(Hit::Refused), scene.counters.get(Hit::ServerError)), (1, 1));
    }
}

#[test]
fn a_reader_that_takes_a_little_now_and_then_is_given_up_unless_it_takes_enough() {
    for (family, (sips, is_slow)) in
        Family::BOTH.into_iter().flat_map(|family| [(100, true), (2000, false)].map(|is| (family, is)))
    {
        let asks = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let web = |library| Web::new(AT, library, Budget::alone(Limits::default()));
        let mut scene = Scene::with_guest(family, asks, (false, sips), web);
        scene.answer();
        scene.world.run_for(Duration::from_secs(150));
        assert_eq!(scene.counters.get(Hit::TooSlow), u64::from(is_slow), "{sips} bytes a second");
        assert_eq!(scene.ends.try_iter().any(|end| end.was_reset), is_slow);
        assert_eq!(scene.counters.get(Hit::TimedOut), 0);
    }
}

#[test]
fn files_beyond_what_is_remembered_make_a_cpu_forget_the_others() {
    let now = Instant::from_ns(1);
    let page = |len| {
        let (mime, first) = ("text/plain", Arc::<[u8]>::default());
        Arc::new(Page::new(mime, len, None, first, None))
    };
    let named = |n: usize| Request { name: n.to_string().into_bytes(), ..Request::default() };
    for (len, most) in [(1, REMEMBERED_MAX), (1 << 20, 64)] {
        let mut memory = Memory::default();
        (0..most).for_each(|n| memory.keep(&named(n), &page(len), now));
        assert!(memory.find(&named(0), now).is_some() && memory.bytes == most as u64 * len);
        memory.keep(&named(most), &page(len), now);
        assert!(memory.find(&named(0), now).is_none() && memory.find(&named(most), now).is_some());
        assert_eq!((memory.pages.len(), memory.bytes), (1, len));
    }
}
