//! `[[serve]]`: Linux asks pantala's web server, over good links and over bad ones.

use core::net::IpAddr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use dev::netns::Netns;
use sha2::{Digest, Sha256};

use crate::lab::{Attach, Lab, Link, at};
use crate::need;
use crate::wait::{PATIENCE, until, within};

const KINDS: [Attach; 2] = [Attach::Native, Attach::Tap];

/// A folder that goes with its value.
struct Folder(PathBuf);

impl Folder {
    /// With an index, a folder, a file of `bytes` bytes that repeats nowhere, and a link that leads out.
    fn new(name: &str, bytes: usize) -> Self {
        let path = std::env::temp_dir().join(format!("pantala-web-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("www/sub")).unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(path.join(name), bytes).unwrap();
        write("secret", b"not for the web");
        write("www/index.html", b"<h1>here</h1>");
        write("www/sub/a b.txt", b"0123456789");
        write("www/large", &large(bytes));
        // Long ago, so that each of its states can be told from the next.
        let within = std::fs::File::options().write(true).open(path.join("www/sub/a b.txt")).unwrap();
        within
            .set_modified(std::time::SystemTime::UNIX_EPOCH + core::time::Duration::from_secs(784_111_777))
            .unwrap();
        std::os::unix::fs::symlink("../secret", path.join("www/out")).unwrap();
        std::os::unix::fs::symlink("sub/a b.txt", path.join("www/within")).unwrap();
        Self(path)
    }

    fn section(&self) -> String {
        format!("[[serve]]\ndir = \"{}\"\n", self.0.join("www").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn large(bytes: usize) -> Vec<u8> {
    (0..bytes.div_ceil(8) as u64)
        .flat_map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes())
        .take(bytes)
        .collect()
}

fn connect(from: &Netns, to: IpAddr) -> TcpStream {
    let stream = from.run(|| TcpStream::connect_timeout(&at(to, 80), PATIENCE)).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Says this on a connection of its own, and answers all that comes.
fn say(from: &Netns, to: IpAddr, text: &str) -> String {
    let mut stream = connect(from, to);
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask(from: &Netns, to: IpAddr, line: &str, fields: &str) -> (String, String) {
    let answer = say(from, to, &format!("{line} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Fetches with curl.
fn curl(from: &Netns, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--fail", "-m", "20"]).args(args);
    let out = from.put(&mut command).unwrap().output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

fn a_linux_client_that_has_been_here_before_asks_with_its_first_packet() {
    const TEST: &str = "web::a_linux_client_that_has_been_here_before_asks_with_its_first_packet";
    if !need::program("curl") {
        return;
    }
    let folder = Folder::new("fast", 10);
    let Some(lab) = Lab::start_with(TEST, &KINDS.map(Link::new), &folder.section()) else { return };
    lab.both(|family| {
        for host in &lab.hosts {
            let url = format!("http://{}/", at(host.router(family), 80));
            let opened = || lab.pantala().counter("tcp_opened");
            let before = opened();
            for _ in 0..3 {
                assert_eq!(curl(&host.netns, &["--tcp-fastopen", &url]), b"<h1>here</h1>");
            }
            // The first one is given the cookie.
            assert_eq!(opened() - before, 2, "over {}", host.link);
        }
    });
}

fn files_are_served_and_nothing_outside_of_their_folder() {
    let folder = Folder::new("files", 3_000_000);
    let links = KINDS.map(Link::new);
    let test = "web::files_are_served_and_nothing_outside_of_their_folder";
    let Some(lab) = Lab::start_with(test, &links, &folder.section()) else { return };
    lab.both(|family| {
        for host in &lab.hosts {
            let (from, to) = (&host.netns, host.router(family));
            for (line, fields, status, body) in [
                ("GET /", "", "200", "<h1>here</h1>"),
                ("GET /sub/a%20b.txt", "", "200", "0123456789"),
                ("GET /within", "", "200", "0123456789"),
                ("HEAD /within", "", "200", ""),
                ("GET /within", "Range: bytes=2-4\r\n", "206", "234"),
                ("GET /within", "Range: bytes=-1\r\n", "206", "9"),
                (
                    "GET /within",
                    "Range: bytes=2-4\r\nIf-Range: Sun, 06 Nov 1994 08:49:38 GMT\r\n",
                    "200",
                    "0123456789",
                ),
            ] {
                let (head, came) = ask(from, to, line, fields);
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {head}");
                assert_eq!(came, body, "{line} over {}", host.link);
            }
            for (line, fields, status) in [
                ("GET /sub", "", "301"),
                ("GET /none", "", "404"),
                ("GET /out", "", "404"),
                ("GET /within/", "", "404"),
                ("GET /../secret", "", "400"),
                ("GET /sub/%2e%2e/%2e%2e/secret", "", "400"),
                ("POST /", "", "405"),
                ("GET /within", "Range: bytes=10-\r\n", "416"),
            ] {
                let (head, body) = ask(from, to, line, fields);
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {head}");
                assert!(!body.contains("not for the web"));
            }
            let (head, _) = ask(from, to, "HEAD /within", "");
            let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag").to_owned();
            for (fields, status, body) in [
                (format!("If-None-Match: {tag}\r\n"), "304", ""),
                ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned(), "304", ""),
                ("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n".to_owned(), "200", "0123456789"),
                (format!("Range: bytes=2-4\r\nIf-Range: {tag}\r\n"), "206", "234"),
                ("Range: bytes=2-4\r\nIf-Range: \"other\"\r\n".to_owned(), "200", "0123456789"),
                (format!("If-Match: {tag}\r\n"), "200", "0123456789"),
            ] {
                let (head, came) = ask(from, to, "GET /within", &fields);
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{fields}: {head}");
                assert_eq!(came, body, "{fields}");
            }
            let (head, _) = ask(from, to, "GET /within", "If-Match: \"other\"\r\n");
            assert!(head.starts_with("HTTP/1.1 412 "), "{head}");
            let (_, listing) = ask(from, to, "GET /sub/", "");
            assert!(listing.contains("<a href=\"./a%20b.txt\">a b.txt</a>"), "{listing}");
        }
    });
    let metrics = lab.pantala().metrics();
    let line = metrics.lines().find(|line| line.starts_with("pantala_web_requests_total{"));
    assert!(line.is_some_and(|line| line.ends_with(" 96")), "{line:?}");
}

fn requests_in_a_row_are_answered_in_their_order_on_one_connection() {
    let folder = Folder::new("row", 600_000);
    let test = "web::requests_in_a_row_are_answered_in_their_order_on_one_connection";
    let Some(lab) = Lab::start_with(test, &KINDS.map(Link::new), &folder.section()) else { return };
    lab.both(|family| {
        for host in &lab.hosts {
            // More than are answered at once, a long one among them.
            let mut all = String::new();
            for n in 0..50 {
                let path = if n == 20 { "/large" } else { "/within" };
                all += &format!("GET {path} HTTP/1.1\r\nHost: h\r\nRange: bytes={n}-\r\n\r\n");
            }
            all += "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            let mut stream = connect(&host.netns, host.router(family));
            stream.write_all(all.as_bytes()).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            let text = String::from_utf8_lossy(&answer);
            assert_eq!(text.matches("HTTP/1.1 206 ").count(), 11, "ten parts of ten bytes, and one of many");
            assert_eq!(text.matches("HTTP/1.1 416 ").count(), 39);
            assert!(text.contains("Content-Range: bytes 20-599999/600000\r\n"));
            assert!(text.ends_with("<h1>here</h1>"));
        }
    });
}

fn a_thousand_connections_at_once_are_answered_beside_silent_ones() {
    let folder = Folder::new("many", 100_000);
    let test = "web::a_thousand_connections_at_once_are_answered_beside_silent_ones";
    if !need::files(3000) {
        return;
    }
    let Some(lab) = Lab::start_with(test, &KINDS.map(Link::new), &folder.section()) else { return };
    let expected = large(100_000);
    lab.both(|family| {
        for host in &lab.hosts {
            let mut streams: Vec<_> = (0..1000).map(|_| connect(&host.netns, host.router(family))).collect();
            for stream in streams.iter_mut().skip(100) {
                stream.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
                // Half-closed: what was asked for comes nevertheless.
                stream.shutdown(std::net::Shutdown::Write).unwrap();
            }
            for mut stream in streams.drain(100..) {
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                assert!(answer.ends_with(&expected), "{} bytes over {}", answer.len(), host.link);
            }
        }
    });
}

fn a_request_whose_end_is_not_clear_is_refused_and_what_follows_is_no_request() {
    let folder = Folder::new("framing", 10);
    let test = "web::a_request_whose_end_is_not_clear_is_refused_and_what_follows_is_no_request";
    let Some(lab) = Lab::start_with(test, &[Link::new(Attach::Tap)], &folder.section()) else { return };
    lab.both(|family| {
        let host = &lab.hosts[0];
        for (fields, status) in [
            ("Content-Length: 5\r\nContent-Length: 0\r\n", "400"),
            ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "400"),
            ("Transfer-Encoding: xchunked\r\n", "400"),
            ("Transfer-Encoding: gzip, chunked\r\n", "501"),
            // It has a body, which is clear, and not read.
            ("Content-Length: 5\r\n", "200"),
        ] {
            let hidden = "GET /within HTTP/1.1\r\nHost: h\r\n\r\n";
            let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n{hidden}");
            let answer = say(&host.netns, host.router(family), &text);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{fields}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{fields}: {answer}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{fields}: {answer}");
        }
    });
}

/// A counter of the web server.
fn metric(lab: &Lab, name: &str) -> u64 {
    let text = lab.pantala().metrics();
    let of = |line: &str| line.strip_prefix(name)?.rsplit_once(' ')?.1.parse::<u64>().ok();
    text.lines().filter_map(of).sum()
}

fn readers_of_a_large_file_that_take_nothing_hold_a_bounded_memory_which_goes_back_when_they_are_gone() {
    const TEST: &str = "web::readers_of_a_large_file_that_take_nothing_hold_a_bounded_memory_which_goes_back_when_they_are_gone";
    const MIB: u64 = 1 << 20;
    let folder = Folder::new("flood", 3_000_000);
    // Each of them would hold some 100 KiB: three times as much as there is.
    let (readers, memory) = (700_u64, 24 * MIB);
    if !need::files(2000) {
        return;
    }
    let limits = "memory_mib = 24\nclient_memory_mib = 16\nstall_s = 4\n";
    let more = format!("{}{limits}", folder.section());
    let links = [Link::new(Attach::Tap), Link::new(Attach::Tap)];
    let Some(lab) = Lab::start_with(TEST, &links, &more) else {
        return;
    };
    lab.both(|family| {
        let [flood, other] = &lab.hosts[..] else { panic!("two hosts") };
        let (from, to) = (&flood.netns, flood.router(family));
        assert!(ask(from, to, "GET /", "").0.starts_with("HTTP/1.1 200 "));
        let before = lab.pantala().resident();
        let refused = metric(&lab, "pantala_web_refused_total");
        let asked = metric(&lab, "pantala_web_requests_total");
        let given_up_so_far = metric(&lab, "pantala_web_timed_out_total");
        let given_up = || metric(&lab, "pantala_web_timed_out_total") - given_up_so_far;
        let streams: Vec<_> = (0..readers)
            .map(|_| {
                let mut stream = connect(from, to);
                stream.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                stream
            })
            .collect();
        let all = || metric(&lab, "pantala_web_requests_total") - asked;
        until("all have asked", || (all() >= readers).then_some(()));
        let at = lab.pantala().resident();
        let too_many = metric(&lab, "pantala_web_refused_total") - refused;
        assert!((readers / 2..readers).contains(&too_many), "{too_many} were refused");
        // Buffers of packets, and what is known of each connection, are not of this memory.
        assert!(at < before + memory + 24 * MIB, "{before} bytes before, {at} with {readers} readers");
        let (head, body) = ask(&other.netns, other.router(family), "GET /within", "");
        assert!(head.starts_with("HTTP/1.1 200 ") && body == "0123456789", "others are served: {head}");
        // They are given up, and a look at the memory each ten seconds finds that it is free.
        let after = within(4 * PATIENCE, || {
            let resident = lab.pantala().resident();
            (resident < before + 20 * MIB && given_up() >= readers - too_many).then_some(resident)
        });
        let last = lab.pantala().resident();
        assert!(after.is_some(), "{before} bytes before, {at} with {readers} readers, {last} after");
        drop(streams);
    });
}

fn curl_is_served() {
    const TEST: &str = "web::curl_is_served";
    if !need::program("curl") {
        return;
    }
    let folder = Folder::new("curl", 5_000_000);
    let Some(lab) = Lab::start_with(TEST, &KINDS.map(Link::new), &folder.section()) else { return };
    lab.both(|family| {
        for host in &lab.hosts {
            let url = format!("http://{}/large", at(host.router(family), 80));
            let came = curl(&host.netns, &[&url, "-r", "1000000-", &url]);
            let part = &large(5_000_000)[1_000_000..];
            assert!(came == [part, part].concat(), "{} bytes", came.len());
        }
    });
}

/// Bytes that go through each bad link; `PANTALA_BYTES` says how many, where there is time.
fn bytes_through_bad_links() -> usize {
    std::env::var("PANTALA_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(16_000_000)
}

fn digest(path: &Path) -> [u8; 32] {
    Sha256::digest(std::fs::read(path).unwrap()).into()
}

/// Returns the hash of a fetched file, and its length.
fn fetch(from: &Netns, to: IpAddr) -> ([u8; 32], usize) {
    let mut stream = connect(from, to);
    stream.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
    let (mut block, mut head) = (vec![0; 1 << 16], Vec::new());
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut block[..1]).unwrap(), 1);
        head.push(block[0]);
    }
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    loop {
        match stream.read(&mut block).unwrap() {
            0 => return (hash.finalize().into(), bytes),
            count => {
                hash.update(&block[..count]);
                bytes += count;
            }
        }
    }
}

fn a_file_arrives_intact_whatever_part_of_the_packets_is_lost() {
    const TEST: &str = "web::a_file_arrives_intact_whatever_part_of_the_packets_is_lost";
    let bytes = bytes_through_bad_links();
    let folder = Folder::new("lossy", bytes);
    let whole = digest(&folder.0.join("www/large"));
    for loss in ["0", "0.001", "0.02"] {
        // Of what comes and of what goes.
        let lossy = format!("rules_text = \"add 100 prob {loss} deny tcp from any to any\"\n");
        let rules = if loss == "0" { "" } else { &lossy };
        let more = format!("{}[firewall]\ndefault = \"allow\"\n{rules}", folder.section());
        let Some(lab) = Lab::start_with(TEST, &KINDS.map(Link::new), &more) else { return };
        lab.both(|family| {
            for host in &lab.hosts {
                let begun = std::time::Instant::now();
                let (came, count) = fetch(&host.netns, host.router(family));
                println!("{family:?}, {}, loss {loss}: {bytes} bytes in {:?}", host.link, begun.elapsed());
                assert_eq!(count, bytes, "loss {loss} over {}", host.link);
                assert_eq!(came, whole, "loss {loss} over {}", host.link);
            }
        });
        assert_eq!(lab.pantala().dropped("firewall_deny") > 0, loss != "0");
    }
}

harness::tests![
    a_linux_client_that_has_been_here_before_asks_with_its_first_packet,
    files_are_served_and_nothing_outside_of_their_folder,
    requests_in_a_row_are_answered_in_their_order_on_one_connection,
    a_thousand_connections_at_once_are_answered_beside_silent_ones,
    a_request_whose_end_is_not_clear_is_refused_and_what_follows_is_no_request,
    readers_of_a_large_file_that_take_nothing_hold_a_bounded_memory_which_goes_back_when_they_are_gone,
    curl_is_served,
    a_file_arrives_intact_whatever_part_of_the_packets_is_lost,
];
