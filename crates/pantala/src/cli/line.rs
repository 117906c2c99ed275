//! The top level of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand};

use super::{
    Failure, Session, check, config, dhcp, drill, extcap, ifconfig, init, intrctl, ip, ipfw, neighbours,
    netstat, ping, ps, route, run, serve, sysctl, tcpdrop, tcpdump, trace, up, why,
};
use crate::api::client::Client;
use crate::api::{DEFAULT_SOCKET, ReloadRequest, Reloaded};
use crate::config::DEFAULT_FILE;
use crate::daemon::log::Level;
use crate::term::Term;
use crate::{demo, doctor, iperf, pktgen, top};

/// A network stack for Linux in user space.
#[derive(Debug, Parser)]
#[command(name = "pantala", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 the command line was not understood.")]
pub(crate) struct Line {
    /// Control socket of the running pantala [default: $PANTALA_SOCKET or /run/pantala/control.sock]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON with stable keys instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the stack in the foreground until it is interrupted
    Up {
        /// The configuration
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
        config: PathBuf,
        /// Take interfaces even if they carry the kernel's default route or your ssh session
        #[arg(long)]
        force: bool,
        /// Say only what is wrong
        #[arg(short, long, conflicts_with = "verbose")]
        quiet: bool,
        /// Say more
        #[arg(short, long)]
        verbose: bool,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// Serve a folder to the web, from a stack of its own
    #[command(after_help = serve::HELP)]
    Serve(serve::Serve),
    /// Write a commented configuration from what this machine has
    #[command(after_help = init::HELP)]
    Init(init::Init),
    /// Check a configuration file and change nothing
    Check {
        /// The file
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
        config: PathBuf,
    },
    /// Say what of this machine keeps pantala from working well, and how to change it
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Doctor),
    /// Build a small real network on this machine, show packets flowing through pantala, leave nothing behind
    Demo {
        /// Megabytes of each TCP transfer
        #[arg(long, value_name = "MB", default_value_t = 200)]
        megabytes: u32,
    },
    /// Send packets of any kind at any rate, and say what became of them: loss, order, latency
    #[command(after_help = pktgen::HELP)]
    Pktgen(Box<pktgen::Args>),
    /// Benchmark a device under test between two devices: throughput, latency, loss, bursts, recovery (RFC 2544)
    #[command(after_help = pktgen::rfc2544::HELP)]
    Rfc2544(Box<pktgen::rfc2544::Args>),
    /// Measure throughput, loss and jitter over TCP and UDP, with the protocol of iperf3
    #[command(after_help = iperf::HELP)]
    Iperf(Box<iperf::Iperf>),
    /// Run packetdrill scripts against the stack, in virtual time
    #[command(after_help = drill::HELP)]
    Drill(drill::Drill),
    /// Run an unmodified program on the running pantala
    #[command(after_help = run::HELP)]
    Run(run::Run),
    /// Make the running pantala read its configuration again
    #[command(after_help = RELOAD_HELP)]
    Reload {
        /// Roll back after this time unless `reload --confirmed` comes
        #[arg(long, value_name = "SECONDS")]
        confirm: Option<u32>,
        /// Confirm the last reload; nothing is read
        #[arg(long, conflicts_with = "confirm")]
        confirmed: bool,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// Show, save and undo changes of the running configuration
    #[command(after_help = config::HELP)]
    Config {
        #[command(subcommand)]
        command: config::Config,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// Show and change interfaces
    #[command(override_usage = ifconfig::USAGE, after_help = ifconfig::HELP)]
    Ifconfig(Words),
    /// Show and change interfaces with the words of iproute2
    #[command(override_usage = ip::USAGE, after_help = ip::HELP)]
    Ip(Words),
    /// Show connections, interfaces' counters, routes, statistics, buffers, netisrs
    #[command(override_usage = netstat::USAGE, after_help = netstat::HELP)]
    Netstat(Words),
    /// Show CPUs, interfaces, drops, flows, rules and connections as they change
    #[command(after_help = top::HELP)]
    Top {
        #[command(flatten)]
        args: top::Args,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// End TCP connections
    #[command(override_usage = tcpdrop::USAGE, after_help = tcpdrop::HELP)]
    Tcpdrop(Words),
    /// Capture packets, and print or write them
    #[command(override_usage = tcpdump::USAGE, after_help = tcpdump::HELP)]
    Tcpdump(Words),
    /// Capture packets for Wireshark
    #[command(override_usage = extcap::USAGE, after_help = extcap::HELP)]
    Extcap(Words),
    /// Say what happens to a packet, step by step, without sending it
    #[command(override_usage = why::USAGE, after_help = why::HELP)]
    Why(Words),
    /// Show the next packets on their way through the stack, step by step
    #[command(override_usage = trace::USAGE, after_help = trace::HELP)]
    Trace(Words),
    /// Show variables of the stack and change them
    #[command(override_usage = sysctl::USAGE, after_help = sysctl::HELP)]
    Sysctl(Words),
    /// Show rings and whose they are; move them to other CPUs
    #[command(override_usage = intrctl::USAGE, after_help = intrctl::HELP)]
    Intrctl(Words),
    /// Show and change the firewall's rules
    #[command(override_usage = ipfw::USAGE, after_help = ipfw::HELP)]
    Ipfw(Words),
    /// Show and change the routing table
    #[command(override_usage = route::USAGE, after_help = route::HELP)]
    Route(Words),
    /// Show and change the IPv4 neighbours
    #[command(override_usage = neighbours::ARP_USAGE, after_help = neighbours::ARP_HELP)]
    Arp(Words),
    /// Show and change the IPv6 neighbours
    #[command(override_usage = neighbours::NDP_USAGE, after_help = neighbours::NDP_HELP)]
    Ndp(Words),
    /// Show DHCP servers with their leases, and DHCP clients
    #[command(override_usage = dhcp::USAGE, after_help = dhcp::HELP)]
    Dhcp(Words),
    /// Send echo requests from the running stack
    #[command(override_usage = ping::USAGE, after_help = ping::HELP)]
    Ping(Words),
    /// Show unmodified programs that have sockets of the running stack
    #[command(override_usage = ps::USAGE, after_help = ps::HELP)]
    Ps(Words),
}

const RELOAD_HELP: &str = "\
With --confirm the configuration before is in force again after SECONDS, unless
it is confirmed: a change that cuts off its administrator ends by itself.

Examples:
  pantala reload
  pantala reload --confirm 60
  pantala reload --confirmed";

#[derive(Debug, Args)]
pub(crate) struct Words {
    /// Flags and operands in BSD's grammar, as the command's usage lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS", hide = true)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    control: ControlSocket,
}

/// The option of every command that speaks to a running stack, or is one.
#[derive(Debug, Args)]
pub(crate) struct ControlSocket {
    /// Control socket of the running pantala [default: $PANTALA_SOCKET or /run/pantala/control.sock]
    #[arg(long = "socket", id = "control_socket", value_name = "PATH")]
    path: Option<PathBuf>,
}

/// Why there is no command to carry out.
pub(crate) enum Stop {
    /// Help or the version was asked for.
    Help(String),
    /// The line was not understood.
    Usage(String),
}

impl Line {
    pub(crate) fn read(arguments: &[OsString]) -> Result<Self, Stop> {
        let mut line = Self::try_parse_from(arguments).map_err(stop)?;
        if let Some(words) = line.command.words() {
            let taken = take_options(core::mem::take(words))?;
            *words = taken.rest;
            if taken.help {
                let help = arguments.iter().take(2).cloned().chain(["--help".into()]);
                Self::try_parse_from(help).map_err(stop)?;
            }
            line.json |= taken.json;
            line.socket = taken.socket.or(line.socket);
        }
        match line.command.control() {
            Some(control) => line.socket = control.path.take().or(line.socket),
            None if line.socket.is_some() => {
                return Err(Stop::Usage(
                    "pantala: this command uses no control socket; leave --socket out".into(),
                ));
            }
            None => {}
        }
        Ok(line)
    }

    /// The control socket, if the command line or the environment names one.
    fn socket_named(&self) -> Option<PathBuf> {
        self.socket.clone().or_else(|| std::env::var_os("PANTALA_SOCKET").map(PathBuf::from))
    }

    fn session<'t>(&self, term: &'t mut Term) -> Result<Session<'t>, Failure> {
        let socket = self.socket_named().unwrap_or_else(|| DEFAULT_SOCKET.into());
        let client = Client::new(&socket).map_err(|why| Failure::Failed(why.to_string()))?;
        Ok(Session { client, json: self.json, term })
    }
}

/// Commands of other systems, and the one to use here.
const FOREIGN: &[(&str, &str)] = &[
    ("ss", "`pantala netstat -an`, or `-anT` for `ss -ti`"),
    ("nft", "`pantala ipfw`"),
    ("iptables", "`pantala ipfw`"),
    ("pfctl", "`pantala ipfw`"),
    ("ipnat", "`pantala ipfw nat`"),
    ("dnctl", "`pantala ipfw pipe`"),
    ("tc", "`pantala ipfw pipe`, or `netstat -o` for output queues"),
    ("ethtool", "`pantala ifconfig IF` and `intrctl list`"),
    ("sockstat", "`pantala netstat -an`"),
    ("cpuset", "`pantala intrctl affinity`"),
];

fn stop(error: clap::Error) -> Stop {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return Stop::Help(text);
    }
    let unknown = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    match FOREIGN.iter().find(|(foreign, _)| *foreign == unknown) {
        Some((word, here)) => Stop::Usage(format!("error: unrecognized command '{word}'\n\nuse {here}\n")),
        None => Stop::Usage(text),
    }
}

