//! Forwards IPv4 between two memif devices, the client of both: `memif ROUTES SOCKET_IN SOCKET_OUT SECONDS`.

use core::time::Duration;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bench::frames::Family;
use bench::program::{self, Misused};
use bench::router::Router;
use bench::workload::Workload;
use dev::memif::{Hub, MemifRing, Options, Port, Role};

/// Ring size of DPDK's end.
const RING_SIZE: u32 = 1024;
/// Buffer size of DPDK's end.
const BUFFER_SIZE: u32 = 2048;

fn main() -> ExitCode {
    program::run("memif ROUTES SOCKET_IN SOCKET_OUT SECONDS", |args| {
        let [routes, input, output, seconds] = args else { return Err(Misused.into()) };
        forward(program::read(routes)?, input, output, Duration::from_secs(program::read(seconds)?))?;
        Ok(String::new())
    })
}

fn forward(routes: u32, input: &str, output: &str, time: Duration) -> Result<()> {
    let mut hub = Hub::start(|| (), Box::new(|_, _| ()))?;
    let (_input, source) = open(&mut hub, "in", input)?;
    let (_output, sink) = open(&mut hub, "out", output)?;
    let workload = Workload { family: Family::Ip4, routes, destinations: 1 };
    let router = Router::between(Family::Ip4, workload.prefixes(), Box::new(source), Box::new(sink));
    router?.run(time);
    Ok(())
}

fn open(hub: &mut Hub, name: &str, socket: &str) -> Result<(Port, MemifRing)> {
    let options = Options {
        name: name.into(),
        socket: socket.into(),
        id: 0,
        role: Role::Slave,
        rings: 1,
        ring_size: RING_SIZE,
        buffer_size: BUFFER_SIZE,
        secret: None,
        access: dev::sys::unix_socket::Access::default(),
    };
    let (port, mut rings) = hub.open(options).with_context(|| socket.to_owned())?;
    Ok((port, rings.pop().context("a port without a ring")?))
}
