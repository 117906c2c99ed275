//! `pantala run`: servers of Debian, unchanged, with clients in the kernel.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Family, Host, at};
use crate::need;
use crate::pantala::Folder;
use crate::programs::{Running, lab, on_pantala, words};
use crate::wait::{PATIENCE, until};

/// Reloads of a server under load.
const RELOADS: usize = 15;
/// Commands that redis gets at once.
const COMMANDS: u64 = 150_000;
/// Requests between two reloads.
const BETWEEN: usize = 25;

/// Connects to a server on pantala, says something, and reads until it has all that was expected, or the end.
fn ask(host: &Host, to: SocketAddr, text: &[u8], until_it_says: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = host.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(text)?;
    let (mut all, mut bytes, mut looked) = (Vec::new(), [0; 4096], 0);
    while !all[looked..].windows(until_it_says.len().max(1)).any(|part| part == until_it_says) {
        looked = all.len().saturating_sub(until_it_says.len());
        match stream.read(&mut bytes)? {
            0 => break,
            count => all.extend_from_slice(&bytes[..count]),
        }
    }
    Ok(all)
}

pub(crate) fn says(host: &Host, to: SocketAddr, text: &[u8], answer: &[u8]) -> Option<()> {
    let got = ask(host, to, text, answer).ok()?;
    got.windows(answer.len()).any(|part| part == answer).then_some(())
}

pub(crate) fn write(folder: &Folder, name: &str, text: &str) -> String {
    fs::write(folder.file(name), text).unwrap();
    folder.file(name).display().to_string()
}

