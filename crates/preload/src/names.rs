//! Host names, by DNS over sockets of pantala.
//!
//! Names are asked for where `/etc/resolv.conf` or `pantala run --dns` says, if pantala has a route there. Names of `/etc/hosts`,
//! those of `.local` and all without such a server are libc's to look up.
//!
//! # Spec
//! RFC 1035 §4, §7; resolv.conf(5).

use core::hash::{BuildHasher, Hasher};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::hash_map::RandomState;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use program::daemon::{ask, first_options, may_be_ours};
use program::stream::{is_ready, outcome};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE};
use wire::program::{NO_ADDR, Request, Transport};

const PORT: u16 = 53;
/// Servers that are asked, and domains that are searched, at the most (resolv.conf(5)).
const SERVERS_MAX: usize = 3;
const SEARCH_MAX: usize = 6;
/// Bytes of an answer at the most: over UDP, and over TCP.
const UDP_MAX: usize = 4096;
const TCP_MAX: usize = 1 << 16;

/// The result of a lookup.
pub(crate) enum Lookup {
    /// Addresses, IPv6 first; those without a route last.
    Found(Vec<IpAddr>),
    /// There is no such name, or it has no address.
    Missing,
    /// No server has answered.
    Again,
    /// It is libc's to look up.
    Elsewhere,
}

/// The families of addresses that are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Families {
    pub(crate) v4: bool,
    pub(crate) v6: bool,
}

/// The configuration of the resolver.
struct Resolver {
    servers: Vec<SocketAddr>,
    search: Vec<String>,
    ndots: usize,
    within: Duration,
    attempts: usize,
}

/// An answer to a question.
struct Answer {
    exists: bool,
    addrs: Vec<IpAddr>,
}

/// Looks a name up.
pub(crate) fn look_up(name: &str, families: Families) -> Lookup {
    if is_of_this_host(name) || is_in_hosts(name) {
        return Lookup::Elsewhere;
    }
    let resolver = Resolver::read();
    if resolver.servers.is_empty() {
        return Lookup::Elsewhere;
    }
    for candidate in resolver.candidates(name) {
        let types = [(families.v6, TYPE::AAAA), (families.v4, TYPE::A)];
        let mut found = Vec::new();
        for (_, wanted) in types.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            let Some(answer) = resolver.ask(&candidate, wanted) else { return Lookup::Again };
            found.extend(answer.addrs);
            // A name that there is not has no address of either family.
            if !answer.exists {
                break;
            }
        }
        if !found.is_empty() {
            found.sort_by_key(|addr| ask(&Request::Route(*addr)).is_err());
            return Lookup::Found(found);
        }
    }
    Lookup::Missing
}

/// Names that no server is asked for (RFC 6761 §6.3, RFC 6762 §3).
fn is_of_this_host(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    ["localhost", "local"].iter().any(|end| {
        name.strip_suffix(end)
            .is_some_and(|front| front.ends_with('.') || front.is_empty() && *end == "localhost")
    })
}

fn is_in_hosts(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    hosts
        .lines()
        .map(without_comment)
        .any(|line| line.split_whitespace().skip(1).any(|known| known.eq_ignore_ascii_case(name)))
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

impl Resolver {
    /// Reads it. Only servers to which pantala has a route are in it.
    fn read() -> Self {
        let mut own = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            within: Duration::from_secs(5),
            attempts: 2,
        };
        let file = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        file.lines().for_each(|line| own.line(line));
        if let Ok(named) = std::env::var("PANTALA_DNS")
            && !named.is_empty()
        {
            own.servers =
                named.split(',').filter_map(|ip| Some((ip.parse::<IpAddr>().ok()?, PORT).into())).collect();
        }
        own.servers.truncate(SERVERS_MAX);
        own.servers.retain(|server| may_be_ours(*server) && ask(&Request::Route(server.ip())).is_ok());
        own
    }

    /// Reads a line of resolv.conf(5).
    fn line(&mut self, line: &str) {
        let mut words = line.split(['#', ';']).next().unwrap_or_default().split_whitespace();
        match words.next() {
            Some("nameserver") => {
                let ip = words.next().and_then(|ip| ip.parse::<IpAddr>().ok());
                self.servers.extend(ip.map(|ip| SocketAddr::from((ip, PORT))));
            }
            Some("search" | "domain") => self.search = words.take(SEARCH_MAX).map(str::to_owned).collect(),
            Some("options") => words.for_each(|option| self.option(option)),
            _ => {}
        }
    }

    fn option(&mut self, option: &str) {
        let Some((key, Ok(number))) = option.split_once(':').map(|(key, n)| (key, n.parse::<u32>())) else {
            return;
        };
        match key {
            "ndots" => self.ndots = number.min(15) as usize,
            "timeout" => self.within = Duration::from_secs(number.clamp(1, 30).into()),
            "attempts" => self.attempts = number.clamp(1, 5) as usize,
            _ => {}
        }
    }

    /// The names that `name` may mean, in order.
    fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let searched = self.search.iter().map(|domain| format!("{name}.{}", domain.trim_matches('.')));
        let is_whole_first = name.matches('.').count() >= self.ndots;
        let (first, last) = if is_whole_first { (Some(name), None) } else { (None, Some(name)) };
        first.map(str::to_owned).into_iter().chain(searched).chain(last.map(str::to_owned)).collect()
    }

    /// Asks the servers in turn; `None` if none answers.
    fn ask(&self, name: &str, wanted: TYPE) -> Option<Answer> {
        let rounds = core::iter::repeat_n(&self.servers, self.attempts).flatten();
        rounds.into_iter().find_map(|server| question(*server, name, wanted, self.within).ok().flatten())
    }
}

