//! A server of threads that use the sockets of the library, and a client that is a program on the netisr of another stack: two
//! stacks of one process, joined by a wire in memory.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use dev::mem;
use net::app::AppId;
use net::tcp::settings::Settings;
use pantala::sockets::blocking::{TcpListener, TcpStream};
use pantala::sockets::{Options, Sockets};
use pantala::{Interface, Stack};
use rustix::time::{ClockId, clock_gettime};

use crate::short::{ANSWER, Behind, Client, PORT, Pace, QUESTION, Rate, Seen, Serves};

/// Address of the server.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// The clients' addresses: a port is not used again for one while the server remembers it.
const CLIENTS: u8 = 32;
/// Maximum segment lifetime, in milliseconds.
const MSL_MS: u64 = 20;
/// Within this both stacks have their addresses.
const READY_LIMIT: Duration = Duration::from_secs(10);
/// Before anything is measured: SYNs beyond those that wait for the neighbour are dropped, and come again after a second.
const WARM_UP: Duration = Duration::from_millis(1500);

/// Listeners of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// One listener for all threads.
    Together,
    /// Each has its own at the same place (`SO_REUSEPORT`).
    Each,
}

/// Setting of a socket option by a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// It goes on at once.
    Asynchronous,
    /// It waits until the netisr has answered, as a system call would.
    Synchronous,
}

/// Parameters of the server and its client.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Threads of the server.
    pub threads: usize,
    /// Listeners of the threads.
    pub listening: Listening,
    /// Setting of `TCP_NODELAY`, for each connection.
    pub setting: Setting,
    /// Connections that are handed to a thread before it accepts them.
    pub ahead: u32,
    /// Connections at a time.
    pub concurrent: usize,
}

/// Both stacks, the client's program, and the server's threads.
struct Running {
    server: Arc<Stack>,
    client: Stack,
    asks: AppId,
    shown: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

/// Runs them for so long.
///
/// # Errors
///
/// When a stack does not start, or connections fail.
pub fn measure(wanted: &Wanted, time: Duration) -> Result<Rate> {
    let running = Running::start(wanted)?;
    thread::sleep(WARM_UP);
    running.seen()?;
    let (began, worked) = (Instant::now(), process_time());
    thread::sleep(time);
    let (seen, took, worked) = (running.seen()?, began.elapsed(), process_time() - worked);
    running.stop()?;
    let Seen { answered, failed, latency, .. } = seen;
    ensure!(failed == 0 && answered > 0, "{failed} connections failed, {answered} answers came");
    let each = |time: Duration| answered as f64 / time.as_secs_f64();
    Ok(Rate { each_second: each(took), each_cpu_second: each(worked), latency })
}

impl Running {
    fn start(wanted: &Wanted) -> Result<Self> {
        let [ours, theirs] = mem::wire(1)?;
        let clients: Vec<_> = (2..).map(|host| Ipv4Addr::new(10, 9, 0, host)).take(CLIENTS.into()).collect();
        let (server, client) = (Arc::new(stack(ours, &[SERVER])?), stack(theirs, &clients)?);
        // The wire has a link once both ends are open.
        for stack in [&*server, &client] {
            stack.wait_ready(READY_LIMIT).map_err(|error| anyhow!("a stack: {error}"))?;
        }
        let is_over = Arc::<AtomicBool>::default();
        let threads = serve(&server, wanted, &is_over)?;
        let shown = Arc::default();
        let settings = Settings { msl: Duration::from_millis(MSL_MS), ..Settings::default() };
        let clients: Vec<IpAddr> = clients.into_iter().map(IpAddr::from).collect();
        let how = (Pace::Concurrent(wanted.concurrent), Behind::Close, Serves::Least);
        let asks = Client::new((SERVER, PORT).into(), &clients, settings, how, Arc::clone(&shown));
        let asks = client.begin(0, Box::new(asks)).map_err(|error| anyhow!("the client: {error}"))?;
        Ok(Self { server, client, asks, shown, is_over, threads })
    }

    /// Returns and resets the client's results.
    fn seen(&self) -> Result<Seen> {
        let asks = self.asks;
        let called = self.client.call(0, move |netisr| netisr.call(asks));
        called.map_err(|error| anyhow!("the client: {error}"))?;
        Ok(self.shown.lock().map(|mut shown| core::mem::take(&mut *shown)).unwrap_or_default())
    }

