//! Connections of programs on netisrs.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use net::app::AppContext;
use net::pcb::FourTuple;
use net::sock::Error;
use net::tcp::{self, Connect, ListenerId};
use pantala::sockets::io_error;

use super::{Agents, Netisrs};
use crate::sockets::hosts::{Opt, prepare};
use crate::sockets::socket_api::{Face, Terms};
use crate::sockets::timeout::Patience;

/// Listeners of one place, on all CPUs.
pub(crate) struct Listener {
    agents: Agents,
    key: u32,
    ids: Vec<ListenerId>,
    addr: SocketAddr,
    patience: Patience,
}

/// A connection, however often the body has it.
#[derive(Clone)]
pub(crate) struct Stream(Arc<Conn>);

struct Conn {
    agents: Agents,
    cpu: usize,
    key: u32,
    id: tcp::Id,
    ends: FourTuple,
    patience: Patience,
    /// The body does not want to read any more.
    is_deaf: AtomicBool,
    /// The body knows why it has ended.
    is_told: AtomicBool,
    /// It is aborted, and not closed.
    aborts: AtomicBool,
}

impl Listener {
    pub(crate) fn bind(agents: &Agents, addr: SocketAddr, terms: Terms, opts: &[Opt]) -> io::Result<Self> {
        let Terms { only_v6, is_shared } = terms;
        let (agents, key) = (agents.clone(), agents.told.name());
        let (ids, patience) = (Vec::new(), Patience::default());
        // What stands already is given up if another CPU cannot.
        let mut all = Self { agents, key, ids, addr, patience };
        for cpu in 0..all.agents.cpus() {
            let (addr, key, opts) = (all.addr, all.key, opts.to_vec());
            let listening = all.agents.ask(cpu, move |cx| {
                let mut listen = tcp::Listen { only_v6, is_shared, ..tcp::Listen::at(addr) };
                listen.settings = cx.cpu.sysctls.tcp;
                prepare(&opts, &mut listen.settings, &mut listen.tx_params);
                let id = cx.listen(&listen, key)?;
                Ok((id, tcp::local(cx.cpu, id).unwrap()))
            });
            let (id, at) = listening.map_err(io_error)?;
            all.ids.push(id);
            // The port that the first has found is that of all.
            all.addr = at;
        }
        Ok(all)
    }

    fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let accepted = self.agents.patiently(self.key, &self.patience, || {
            let next = self.agents.told.with(self.key, |news| news.accepted.pop_front());
            next.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        });
        let (cpu, accepted, key) = accepted?;
        let stream = Stream::new(&self.agents, cpu, key, (accepted.id, accepted.ends));
        Ok((stream, accepted.ends.remote()))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for (cpu, &id) in self.ids.iter().enumerate() {
            self.agents.ask(cpu, move |cx| tcp::unlisten(cx.cpu, id));
        }
        let news = self.agents.told.forget(self.key);
        for (cpu, accepted, key) in news.into_iter().flat_map(|news| news.accepted) {
            self.agents.ask(cpu, move |cx| tcp::abort(cx.cpu, accepted.id)).ok();
            self.agents.told.forget(key);
        }
    }
}

impl Stream {
    fn new(agents: &Agents, cpu: usize, key: u32, (id, ends): (tcp::Id, FourTuple)) -> Self {
        let [is_deaf, is_told, aborts] = [false; 3].map(AtomicBool::new);
        let (agents, patience) = (agents.clone(), Patience::default());
        Self(Arc::new(Conn { agents, cpu, key, id, ends, patience, is_deaf, is_told, aborts }))
    }

    /// Begins a connection on some CPU, and waits until the program is told that it stands, or has ended.
    pub(crate) fn connect(agents: &Agents, remote: SocketAddr, opts: &[Opt]) -> io::Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let cpu = NEXT.fetch_add(1, Ordering::Relaxed) % agents.cpus();
        let (key, opts) = (agents.told.name(), opts.to_vec());
        let begun = agents.ask(cpu, move |cx| {
            let mut connect = Connect { settings: cx.cpu.sysctls.tcp, ..Connect::to(remote) };
            prepare(&opts, &mut connect.settings, &mut connect.tx_params);
            let id = cx.connect(&connect, key)?;
            Ok((id, *tcp::connection(cx.cpu, id).unwrap().0))
        });
        let stream = Self::new(agents, cpu, key, begun.map_err(io_error)?);
        agents.patiently(key, &Patience::default(), || {
            agents.told.with(key, |news| match news.over {
                Some((why, _)) => Err(io_error(why.unwrap())),
                None if news.is_writable => Ok(()),
                None => Err(io::ErrorKind::WouldBlock.into()),
            })
        })?;
        Ok(stream)
    }
}

impl Stream {
    /// Has the program do something to the connection.
    pub(crate) fn ask(
        &self,
        what: impl FnOnce(&mut AppContext<'_>, tcp::Id) -> Result<(), Error> + Send + 'static,
    ) -> io::Result<()> {
        let id = self.0.id;
        self.0.agents.ask(self.0.cpu, move |cx| what(cx, id)).map_err(io_error)
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) {
        self.0.patience.set_timeout(Some(timeout)).unwrap();
    }
}

impl Conn {
    /// Reads, by one of the two calls.
    fn read(&self, into: &mut [u8], takes: bool) -> io::Result<usize> {
        self.agents.patiently(self.key, &self.patience, || self.read_now(into, takes))
    }