/// Asks a server; `None`: it does not say.
fn question(server: SocketAddr, name: &str, wanted: TYPE, within: Duration) -> Result<Option<Answer>, Errno> {
    // Names that DNS cannot have are not there.
    let Ok(asked) = Name::new(name) else { return Ok(Some(Answer { exists: false, addrs: Vec::new() })) };
    let id = RandomState::new().build_hasher().finish().to_ne_bytes();
    let id = u16::from_ne_bytes([id[0], id[1]]);
    let mut query = Packet::new_query(id);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    query.questions.push(Question::new(asked, wanted.into(), CLASS::IN.into(), false));
    let query = query.build_bytes_vec().map_err(|_| Errno::INVAL)?;
    let until = Instant::now() + within;
    let socket = connected(Transport::Udp, server)?;
    send(&socket, &query, SendFlags::NOSIGNAL)?;
    let mut bytes = vec![0; UDP_MAX];
    loop {
        wait(&socket, PollFlags::IN, until)?;
        let (_, count) = recv(&socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
        if count == 0 {
            return Err(Errno::NETDOWN);
        }
        match answer(bytes.get(..count).unwrap_or_default(), id, name, wanted) {
            // Another one's, or an old one: the right one may still come.
            Heard::Other => {}
            Heard::Cut => {
                return over_tcp(server, &query, until).map(|bytes| match answer(&bytes, id, name, wanted) {
                    Heard::Answer(answer) => Some(answer),
                    _ => None,
                });
            }
            Heard::Refused => return Ok(None),
            Heard::Answer(answer) => return Ok(Some(answer)),
        }
    }
}

/// Asks over TCP what did not fit (RFC 7766 §5).
fn over_tcp(server: SocketAddr, query: &[u8], until: Instant) -> Result<Vec<u8>, Errno> {
    let socket = connected(Transport::Tcp, server)?;
    wait(&socket, PollFlags::OUT, until)?;
    if let Some(why) = outcome(socket.as_fd()) {
        return Err(why);
    }
    let len = u16::try_from(query.len()).map_err(|_| Errno::MSGSIZE)?;
    let whole = [&len.to_be_bytes()[..], query].concat();
    send(&socket, &whole, SendFlags::NOSIGNAL)?;
    let mut got = Vec::new();
    let mut bytes = vec![0; 4096];
    loop {
        let wanted = got.first_chunk().map_or(2, |len| 2 + usize::from(u16::from_be_bytes(*len)));
        if got.len() >= wanted && got.len() >= 2 {
            return Ok(got.get(2..wanted).unwrap_or_default().to_vec());
        }
        wait(&socket, PollFlags::IN, until)?;
        let (_, count) = recv(&socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
        if count == 0 || got.len() > TCP_MAX {
            return Err(Errno::CONNRESET);
        }
        got.extend_from_slice(bytes.get(..count).unwrap_or_default());
    }
}

fn connected(transport: Transport, remote: SocketAddr) -> Result<OwnedFd, Errno> {
    let options = first_options();
    let answer = ask(&Request::Connect { transport, id: 0, local: NO_ADDR, remote, options })?;
    answer.descriptor.ok_or(Errno::MFILE)
}

fn wait(socket: &OwnedFd, what: PollFlags, until: Instant) -> Result<(), Errno> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match is_ready(socket.as_fd(), what, Some(left)) {
            Ok(true) => return Ok(()),
            Ok(false) => return Err(Errno::TIMEDOUT),
            Err(Errno::INTR) => {}
            Err(why) => return Err(why),
        }
    }
}

/// What a message says to a question.
enum Heard {
    Other,
    Cut,
    Refused,
    Answer(Answer),
}

fn answer(bytes: &[u8], id: u16, name: &str, wanted: TYPE) -> Heard {
    let Ok(packet) = Packet::parse(bytes) else { return Heard::Other };
    let is_ours = packet.id() == id
        && packet.has_flags(PacketFlag::RESPONSE)
        && packet.questions.iter().any(|asked| is_same(&asked.qname, name) && asked.qtype == wanted.into());
    if !is_ours {
        return Heard::Other;
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Heard::Cut;
    }
    let exists = match packet.rcode() {
        RCODE::NoError => true,
        RCODE::NameError => false,
        _ => return Heard::Refused,
    };
    // Aliases stand before what they lead to.
    let mut names = vec![name.to_owned()];
    let mut addrs = Vec::new();
    for record in &packet.answers {
        if record.class != CLASS::IN || !names.iter().any(|known| is_same(&record.name, known)) {
            continue;
        }
        match &record.rdata {
            RData::CNAME(alias) => names.push(alias.0.to_string()),
            RData::A(a) => addrs.push(Ipv4Addr::from(a.address).into()),
            RData::AAAA(aaaa) => addrs.push(Ipv6Addr::from(aaaa.address).into()),
            _ => {}
        }
    }
    Heard::Answer(Answer { exists, addrs })
}

fn is_same(one: &Name<'_>, other: &str) -> bool {
    one.to_string().trim_end_matches('.').eq_ignore_ascii_case(other.trim_end_matches('.'))
}