    fn stop(self) -> Result<()> {
        let Self { server, client, is_over, threads, .. } = self;
        is_over.store(true, Ordering::Relaxed);
        client.stop().map_err(|error| anyhow!("the client's stack: {error}"))?;
        let sockets = server.sockets()?;
        while threads.iter().any(|thread| !thread.is_finished()) {
            // Each that waits for a connection gets one.
            drop(TcpStream::connect(&sockets, (SERVER, PORT)));
        }
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a thread of the server died"))??;
        }
        drop(sockets);
        let server = Arc::into_inner(server).context("the server's stack is in use")?;
        server.stop().map_err(|error| anyhow!("the server's stack: {error}"))
    }
}

/// A stack with one netisr at this end of the wire.
fn stack(end: mem::End, addrs: &[Ipv4Addr]) -> Result<Stack> {
    let wire = addrs.iter().fold(Interface::mem(end), |wire, addr| wire.address(format!("{addr}/24")));
    let stack = Stack::builder().threads(1).interface(wire).sysctl("net.inet.tcp.msl", MSL_MS).start();
    stack.map_err(|error| anyhow!("a stack: {error}"))
}

/// Starts the server's threads, whose listeners are there when this returns.
fn serve(
    stack: &Arc<Stack>,
    wanted: &Wanted,
    is_over: &Arc<AtomicBool>,
) -> Result<Vec<JoinHandle<Result<()>>>> {
    let sockets = stack.sockets()?;
    let shared = listener(&sockets, wanted)?;
    let start = |number: usize| -> Result<_> {
        let own = wanted.listening == Listening::Each && number > 0;
        let listener = if own { listener(&sockets, wanted)? } else { shared.try_clone()? };
        let (stack, is_over, setting) = (Arc::clone(stack), Arc::clone(is_over), wanted.setting);
        let is_alone = wanted.threads == 1;
        let serve = move |stream| answer(&stack, stream, setting);
        Ok(thread::spawn(move || work(&listener, is_alone, &is_over, serve)))
    };
    (0..wanted.threads).map(start).collect()
}

fn listener(sockets: &Sockets, wanted: &Wanted) -> Result<TcpListener> {
    let options = Options::new().backlog(1024).accept_ahead(wanted.ahead);
    let options = options.reuse_port(wanted.listening == Listening::Each);
    let addr: SocketAddr = (SERVER, PORT).into();
    Ok(TcpListener::bind_with(sockets, addr, &options)?)
}

/// Serves connections one by one; or one thread alone, all that wait, as servers with an event loop do.
fn work(
    listener: &TcpListener,
    is_alone: bool,
    is_over: &AtomicBool,
    serve: impl Fn(TcpStream) -> Result<()>,
) -> Result<()> {
    let mut accepted = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        accepted.push(listener.accept()?.0);
        if is_alone {
            listener.set_nonblocking(true)?;
            accepted.extend(listener.incoming().map_while(Result::ok));
            listener.set_nonblocking(false)?;
        }
        accepted.drain(..).try_for_each(&serve)?;
    }
    Ok(())
}

fn answer(stack: &Stack, mut stream: TcpStream, setting: Setting) -> Result<()> {
    stream.set_nodelay(true)?;
    if setting == Setting::Synchronous {
        stack.call(0, |_| ()).map_err(|error| anyhow!("the netisr: {error}"))?;
    }
    let mut question = [0; QUESTION];
    // What ends meanwhile is no failure of the server.
    if stream.read_exact(&mut question).is_ok() {
        let _ = stream.write_all(&[b'a'; ANSWER]);
    }
    Ok(())
}

/// Processor time of the whole process.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_server_answers() {
        for (listening, setting) in
            [(Listening::Together, Setting::Asynchronous), (Listening::Each, Setting::Synchronous)]
        {
            let wanted = Wanted { threads: 2, listening, setting, ahead: 32, concurrent: 8 };
            let rate = measure(&wanted, Duration::from_millis(200)).unwrap();
            assert!(rate.latency.len() > 10, "{listening:?}");
        }
    }
}