impl Command {
    /// The arguments of a command that reads its own flags, as BSD's do.
    fn arguments(&mut self) -> Option<&mut Words> {
        match self {
            Self::Up { .. }
            | Self::Serve(_)
            | Self::Init(_)
            | Self::Check { .. }
            | Self::Doctor(_)
            | Self::Demo { .. }
            | Self::Pktgen(_)
            | Self::Rfc2544(_)
            | Self::Drill(_)
            | Self::Iperf(_)
            | Self::Top { .. }
            | Self::Run(_)
            | Self::Config { .. }
            | Self::Reload { .. } => None,
            Self::Ifconfig(words)
            | Self::Ip(words)
            | Self::Netstat(words)
            | Self::Tcpdrop(words)
            | Self::Tcpdump(words)
            | Self::Extcap(words)
            | Self::Why(words)
            | Self::Trace(words)
            | Self::Sysctl(words)
            | Self::Intrctl(words)
            | Self::Ipfw(words)
            | Self::Route(words)
            | Self::Arp(words)
            | Self::Ndp(words)
            | Self::Dhcp(words)
            | Self::Ping(words)
            | Self::Ps(words) => Some(words),
        }
    }

    fn words(&mut self) -> Option<&mut Vec<String>> {
        self.arguments().map(|arguments| &mut arguments.words)
    }

