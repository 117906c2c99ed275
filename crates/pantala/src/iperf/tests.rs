//! Tests of both roles over a wire in memory, and of peers that do not speak the protocol.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use super::client::Client;
use super::protocol::{GREETING, PARAMS_MAX, Params, Results, State};
use super::server::Server;
use super::text::Report;
use super::{Host, Problem};
use crate::sockets::Sockets;
use crate::sockets::blocking::{TcpStream, UdpSocket};
use crate::term::Term;
use crate::{Interface, Stack, mem};

const SERVER: [&str; 2] = ["192.0.2.1:5201", "[2001:db8::1]:5201"];

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn term(&self) -> Term {
        Term::new(Box::new(self.clone()), Box::new(self.clone()), false)
    }
}

fn hosts() -> [Host; 2] {
    hosts_of(1)
}

/// Two hosts with so many CPUs each.
fn hosts_of(cpus: usize) -> [Host; 2] {
    let ends = mem::wire(cpus).unwrap();
    let mut number = 0;
    let stacks = ends.map(|end| {
        number += 1;
        let interface = Interface::mem(end).address(format!("192.0.2.{number}/24"));
        let interface = interface.address(format!("2001:db8::{number}/64"));
        Stack::builder().threads(cpus).interface(interface).start().unwrap()
    });
    stacks.map(|stack| {
        stack.wait_ready(Duration::from_secs(10)).unwrap();
        Host::new(stack).unwrap()
    })
}

fn params(text: &str) -> Params {
    let mut value = json!({ "tcp": true, "time": 1, "parallel": 1, "len": 16384 });
    let more: Value = serde_json::from_str(text).unwrap();
    for (key, more) in more.as_object().unwrap() {
        value[key] = more.clone();
    }
    Params::of_json(&value).unwrap()
}

/// Runs a server beside `body`, and returns what it has said.
fn serving(host: &Host, json: bool, body: impl FnOnce(&dyn Fn())) -> String {
    let (page, stop) = (Page::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (page_of_server, stop) = (page.clone(), &stop);
        let thread = scope.spawn(move || {
            let mut term = page_of_server.term();
            let server = Server {
                host,
                at: "[::]:5201".parse().unwrap(),
                only_v6: false,
                interval: Some(Duration::from_millis(100)),
                rcv_timeout: Duration::from_secs(20),
                is_one_off: false,
                is_interrupted: &|| stop.load(Relaxed),
            };
            let mut report = Report::new(&mut term, json);
            server.run(&mut report).unwrap();
        });
        let _ends = Ends(stop);
        body(&|| stop.store(true, Relaxed));
        stop.store(true, Relaxed);
        thread.join().unwrap();
    });
    page.text()
}

/// Ends the server, also when the test has failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn client(host: &Host, server: &str, params: Params) -> (Result<(), Problem>, Value) {
    client_until(host, server, params, &|| false)
}

fn client_until(
    host: &Host,
    server: &str,
    params: Params,
    is_interrupted: &dyn Fn() -> bool,
) -> (Result<(), Problem>, Value) {
    let page = Page::default();
    let mut term = page.term();
    let mut report = Report::new(&mut term, true);
    let client = Client {
        host,
        server: server.parse().unwrap(),
        local: None,
        params,
        interval: Some(Duration::from_millis(250)),
        rcv_timeout: Duration::from_secs(20),
        rrul: false,
        is_interrupted,
    };
    // The server listens soon.
    let begun = Instant::now();
    let outcome = loop {
        match client.run(&mut report) {
            Err(Problem::Io(_, why))
                if why.kind() == io::ErrorKind::ConnectionRefused
                    && begun.elapsed() < Duration::from_secs(10) => {}
            outcome => break outcome,
        }
    };
    report.finish(outcome.as_ref().err()).unwrap();
    (outcome, serde_json::from_str(&page.text()).unwrap())
}

