//! The programs that make the load, and their accounts.

use core::time::Duration;
use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::lab::{END_LIMIT, Tools, gentle, v4, v6};
use crate::peers::process::Running;

/// Packets a second that the generator sends, and for how long before it begins anew.
const GENERATED: [&str; 4] = ["--rate", "500pps", "--time", "20s"];
const START_LIMIT: Duration = Duration::from_secs(20);

/// Why an exchange broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A reset: `tcpdrop`, a relay that has no memory left, a rule.
    Reset,
    Refused,
    /// The web server had no memory left for it (503).
    NoRoom,
    /// The peer closed the connection too soon.
    EndedEarly,
    /// No reply to a datagram came in time, or a frame did not.
    Lost,
    /// The time-out passed, and then the bytes came: the machine was busy.
    Late,
    /// The time-out passed, and nothing came for as long again.
    Silent,
    Other,
}

impl Cause {
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reset => "reset (tcpdrop, relays without memory, rules)",
            Self::Refused => "refused",
            Self::NoRoom => "no room (503)",
            Self::EndedEarly => "ended early",
            Self::Lost => "no reply to a datagram in time, or a frame lost",
            Self::Late => "timed out, and came later (a busy machine)",
            Self::Silent => "timed out, and nothing came later",
            Self::Other => "other",
        }
    }
}

/// The results of one kind of exchange.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Account {
    pub name: String,
    /// As it should.
    pub well: u64,
    /// It was refused, reset, or not answered in time.
    pub broken: u64,
    /// It brought other bytes than were sent, or what rules deny.
    pub wrong: u64,
    /// How those broke, and how often.
    #[serde(default)]
    pub why: BTreeMap<String, u64>,
    /// The same by cause. The program with a stack gives none.
    #[serde(default)]
    pub causes: BTreeMap<Cause, u64>,
}

#[derive(Default)]
pub struct Loads {
    server: Option<Running>,
    clients: Vec<Running>,
    generator: Option<Running>,
    generated: Account,
    tools: Option<Tools>,
}

impl Loads {
    pub fn begin(&mut self, tools: &Tools) -> Result<()> {
        self.tools = Some(tools.clone());
        let server = agent(tools, "b", "server", &[v4(2, 2), v6(2, 2)])?;
        self.server = Some(Running::start("soak-server", server)?);
        let client = [v4(1, 1), v4(2, 2), v4(3, 2), v6(1, 1), v6(2, 2), v6(3, 2)];
        for (netns, role, addresses) in [
            ("a", "client", &client[..]),
            ("b", "knocker", &[v6(1, 2)]),
            ("f", "lonely", &[v4(4, 1), v6(4, 1)]),
        ] {
            let mut running = Running::start(&format!("soak-{role}"), agent(tools, netns, role, addresses)?)?;
            running.says("[", START_LIMIT)?;
            self.clients.push(running);
        }
        Ok(())
    }

    /// Fails if something has ended that should run; a generator that is done begins anew.
    pub fn is_alive(&mut self) -> Result<()> {
        self.server.iter_mut().chain(&mut self.clients).try_for_each(Running::is_alive)?;
        let is_running = self.generator.as_mut().is_some_and(|running| running.is_alive().is_ok());
        if !is_running && let Some(tools) = self.tools.clone() {
            self.count_generated();
            self.generator = Some(Running::start("soak-pktgen", generator(&tools))?);
        }
        Ok(())
    }

    fn count_generated(&mut self) {
        let Some(generator) = self.generator.take() else { return };
        "generator: frames".clone_into(&mut self.generated.name);
        match generator.finish(END_LIMIT).and_then(|said| frames(&said)) {
            Ok((sent, received)) => {
                self.generated.well += received;
                let lost = sent.saturating_sub(received);
                self.generated.broken += lost;
                *self.generated.causes.entry(Cause::Lost).or_default() += lost;
            }
            Err(error) => {
                eprintln!("soak: the generator: {error:#}");
                self.generated.broken += 1;
                *self.generated.causes.entry(Cause::Other).or_default() += 1;
                *self.generated.why.entry(format!("{error:#}")).or_default() += 1;
            }
        }
    }

    /// Ends the load: clients first, so that their servers hear the end of each exchange.
    pub fn end(&mut self) -> Vec<Account> {
        self.tools = None;
        self.count_generated();
        self.clients.iter().for_each(|client| client.signal(Signal::INT));
        let mut accounts: Vec<Account> =
            self.clients.drain(..).flat_map(|client| account(client.finish(END_LIMIT))).collect();
        self.server = None;
        if !self.generated.name.is_empty() {
            accounts.push(core::mem::take(&mut self.generated));
        }
        accounts
    }
}

/// Tells the program with a stack to rest, and answers its account.
pub fn quiet(library: &mut Running) -> Vec<Account> {
    let told = library.tell("rest\n").and_then(|()| library.says("resting", END_LIMIT));
    if let Err(error) = told {
        eprintln!("soak: {error:#}");
    }
    account(library.said())
}

/// The last account that an agent has given.
fn account(said: Result<String>) -> Vec<Account> {
    let read = said.and_then(|text| {
        let line = text.lines().rev().find(|line| line.starts_with('[')).context("it gave no account")?;
        Ok(serde_json::from_str(line)?)
    });
    read.unwrap_or_else(|error: anyhow::Error| {
        eprintln!("soak: {error:#}");
        vec![Account { name: format!("{error:#}"), wrong: 1, ..Account::default() }]
    })
}

fn agent(tools: &Tools, netns: &str, role: &str, addresses: &[String]) -> Result<Command> {
    let mut command = gentle(Some(&tools.netns(netns)));
    command.arg(std::env::current_exe()?).args(["soak", "--agent", role]).args(addresses);
    Ok(command)
}

fn generator(tools: &Tools) -> Command {
    let mut command = gentle(Some(&tools.netns("g")));
    command.arg(&tools.program).args(["--json", "pktgen", "-i", "af_xdp:gen0", "--rx", "af_xdp:gen1"]);
    command.args(["--addr", &format!("{}/24", v4(5, 2)), "--gateway", &v4(5, 1)]);
    command.args(["--dst", &format!("{}/28", v4(6, 16)), "--size", "imix"]).args(GENERATED);
    command
}

/// Frames sent and received, as the generator says.
fn frames(said: &str) -> Result<(u64, u64)> {
    let from = said.find('{').context("it said nothing")?;
    let json: serde_json::Value =
        serde_json::Deserializer::from_str(&said[from..]).into_iter().next().context("no account")??;
    let number = |what: &str| json[what]["frames"].as_u64().with_context(|| format!("no {what}.frames"));
    Ok((number("sent")?, number("received")?))
}
