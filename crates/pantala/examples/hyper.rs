//! A web server with hyper as it is, on a stack of two CPUs; the client is hyper's, on another stack. Each CPU's connections
//! are served by tasks of whichever thread of the program has time for them: here two threads with a runtime each.
//!
//! cargo run --example hyper

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::convert::Infallible;
use core::error::Error;
use core::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use pantala::sockets::aio::{TcpListener, TcpStream};
use pantala::{Interface, Stack, mem};
use tokio::runtime::{Builder, Runtime};

const CONNECTIONS: usize = 32;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let [one_end, other_end] = mem::wire(2)?;
    let server =
        Stack::builder().threads(2).interface(Interface::mem(one_end).address("2001:db8::1/64")).start()?;
    let client =
        Stack::builder().threads(2).interface(Interface::mem(other_end).address("2001:db8::2/64")).start()?;
    let (here, there) = (server.sockets()?, client.sockets()?);

    let runtime = runtime()?;
    let at: SocketAddr = "[2001:db8::1]:80".parse()?;
    runtime.block_on(async { tokio::try_join!(server.ready(), client.ready()) })?;
    let listener = Arc::new(runtime.block_on(TcpListener::bind(&here, at))?);
    for _ in 0..2 {
        let (listener, runtime) = (Arc::clone(&listener), self::runtime()?);
        // A task for each connection; the thread ends with the stack.
        std::thread::spawn(move || runtime.block_on(serve(&listener)));
    }

    for _ in 0..CONNECTIONS {
        let text = runtime.block_on(async { ask(TcpStream::connect(&there, at).await?).await })?;
        assert!(text.starts_with("It flies"), "{text}");
    }
    println!("{CONNECTIONS} connections were answered");
    client.stop()?;
    Ok(server.stop()?)
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().build()
}

async fn serve(listener: &TcpListener) {
    let tasks = tokio::task::LocalSet::new();
    tasks
        .run_until(async {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::task::spawn_local(
                    connection.serve_connection(TokioIo::new(stream), service_fn(answer)),
                );
            }
        })
        .await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(format!("It flies, {}\n", request.uri().path()))))
}

async fn ask(stream: TcpStream) -> Result<String, Box<dyn Error>> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let asks = async {
        let request = Request::get("/here").header("host", "there").body(Empty::<Bytes>::new())?;
        let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        drop(sender);
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    let (text, _) = tokio::join!(asks, connection);
    text
}