    /// The control socket as named behind the command; `None` if the command uses none.
    fn control(&mut self) -> Option<&mut ControlSocket> {
        match self {
            Self::Up { control, .. }
            | Self::Top { control, .. }
            | Self::Config { control, .. }
            | Self::Reload { control, .. } => Some(control),
            Self::Serve(serve) => Some(&mut serve.stack.control),
            Self::Iperf(iperf) => Some(&mut iperf.stack.control),
            other => other.arguments().map(|arguments| &mut arguments.control),
        }
    }
}

/// The global options, which may also stand among the words.
#[derive(Default)]
struct Taken {
    json: bool,
    help: bool,
    socket: Option<PathBuf>,
    rest: Vec<String>,
}

fn take_options(words: Vec<String>) -> Result<Taken, Stop> {
    let mut taken = Taken::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match (word.as_str(), word.strip_prefix("--socket=")) {
            ("--json", _) => taken.json = true,
            ("--help", _) => taken.help = true,
            ("--socket", _) => {
                let missing = || Stop::Usage("pantala: --socket needs a path".to_owned());
                taken.socket = Some(words.next().ok_or_else(missing)?.into());
            }
            (_, Some(path)) => taken.socket = Some(path.into()),
            _ => taken.rest.push(word),
        }
    }
    Ok(taken)
}