    fn read_now(&self, into: &mut [u8], takes: bool) -> io::Result<usize> {
        if self.is_deaf.load(Ordering::Relaxed) {
            return Ok(0);
        }
        if let Some(count) = self.agents.told.with(self.key, |news| {
            news.over.as_mut().map(|(_, rest)| read_rest(rest, into, takes)).filter(|count| *count > 0)
        }) {
            return Ok(count);
        }
        if let Some(why) = self.agents.told.with(self.key, |news| news.over.as_ref().map(|over| over.0)) {
            return self.why(why).map_or(Ok(0), Err);
        }
        let (id, len) = (self.id, into.len());
        let read = self.agents.ask(self.cpu, move |cx| {
            let mut bytes = vec![0; len];
            let count = match takes {
                true => tcp::read(cx.cpu, id, &mut bytes),
                false => tcp::peek(cx.cpu, id, &mut bytes),
            };
            count.map(|count| bytes[..count].to_vec())
        });
        match read {
            Ok(bytes) => {
                into[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            // What has ended meanwhile the program has been told.
            Err(Error::WouldBlock | Error::NotFound) => Err(io::ErrorKind::WouldBlock.into()),
            Err(why) => self.why(Some(why)).map_or(Ok(0), Err),
        }
    }

    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let closed = || io_error(Error::Closed);
        if let Some(why) = self.agents.told.with(self.key, |news| news.over.as_ref().map(|over| over.0)) {
            return Err(self.why(why).unwrap_or_else(closed));
        }
        let (id, bytes) = (self.id, bytes[..bytes.len().min(65_536)].to_vec());
        match self.agents.ask(self.cpu, move |cx| tcp::send(cx.cpu, id, &bytes)) {
            Err(Error::WouldBlock | Error::NotFound) => Err(io::ErrorKind::WouldBlock.into()),
            sent => sent.map_err(|why| self.why(Some(why)).unwrap_or_else(closed)),
        }
    }

    /// Returns why it has ended, if before its time, to the first caller: a call reports it, and then the application learns it.
    fn why(&self, why: Option<Error>) -> Option<io::Error> {
        match why? {
            Error::Closed => Some(io_error(Error::Closed)),
            why => (!self.is_told.swap(true, Ordering::Relaxed)).then(|| io_error(why)),
        }
    }
}

fn read_rest(rest: &mut VecDeque<u8>, into: &mut [u8], takes: bool) -> usize {
    let count = rest.len().min(into.len());
    rest.iter().zip(&mut into[..]).for_each(|(from, to)| *to = *from);
    drop(rest.drain(..if takes { count } else { 0 }));
    count
}

impl Drop for Conn {
    fn drop(&mut self) {
        let id = self.id;
        let end = if self.aborts.load(Ordering::Relaxed) { tcp::abort } else { tcp::close };
        // One that has ended is not there any more.
        self.agents.ask(self.cpu, move |cx| end(cx.cpu, id)).ok();
        self.agents.told.forget(self.key);
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into, true)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.agents.patiently(self.0.key, &self.0.patience, || self.0.write_now(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Face for Netisrs {
    type Listener = Listener;
    type Stream = Stream;

    fn addrs(&self) -> [IpAddr; 2] {
        self.stacks.addrs()
    }

    fn bind_with(&self, addr: SocketAddr, terms: Terms) -> io::Result<Listener> {
        Listener::bind(&self.server, addr, terms, &[])
    }

    fn linger_not_at_all(stream: &Stream) {
        stream.0.aborts.store(true, Ordering::Relaxed);
    }

    fn connect(&self, addr: SocketAddr) -> io::Result<Stream> {
        Stream::connect(&self.client, addr, &[])
    }

    fn addr(listener: &Listener) -> SocketAddr {
        listener.addr
    }

    fn accept(listener: &Listener) -> io::Result<(Stream, SocketAddr)> {
        listener.accept()
    }

    fn set_listener_nonblocking(listener: &Listener) {
        listener.patience.set_nonblocking(true);
    }

    fn ends(stream: &Stream) -> [SocketAddr; 2] {
        [stream.0.ends.local(), stream.0.ends.remote()]
    }

    fn set_read_timeout(stream: &Stream, timeout: Option<Duration>) -> io::Result<()> {
        stream.0.patience.set_timeout(timeout)
    }

    fn set_nonblocking(stream: &Stream, nonblocking: bool) {
        stream.0.patience.set_nonblocking(nonblocking);
    }

    /// There is no call to shut down reading, and the waiting body is the test's own.
    fn shutdown(stream: &Stream, how: Shutdown) -> io::Result<()> {
        let Conn { agents, cpu, key, id, is_deaf, .. } = &*stream.0;
        if how != Shutdown::Write {
            is_deaf.store(true, Ordering::Relaxed);
            agents.told.tell(*key, |_| {});
        }
        let id = *id;
        match how {
            Shutdown::Read => Ok(()),
            _ => agents.ask(*cpu, move |cx| tcp::shutdown(cx.cpu, id)).map_err(io_error),
        }
    }

    fn peek(stream: &Stream, into: &mut [u8]) -> io::Result<usize> {
        stream.0.read(into, false)
    }

    fn clone(stream: &Stream) -> Stream {
        stream.clone()
    }
}
