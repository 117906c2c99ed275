//! Two namespaces with a wire between them, and a daemon in one.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use dev::netlink::{Link, Veth, VethEnd};
use dev::netns::{Netns, ScopedNetns};
use dev::sys::caps::{CapabilitySet, effective};
use dev::sys::tun::Tap;
use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take before the test has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where our addresses are; the neighbour's end in 2.
pub(crate) const OURS: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
pub(crate) const THEIRS: [&str; 2] = ["192.0.2.2", "2001:db8::2"];

/// What the wire is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wire {
    /// The daemon makes it: the host's end is in its own namespace.
    Tap,
    /// A veth pair with this many queues, whose far end is in the host's namespace.
    Veth { queues: u32 },
}

/// A daemon's namespace, a host's namespace, and a folder. All go with the value.
pub(crate) struct Lab {
    router: ScopedNetns,
    host: ScopedNetns,
    folder: PathBuf,
    wire: Wire,
}

/// A running daemon; killed if it has not been ended before.
pub(crate) struct Daemon<'l> {
    lab: &'l Lab,
    process: Child,
    said: Receiver<String>,
}

impl Lab {
    /// `None`, loudly, if this process may not make one.
    pub(crate) fn new(test: &str, wire: Wire) -> Option<Self> {
        let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        if !effective().is_ok_and(|held| held.contains(needed)) {
            harness::skip("needs root");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("pt-{test}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir(&folder).unwrap();
        let [router, host] = ["r", "h"].map(|end| ScopedNetns::create(&format!("{name}-{end}")).unwrap());
        let lab = Self { router, host, folder, wire };
        if let Wire::Veth { queues } = wire {
            lab.lay_veth(queues);
        }
        Some(lab)
    }

    fn lay_veth(&self, queues: u32) {
        let end = |name| VethEnd { name, mac: None };
        let mut netlink = self.router.netlink().unwrap();
        netlink.add_veth(&Veth { ends: [end("pt0"), end("far")], queues, mtu: None }).unwrap();
        netlink.move_to("far", &*self.host).unwrap();
        self.address_host();
    }

    /// Gives the host's end its addresses. A TAP's end is there once the daemon has made it.
    pub(crate) fn address_host(&self) {
        let (netns, end) = self.end();
        let mut netlink = netns.netlink().unwrap();
        netlink.set_up(end, true).unwrap();
        for net in ["192.0.2.2/24", "2001:db8::2/64"] {
            netlink.add_address(end, net.parse().unwrap()).unwrap();
        }
    }

    /// The host's end of the wire: whose namespace it is in, and its name.
    fn end(&self) -> (&Netns, &'static str) {
        match self.wire {
            Wire::Tap => (&self.router, "pt0"),
            Wire::Veth { .. } => (&self.host, "far"),
        }
    }

    /// The device in the daemon's configuration.
    pub(crate) fn device(&self) -> &'static str {
        match self.wire {
            Wire::Tap => "tap:pt0",
            Wire::Veth { .. } => "af_xdp:pt0",
        }
    }

    /// A configuration with one interface `lan`, with `more` below it.
    pub(crate) fn config(&self, more: &str) -> String {
        let (socket, device) = (self.socket().display().to_string(), self.device());
        format!(
            "socket = \"{socket}\"\n[[interface]]\nname = \"lan\"\ndevice = \"{device}\"\n\
             address = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n{more}\n"
        )
    }

    pub(crate) fn write(&self, config: &str) {
        std::fs::write(self.file(), config).unwrap();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("sock")
    }

    fn file(&self) -> PathBuf {
        self.folder.join("pantala.toml")
    }

    /// Starts a daemon with the configuration that was written last, and waits until it is ready.
    pub(crate) fn start(&self) -> Daemon<'_> {
        let mut process = self.up().stderr(Stdio::piped()).spawn().unwrap();
        let (tell, said) = channel();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let daemon = Daemon { lab: self, process, said };
        daemon.says("ready");
        daemon
    }

    /// Starts a daemon that is to fail.
    pub(crate) fn start_in_vain(&self) -> Output {
        self.up().output().unwrap()
    }

    fn up(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
        command.args(["up", "-v", "-c"]).arg(self.file());
        self.router.put(&mut command).unwrap();
        command
    }

    /// What the kernel says of an interface in the daemon's namespace.
    pub(crate) fn link(&self, name: &str) -> Option<Link> {
        self.router.netlink().unwrap().link(name).ok()
    }

    pub(crate) fn delete_link(&self, name: &str) {
        self.router.netlink().unwrap().delete_link(name).unwrap();
    }

    /// Makes the TAP, with one queue, so that it is there before the daemon and after it.
    pub(crate) fn keep_tap(&self) {
        let make = || Tap::open("pt0", 1).unwrap().set_persistent(true).unwrap();
        self.router.run(make).unwrap();
    }

    /// The host's kernel sends so many datagrams to `to`, where nobody listens.
    pub(crate) fn host_sends(&self, to: &str, datagrams: usize) {
        let (netns, _) = self.end();
        let socket = netns.run(|| UdpSocket::bind("192.0.2.2:0")).unwrap().unwrap();
        (0..datagrams).for_each(|_| _ = socket.send_to(b"burst", (to, 9)));
    }

    /// Whether the host's kernel gets an answer from `to`: a refusal, because nobody listens there.
    pub(crate) fn host_reaches(&self, to: &str) -> bool {
        let to = SocketAddr::new(to.parse().unwrap(), 9);
        let (netns, _) = self.end();
        let answer = netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
        answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Daemon<'_> {
    /// Waits for a line on its standard error that contains `words`.
    pub(crate) fn says(&self, words: &str) -> String {
        let mut heard = Vec::new();
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => heard.push(line),
                Err(_) => panic!("`{words}` was not said, but {heard:#?}"),
            }
        }
    }

    /// Runs `pantala WORDS` against it; both outputs, and whether it succeeded.
    pub(crate) fn run(&self, words: &str) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
        let socket = self.lab.socket();
        let output =
            command.arg("--socket").arg::<&Path>(&socket).args(words.split_whitespace()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    /// What a command that must succeed shows.
    pub(crate) fn shows(&self, words: &str) -> String {
        let (done, text) = self.run(words);
        assert!(done, "{words}: {text}");
        text
    }

    /// Asserts that it shows `line`, up to blanks.
    pub(crate) fn shows_line(&self, words: &str, line: &str) {
        let text = self.shows(words);
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.lines().any(|shown| plain(shown).contains(line)), "no `{line}` in {words}:\n{text}");
    }

    /// The value of a command that must succeed, with `--json`.
    pub(crate) fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.shows(&format!("{words} --json"))).unwrap()
    }

    /// The interface `lan`.
    pub(crate) fn interface(&self) -> serde_json::Value {
        let all = self.json("ifconfig");
        all.as_array().unwrap().iter().find(|interface| interface["name"] == "lan").unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ends it by a signal; answers whether it ended with success.
    pub(crate) fn end(mut self, signal: Signal) -> bool {
        self.signal(signal);
        self.process.wait().unwrap().success()
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
