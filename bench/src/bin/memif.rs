//! Forwards IPv4 between two memif devices, the client of both: `memif ROUTES SOCKET_IN SOCKET_OUT SECONDS`.
#![expect(clippy::print_stderr, reason = "a program that says how it is used")]

use core::time::Duration;
use std::process::ExitCode;

use bench::frames::Family;
use bench::router::Router;
use bench::workload::Workload;
use dev::memif::{Hub, MemifRing, Options, Port, Role};

/// As many as DPDK's end has.
const RING_SIZE: u32 = 1024;
/// What DPDK's buffers hold.
const BUFFER_SIZE: u32 = 2048;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [routes, input, output, seconds] = args.as_slice() else { return usage() };
    let (Ok(routes), Ok(seconds)) = (routes.parse(), seconds.parse()) else { return usage() };
    match forward(routes, input, output, Duration::from_secs(seconds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("memif: {why}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: memif ROUTES SOCKET_IN SOCKET_OUT SECONDS");
    ExitCode::from(2)
}

fn forward(routes: u32, input: &str, output: &str, time: Duration) -> Result<(), String> {
    let mut hub = Hub::start(|| ()).map_err(|error| error.to_string())?;
    let (_input, source) = open(&mut hub, "in", input)?;
    let (_output, sink) = open(&mut hub, "out", output)?;
    let workload = Workload { family: Family::Ip4, routes, destinations: 1 };
    let router = Router::between(Family::Ip4, workload.prefixes(), Box::new(source), Box::new(sink));
    router.map_err(|error| format!("{error:?}"))?.run(time);
    Ok(())
}

fn open(hub: &mut Hub, name: &str, socket: &str) -> Result<(Port, MemifRing), String> {
    let options = Options {
        name: name.into(),
        socket: socket.into(),
        id: 0,
        role: Role::Slave,
        rings: 1,
        ring_size: RING_SIZE,
        buffer_size: BUFFER_SIZE,
        secret: None,
    };
    let (port, mut rings) = hub.open(options).map_err(|error| format!("{socket}: {error}"))?;
    Ok((port, rings.pop().ok_or("a port without a ring")?))
}