pub(crate) fn carry_out(mut line: Line, term: &mut Term) -> Result<(), Failure> {
    let words = line.command.words().map(core::mem::take).unwrap_or_default();
    if let Command::Up { config, force, quiet, verbose, .. } = &line.command {
        return up::run(config, line.socket_named(), *force, level(*quiet, *verbose));
    }
    if let Command::Serve(serve) = &line.command {
        return serve.run(line.socket_named());
    }
    if let Command::Init(init) = &line.command {
        return init.run(term);
    }
    if let Command::Check { config } = &line.command {
        return check::run(config, line.json, term);
    }
    if let Command::Doctor(doctor) = &line.command {
        return doctor.run(line.json, term);
    }
    if let Command::Demo { megabytes } = line.command {
        let options = demo::Options { transfer_bytes: u64::from(megabytes) * 1_000_000, json: line.json };
        return demo::run(&options, term);
    }
    if let Command::Drill(drill) = &line.command {
        return drill.run(line.json, term);
    }
    if let Command::Iperf(iperf) = &line.command {
        return iperf.run(line.socket_named(), line.json, term);
    }
    if let Command::Run(run) = line.command {
        return run.run();
    }
    if let Command::Pktgen(args) = line.command {
        return pktgen::run(*args, line.json, term);
    }
    if let Command::Rfc2544(args) = line.command {
        return pktgen::rfc2544::run(*args, line.json, term);
    }
    let session = &mut line.session(term)?;
    match line.command {
        Command::Up { .. }
        | Command::Serve(_)
        | Command::Init(_)
        | Command::Check { .. }
        | Command::Doctor(_)
        | Command::Demo { .. }
        | Command::Pktgen(_)
        | Command::Rfc2544(_)
        | Command::Drill(_)
        | Command::Iperf(_)
        | Command::Run(_) => Ok(()),
        Command::Top { args, .. } => args.run(session),
        Command::Reload { confirm, confirmed, .. } => reload(session, confirm, confirmed),
        Command::Config { command, .. } => command.run(session),
        Command::Ip(_) => ip::read(&words)?.run(session),
        Command::Ifconfig(_) => ifconfig::Ifconfig::read(&words)?.run(session),
        Command::Netstat(_) => netstat::Netstat::read(&words)?.run(session),
        Command::Tcpdrop(_) => tcpdrop::Tcpdrop::read(&words)?.run(session),
        Command::Tcpdump(_) => tcpdump::Tcpdump::read(&words)?.run(session),
        Command::Extcap(_) => extcap::Extcap::read(&words)?.run(session),
        Command::Why(_) => why::Why::read(&words)?.run(session),
        Command::Trace(_) => trace::Trace::read(&words)?.run(session),
        Command::Sysctl(_) => sysctl::Line::read(&words)?.run(session),
        Command::Intrctl(_) => intrctl::Intrctl::read(&words)?.run(session),
        Command::Ipfw(_) => ipfw::Ipfw::read(&words)?.run(session),
        Command::Route(_) => route::Route::read(&words)?.run(session),
        Command::Arp(_) => neighbours::Neighbours::arp(&words)?.run(session),
        Command::Ndp(_) => neighbours::Neighbours::ndp(&words)?.run(session),
        Command::Dhcp(_) => dhcp::Dhcp::read(&words)?.run(session),
        Command::Ping(_) => ping::Ping::read(&words)?.run(session),
        Command::Ps(_) => ps::Ps::read(&words)?.run(session),
    }
}

fn level(quiet: bool, verbose: bool) -> Level {
    match (quiet, verbose) {
        (true, _) => Level::Warning,
        (_, true) => Level::Debug,
        _ => Level::Info,
    }
}

fn reload(session: &mut Session<'_>, confirm_s: Option<u32>, confirmed: bool) -> Result<(), Failure> {
    let request = ReloadRequest { confirm_s, confirmed };
    let reloaded: Reloaded = session.client.post("/v1/reload", &request)?;
    if confirmed { session.done("confirmed\n") } else { config::changes(session, &reloaded) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_texts_fit_a_terminal_of_80_columns() {
        let line = Line::command();
        for command in line.get_subcommands() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let usage = command.clone().render_usage().to_string();
            for line in after.lines().chain(usage.lines()) {
                assert!(line.len() < 80, "{}: {line}", command.get_name());
            }
        }
    }

    #[test]
    fn the_usage_of_a_bsd_command_lists_its_flags() {
        for mut command in Line::command().get_subcommands().cloned() {
            let usage = command.render_usage().to_string();
            assert!(!usage.contains("WORDS"), "{usage}");
        }
    }
}
