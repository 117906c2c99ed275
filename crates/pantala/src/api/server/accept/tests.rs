use core::future::pending;
use std::path::PathBuf;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;

use super::super::body::{self, Bodies};
use super::*;

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);
/// More than the kernel keeps of what is written and not read.
const MUCH: usize = 8 << 20;

const GET: &[u8] = b"GET /small HTTP/1.1\r\nhost: x\r\n\r\n";

fn patient() -> Limits {
    Limits { connections: 4, head_within: LONG, body_within: LONG, stall: LONG, bodies: 4096 }
}

/// Runs a client against a server with these limits.
fn against<C: Future<Output = ()>>(limits: Limits, client: impl FnOnce(PathBuf) -> C) {
    static NUMBER: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("pt-accept-{}-{number}", std::process::id()));
    let router = Router::new()
        .route("/small", get(async || "small"))
        .route("/large", get(async || vec![b'x'; MUCH]))
        .route("/slow", get(async || pending::<&str>().await))
        .route("/change", post(async |body: String| body))
        .layer(from_fn_with_state(Bodies::new(limits), body::read));
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let listener = UnixListener::bind(&path).unwrap();
        tokio::select! {
            never = serve(listener, router, limits, Arc::default()) => match never {},
            ended = tokio::time::timeout(LONG, client(path.clone())) => ended.unwrap(),
        }
    });
    std::fs::remove_file(path).unwrap();
}

async fn connected(path: &PathBuf, said: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(said).await.unwrap();
    stream
}

/// All that is answered until the connection ends.
async fn heard(mut stream: UnixStream) -> String {
    let mut bytes = Vec::new();
    // One that is closed before all was read is reset.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

/// Whether a request is answered on a connection of its own.
async fn is_served(path: &PathBuf) -> bool {
    let mut stream = connected(path, GET).await;
    let mut begin = [0; 15];
    stream.read_exact(&mut begin).await.is_ok_and(|_| begin == *b"HTTP/1.1 200 OK")
}

#[test]
fn a_connection_that_says_nothing_or_half_a_head_ends_after_a_while() {
    against(Limits { head_within: SHORT, ..patient() }, async |path| {
        for said in [&b""[..], b"GET /small HTT", GET] {
            let answer = heard(connected(&path, said).await).await;
            assert_eq!(answer.contains("200 OK"), said == GET, "{answer}");
        }
    });
}

#[test]
fn a_request_whose_body_does_not_come_is_answered_408_and_others_are_served_meanwhile() {
    against(Limits { body_within: SHORT, ..patient() }, async |path| {
        let half = b"POST /change HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf";
        let half = connected(&path, half).await;
        assert!(is_served(&path).await);
        let answer = heard(half).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    });
}

#[test]
fn an_answer_that_is_not_taken_ends_its_connection() {
    against(Limits { connections: 1, stall: SHORT, ..patient() }, async |path| {
        let large = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
        let idle = connected(&path, large).await;
        // There is one connection: others are served once it has ended.
        while !is_served(&path).await {
            tokio::task::yield_now().await;
        }
        assert!(heard(idle).await.len() < MUCH);
    });
}

#[test]
fn an_answer_that_takes_its_time_is_waited_for() {
    against(Limits { stall: SHORT, body_within: SHORT, head_within: SHORT, ..patient() }, async |path| {
        let mut slow = connected(&path, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let answered = tokio::time::timeout(4 * SHORT, slow.read(&mut [0; 1])).await;
        assert!(answered.is_err(), "it was ended");
    });
}

#[test]
fn connections_beyond_the_bound_are_told_and_there_is_room_again_when_one_ends() {
    against(patient(), async |path| {
        let mut idle = Vec::new();
        for _ in 0..4 {
            idle.push(connected(&path, b"GET").await);
        }
        let refused =
            heard(connected(&path, b"GET /small HTTP/1.1\r\nconnection: close\r\n\r\n").await).await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert!(refused.contains("too many connections"), "{refused}");
        idle.pop();
        while !is_served(&path).await {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn bodies_of_all_connections_together_are_bounded_in_bytes() {
    against(patient(), async |path| {
        let post = |len: usize, body: &str| {
            format!("POST /change HTTP/1.1\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}")
        };
        // It holds 4000 of 4096 bytes, and does not end.
        let held = connected(&path, post(5000, &"a".repeat(4000)).as_bytes()).await;
        loop {
            let answer = heard(connected(&path, post(200, &"b".repeat(200)).as_bytes()).await).await;
            if answer.starts_with("HTTP/1.1 503 ") {
                break;
            }
            tokio::task::yield_now().await;
        }
        let short = heard(connected(&path, post(2, "ok").as_bytes()).await).await;
        assert!(short.ends_with("ok"), "{short}");
        drop(held);
        loop {
            let answer = heard(connected(&path, post(200, &"b".repeat(200)).as_bytes()).await).await;
            if answer.starts_with("HTTP/1.1 200 ") {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
}

fn permit() -> OwnedSemaphorePermit {
    Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
}

#[test]
fn a_socket_that_only_shows_refuses_all_that_changes() {
    let router = Router::new()
        .route("/change", post(async || "changed").get(async || "shown"))
        .layer(from_fn(body::only_reads));
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        for (method, word) in
            [("POST", "403 "), ("PUT", "403 "), ("PATCH", "403 "), ("DELETE", "403 "), ("GET", "200 ")]
        {
            let (server, client) = UnixStream::pair().unwrap();
            tokio::spawn(answer(server, router.clone(), Limits::default(), permit()));
            let (mut reader, mut writer) = client.into_split();
            let head = format!("{method} /change HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            writer.write_all(head.as_bytes()).await.unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).await.unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {word}")), "{method}: {text}");
        }
    });
}