fn count(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {value:#}"))
}

#[test]
fn both_roles_count_the_same_over_ipv4_and_ipv6() {
    for cpus in [1, 2] {
        both_roles_count_the_same(hosts_of(cpus));
    }
}

fn both_roles_count_the_same([server, here]: [Host; 2]) {
    serving(&server, false, |_| {
        for at in SERVER {
            for more in [
                r#"{"num": 3000000, "time": 0, "parallel": 3}"#,
                r#"{"num": 2000000, "time": 0, "reverse": true}"#,
                r#"{"num": 2000000, "time": 0, "window": 4000000000, "MSS": 1000, "TOS": 8, "nodelay": true}"#,
            ] {
                let params = params(more);
                let (outcome, said) = client(&here, at, params);
                assert!(outcome.is_ok(), "{at} {more}: {outcome:?}");
                let [sent, received] =
                    ["/end/sum_sent/bytes", "/end/sum_received/bytes"].map(|path| count(&said, path));
                // The receiver stops when the sender has sent all, whatever is on the way then.
                assert!(sent >= 1_000_000 && received > 0 && received <= sent, "{said:#}");
                // Few: a thread that waits long for a CPU looks like a lost segment.
                let again = count(&said, "/end/streams/0/sender/retransmits");
                assert!(again < 10, "{said:#}");
            }
            let (outcome, said) = client(
                &here,
                at,
                params(
                    r#"{"tcp": false, "udp": true, "len": 1000, "bandwidth": 8000000, "bidirectional": true}"#,
                ),
            );
            assert!(outcome.is_ok(), "{at}: {outcome:?}");
            for path in ["/end/sum/packets", "/end/sum_bidir_reverse/packets"] {
                // 1000 datagrams a second.
                assert!((900..=1010).contains(&count(&said, path)), "{path}: {said:#}");
            }
            assert_eq!(count(&said, "/end/sum/lost_packets"), 0, "{said:#}");
        }
    });
}

#[test]
fn an_interrupted_end_shows_what_it_has_and_tells_the_other() {
    /// So long that something is sent on a machine that is busy with others.
    const SOME_BYTES: Duration = Duration::from_secs(2);
    let [server, here] = hosts();
    let said = serving(&server, false, |interrupt_server| {
        let begun = Instant::now();
        let is_over = || begun.elapsed() > SOME_BYTES;
        let (outcome, said) = client_until(&here, SERVER[0], params(r#"{"time": 60}"#), &is_over);
        assert!(matches!(outcome, Err(Problem::Interrupted)), "{outcome:?}");
        assert!(count(&said, "/end/sum_sent/bytes") > 0 && said["error"] == "interrupted", "{said:#}");
        let (begun, told) = (Instant::now(), AtomicBool::new(false));
        let is_over = || {
            if begun.elapsed() > SOME_BYTES && !told.swap(true, Relaxed) {
                interrupt_server();
            }
            false
        };
        let (outcome, said) = client_until(&here, SERVER[1], params(r#"{"time": 60}"#), &is_over);
        assert!(matches!(outcome, Err(Problem::Terminated("server"))), "{outcome:?}");
        assert!(count(&said, "/end/sum_sent/bytes") > 0, "{said:#}");
    });
    assert!(said.contains("the client has terminated the test") && said.contains("receiver"), "{said}");
}

/// Connects without being a client.
fn stranger(sockets: &Sockets, first: &[u8]) -> TcpStream {
    let at: SocketAddr = SERVER[0].parse().unwrap();
    let begun = Instant::now();
    let stream = loop {
        match TcpStream::connect(sockets, at) {
            Ok(stream) => break stream,
            Err(why) => assert!(begun.elapsed() < Duration::from_secs(10), "{why}"),
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (&stream).write_all(first).unwrap();
    stream
}

/// All that the server says until it closes.
fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn bad_peers_get_an_end_and_the_next_test_is_served() {
    let [server, here] = hosts();
    let (sockets, cookie) = (here.stack.sockets().unwrap(), [b'x'; 37]);
    let framed = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
    let said = serving(&server, false, |_| {
        let silent = stranger(&sockets, b"GET / HTTP/1.0\r\n");
        for (message, answer) in [
            ((PARAMS_MAX + 1).to_be_bytes().to_vec(), vec![9]),
            (framed("no JSON"), vec![9]),
            (framed(&"[".repeat(1000)), vec![9]),
            (framed(r#"{"tcp":true,"parallel":1000,"len":1}"#), vec![9, 0xfe, 0, 0, 0, 6, 0, 0, 0, 0]),
            (framed(r#"{"tcp":true,"len":1e9}"#), vec![9, 0xfe, 0, 0, 0, 7, 0, 0, 0, 0]),
            (framed(r#"{"tcp":true,"len":1,"time":1e9}"#), vec![9, 0xfe, 0, 0, 0, 5, 0, 0, 0, 0]),
            (framed(r#"{"sctp":true,"len":1}"#), vec![9, 0xfe, 0, 0, 0, 131, 0, 0, 0, 0]),
            (framed(r#"{"tcp":true,"len":-1}"#), vec![9, 0xfe, 0, 0, 0, 114, 0, 0, 0, 0]),
        ] {
            let stream = stranger(&sockets, &cookie);
            (&stream).write_all(&message).unwrap();
            assert_eq!(rest(&stream), answer, "{}", String::from_utf8_lossy(&message));
        }
        // A client that has begun keeps all others out, and one that says the wrong thing out of turn is ended.
        let stream = stranger(&sockets, &cookie);
        let mut byte = [0];
        (&stream).read_exact(&mut byte).unwrap();
        assert_eq!(rest(&stranger(&sockets, &[b'y'; 37])), [State::AccessDenied.byte()]);
        (&stream).write_all(&framed(r#"{"tcp":true,"len":1,"parallel":2}"#)).unwrap();
        (&stream).read_exact(&mut byte).unwrap();
        assert_eq!(byte, [State::CreateStreams.byte()]);
        (&stream).write_all(&[99]).unwrap();
        assert_eq!(rest(&stream), [0xfe, 0, 0, 0, 200, 0, 0, 0, 0]);
        let (outcome, _) = client(&here, SERVER[0], params(r#"{"num": 100000, "time": 0}"#));
        assert!(outcome.is_ok(), "{outcome:?}");
        drop(silent);
    });
    for part in
        ["the limit is 65536", "not understood", "more than 128 streams", "unknown state 99", "receiver"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_crowd_at_the_port_leaves_room_for_the_next_test() {
    const CROWD: u8 = 100;
    let [server, here] = hosts();
    serving(&server, false, |_| {
        let sockets = here.stack.sockets().unwrap();
        let strangers: Vec<_> = (0..CROWD).map(|number| stranger(&sockets, &[number; 37])).collect();
        // One of them has a test, until it goes; the others are told so, or closed.
        let answer = |mut stream: &TcpStream| {
            let mut byte = [0];
            stream.read(&mut byte).ok().filter(|len| *len == 1).map(|_| byte[0])
        };
        let answers: Vec<_> = strangers.iter().map(answer).collect();
        let count = |state: State| answers.iter().filter(|answer| **answer == Some(state.byte())).count();
        assert_eq!(count(State::ParamExchange), 1, "{answers:?}");
        assert!(count(State::AccessDenied) < usize::from(CROWD), "{answers:?}");
        drop(strangers);
        // Greetings that belong to no test have no answer.
        let socket = UdpSocket::bind(&sockets, ("0.0.0.0", 0)).unwrap();
        for _ in 0..1000 {
            socket.send_to(&GREETING.to_ne_bytes(), SERVER[0]).unwrap();
        }
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(socket.recv(&mut [0; 4]).is_err());
        let is_busy = |outcome: &Result<(), Problem>| matches!(outcome, Err(Problem::Busy | Problem::Closed));
        let begun = Instant::now();
        let udp = r#"{"tcp": false, "udp": true, "len": 1000, "bandwidth": 8000000}"#;
        let outcome = loop {
            let (outcome, _) = client(&here, SERVER[0], params(udp));
            if !is_busy(&outcome) || begun.elapsed() > Duration::from_secs(20) {
                break outcome;
            }
        };
        assert!(outcome.is_ok(), "{outcome:?}");
    });
}

#[test]
fn any_json_is_read_as_parameters_and_results_or_is_an_error() {
    for text in [
        "null",
        "[]",
        "{}",
        r#"{"tcp":1}"#,
        r#"{"udp":true,"len":"x"}"#,
        r#"{"streams":[{}]}"#,
        r#"{"streams":[1,null]}"#,
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        let _ = (Params::of_json(&value).is_ok(), Results::of_json(&value).is_ok());
    }
    let many = json!({ "streams": vec![json!({ "id": 1 }); 257] });
    assert!(Results::of_json(&many).is_err());
    let params = params(
        r#"{"udp": true, "tcp": false, "bandwidth": 1e+10, "udp_counters_64bit": 1, "TOS": 8, "congestion": "reno"}"#,
    );
    assert_eq!(params.rate, 10_000_000_000);
    assert_eq!(Params::of_json(&params.to_json()), Ok(params));
}