/// A configuration of nginx: two workers that answer `GET /`, as the user of the test.
fn nginx(folder: &Folder, own: &str, port: u16) -> String {
    let path = folder.path().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {path}/{kind};"))
        .concat();
    let text = format!(
        "worker_processes 2; daemon off; user root; pid {path}/nginx.pid; error_log {path}/nginx.log;
         events {{ worker_connections 256; }}
         http {{ access_log off; {temporary}
           server {{ listen {own}:{port}; location / {{ return 200 \"hello from nginx\\n\"; }} }} }}"
    );
    write(folder, "nginx.conf", &text)
}

pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
pub(crate) const HELLO: &[u8] = b"hello from nginx\n";

pub(crate) fn bracketed(host: &Host, family: Family) -> String {
    let own = host.router(family);
    family.pick(own.to_string(), format!("[{own}]"))
}

/// The process that a server has written its number of.
pub(crate) fn process(file: &Path) -> Option<Pid> {
    Pid::from_raw(fs::read_to_string(file).ok()?.trim().parse().ok()?)
}

/// Asks without a pause while `run` runs, on two threads; every request must be answered. Returns their number.
pub(crate) fn loaded(host: &Host, to: SocketAddr, run: impl FnOnce()) -> u32 {
    let (is_over, count) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        let clients: [_; 2] = core::array::from_fn(|_| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let got = ask(host, to, REQUEST, HELLO);
                    let got = got.unwrap_or_else(|why| panic!("{why} after {count:?} requests"));
                    assert!(got.ends_with(HELLO), "{}", String::from_utf8_lossy(&got));
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        run();
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
    });
    count.into_inner()
}

/// Reloads a server, each time after some more requests were answered.
pub(crate) fn reload(file: &Path, signal: Signal, host: &Host, to: SocketAddr) {
    for _ in 0..RELOADS {
        // A server that was reloaded may be writing it.
        let pid = until("its number is written", || process(file));
        kill_process(pid, signal).unwrap();
        for _ in 0..BETWEEN {
            says(host, to, REQUEST, HELLO).unwrap();
        }
    }
}

fn nginx_is_reloaded_under_load_without_a_failed_request() {
    let test = "server_programs::nginx_is_reloaded_under_load_without_a_failed_request";
    if !need::program("nginx") {
        return;
    }
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let config = nginx(&folder, &bracketed(host, family), 8080);
        let _nginx = Running::start(&mut on_pantala(&folder, &["nginx", "-c", &config]));
        let to = at(host.router(family), 8080);
        until("nginx answers", || says(host, to, REQUEST, HELLO));
        let pid = folder.file("nginx.pid");
        let count = loaded(host, to, || reload(&pid, Signal::HUP, host, to));
        assert!(count > 20, "{count} requests");
        kill_process(process(&pid).unwrap(), Signal::TERM).unwrap();
        until("nginx is gone", || (!pid.exists()).then_some(()));
    });
}

fn haproxy_before_nginx_hands_its_sockets_over() {
    let test = "server_programs::haproxy_before_nginx_hands_its_sockets_over";
    if !need::program("nginx") || !need::program("haproxy") {
        return;
    }
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let own = bracketed(host, family);
        let config = nginx(&folder, &own, 8080);
        let _nginx = Running::start(&mut on_pantala(&folder, &["nginx", "-c", &config]));
        until("nginx answers", || says(host, at(host.router(family), 8080), REQUEST, HELLO));
        let path = folder.path().display();
        let plain = host.router(family);
        let text = format!(
            "global\n stats socket {path}/haproxy.sock mode 600 level admin expose-fd listeners\n
             defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n
             frontend front\n bind {plain}:8090\n default_backend back\n
             backend back\n option httpchk GET /\n server one {plain}:8080 check inter 500\n"
        );
        let (config, pid) = (write(&folder, "haproxy.cfg", &text), folder.file("haproxy.pid"));
        let line = ["haproxy", "-W", "-f", &config, "-p", &pid.display().to_string()].map(str::to_owned);
        let _haproxy = Running::start(&mut on_pantala(&folder, &words(&line)));
        let to = at(host.router(family), 8090);
        until("HAProxy answers", || says(host, to, REQUEST, HELLO));
        let count = loaded(host, to, || reload(&pid, Signal::USR2, host, to));
        assert!(count > 20, "{count} requests");
        for file in ["haproxy.pid", "nginx.pid"] {
            kill_process(process(&folder.file(file)).unwrap(), Signal::TERM).unwrap();
        }
        let is_gone = |port| ask(host, at(host.router(family), port), b"x", b"").is_err();
        until("both are gone", || (is_gone(8080) && is_gone(8090)).then_some(()));
    });
}

fn redis_and_memcached_answer_from_pantala() {
    let test = "server_programs::redis_and_memcached_answer_from_pantala";
    if !need::program("redis-server") || !need::program("memcached") {
        return;
    }
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let own = host.router(family).to_string();
        let redis =
            ["redis-server", "--port", "6379", "--bind", &own, "--protected-mode", "no", "--save", ""];
        let _redis = Running::start(&mut on_pantala(&folder, &redis));
        let to = at(host.router(family), 6379);
        until("redis answers", || says(host, to, b"PING\r\n", b"+PONG\r\n"));
        // Many commands at once, as `redis-cli --pipe` sends them: more than a Unix socket has room for. None of their replies is read
        // before all are sent.
        let commands: String = (0..COMMANDS).map(|n| format!("INCRBY sum {n}\r\n")).collect();
        let sum: u64 = (0..COMMANDS).sum();
        let replies = ask(host, to, commands.as_bytes(), format!(":{sum}\r\n").as_bytes()).unwrap();
        let count = replies.iter().filter(|byte| **byte == b'\n').count() as u64;
        assert_eq!(count, COMMANDS, "a reply to each");
        let memcached = ["memcached", "-u", "root", "-p", "11211", "-l", &own];
        let _memcached = Running::start(&mut on_pantala(&folder, &memcached));
        let to = at(host.router(family), 11211);
        until("memcached answers", || says(host, to, b"set a 0 0 5\r\nhello\r\n", b"STORED\r\n"));
        says(host, to, b"get a\r\n", b"VALUE a 0 5\r\nhello\r\nEND\r\n").unwrap();
    });
}

harness::tests![
    nginx_is_reloaded_under_load_without_a_failed_request,
    haproxy_before_nginx_hands_its_sockets_over,
    redis_and_memcached_answer_from_pantala,
];
