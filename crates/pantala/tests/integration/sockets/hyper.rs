//! hyper as it is, on both sides.

use core::convert::Infallible;
use core::error::Error;
use core::net::SocketAddr;
use std::io;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pantala::serve::Web;
use pantala::sockets::Options;
use pantala::sockets::aio::{TcpListener, TcpStream};
use pantala::sockets::hyper::{Connector, HttpInfo};

use crate::sockets::socket_api::Stacks;

const LEN: usize = 300_000;

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let asked = request.uri().path().len();
    let body = request.into_body().collect().await.map_or(0, |body| body.to_bytes().len());
    Ok(Response::new(Full::from(vec![u8::try_from(asked + body).unwrap_or(0); LEN])))
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

async fn ask(stream: TcpStream, requests: usize) {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for number in 0..requests {
        let path = format!("/{}", "x".repeat(number));
        let request = Request::post(path).header("host", "there").body(Full::<Bytes>::from("body")).unwrap();
        let response: Response<Incoming> = sender.send_request(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((body.len(), usize::from(body[LEN - 1])), (LEN, number + 5));
    }
}

fn an_unmodified_server_and_an_unmodified_client_run_on_it() {
    let stacks = Stacks::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for addr in ["192.0.2.1:80", "[2001:db8::1]:80"] {
            let at: SocketAddr = addr.parse().unwrap();
            tokio::spawn(serve(TcpListener::bind(&stacks.server, at).await.unwrap()));
            let mut clients = Vec::new();
            for _ in 0..8 {
                let stream = TcpStream::connect(&stacks.client, at).await.unwrap();
                clients.push(tokio::spawn(ask(stream, 5)));
            }
            for client in clients {
                client.await.unwrap();
            }
        }
    });
}

const PAGE: &[u8] = b"<h1>It flies</h1>\n";

/// hyper's client, with its pool of connections, against the web server on the netisrs of the other stack.
fn the_pooled_client_of_hyper_asks_the_web_server_through_the_connector() {
    let stacks = Stacks::new();
    let at = "[::]:80".parse().unwrap();
    stacks.stacks[0].begin_on_all(|| Web::of_pages(at, &[("/", PAGE)])).unwrap();
    let connector = Connector::new(&stacks.client).options(Options::new().nodelay(true));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
        let mut locals = Vec::new();
        for host in ["192.0.2.1", "[2001:db8::1]", "192.0.2.1:80"] {
            for _ in 0..3 {
                let uri = format!("http://{host}/").parse().unwrap();
                let response = client.get(uri).await.unwrap();
                assert_eq!(response.status(), 200);
                let info = *response.extensions().get::<HttpInfo>().unwrap();
                assert_eq!(info.remote.port(), 80);
                locals.push(info.local);
                assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), PAGE);
            }
        }
        locals.dedup();
        assert!(locals.len() <= 3, "connections are kept and used again: {locals:?}");
        let refused = client.get("http://192.0.2.1:81/".parse().unwrap()).await.unwrap_err();
        assert!(refused.is_connect());
        let why = refused.source().and_then(|why| why.downcast_ref::<io::Error>()).unwrap();
        assert_eq!(why.kind(), io::ErrorKind::ConnectionRefused);
        let tls = client.get("https://192.0.2.1/".parse().unwrap()).await.unwrap_err();
        assert!(tls.source().unwrap().to_string().contains("scheme `http`"));
    });
}

harness::tests![
    an_unmodified_server_and_an_unmodified_client_run_on_it,
    the_pooled_client_of_hyper_asks_the_web_server_through_the_connector,
];
