//! hyper's HTTP client through a stack: its connections are the stack's, as many are kept as it likes, and names are resolved
//! by the system. The web server, on the netisr of another stack, is pantala's own.
//!
//! cargo run --example http_client

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::error::Error;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pantala::serve::Web;
use pantala::sockets::hyper::Connector;
use pantala::{Interface, Stack, mem};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let [one_end, other_end] = mem::wire(1)?;
    let server = Interface::mem(one_end).address("192.0.2.1/24").address("2001:db8::1/64");
    let client = Interface::mem(other_end).address("192.0.2.2/24").address("2001:db8::2/64");
    let server = Stack::builder().threads(1).interface(server).start()?;
    let client = Stack::builder().threads(1).interface(client).start()?;
    let at = "[::]:80".parse()?;
    server.begin_on_all(|| Web::of_pages(at, &[("glider", b"It flies farthest\n")]))?;

    let connector = Connector::new(&client.sockets()?);
    tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        client.ready().await?;
        let http: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
        for host in ["192.0.2.1", "[2001:db8::1]"] {
            let response = http.get(format!("http://{host}/glider").parse()?).await?;
            let (status, body) = (response.status(), response.into_body().collect().await?.to_bytes());
            print!("{host}: {status}, {}", String::from_utf8_lossy(&body));
            assert_eq!(body, "It flies farthest\n");
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    client.stop()?;
    Ok(server.stop()?)
}
