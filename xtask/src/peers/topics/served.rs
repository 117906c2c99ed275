//! `pantala serve` beside nginx on the kernel: the same `wrk` asks both, from the kernel's side of a wire.
//!
//! Server and `wrk` have a CPU each. The kernel processes received packets on the CPU of their receiver
//! (RPS), for nginx and `wrk` alike.

pub(super) mod host;
mod wrk;

use core::time::Duration;

use anyhow::{Result, ensure};

use self::host::{Server, ServerKind, Wires};
use self::wrk::Load;
use crate::peers::contest::{Case, Claim, Contest, Need, Sample};
use crate::peers::machine;
use crate::run::{cargo, follow, gist, has};

const BUILD_LIMIT: Duration = Duration::from_secs(1200);
/// Seconds that `wrk` asks for in a launch: it counts in whole ones.
const SECONDS: u64 = 2;
/// Rounds of each.
const ROUNDS: usize = 10;
/// CPU time of a request beside the kernel's: what `served` is to show.
const HALF: f64 = 0.5;

/// Processor time of a request: the server's threads, with the interrupts that they are charged with, and the kernel's thread
/// for packets of that CPU.
const SERVER: &str = "server's processor time, us a request";
const SD: &str = "latency: standard deviation, us";

pub fn contests() -> Vec<Contest> {
    let close = |id, connections| beside(id, Load { connections, ..Load::CLOSE });
    vec![
        close("served/close-16", 16),
        close("served/close-64", 64),
        close("served/close-1000", 1000),
        beside("served/ask-64", Load { connections: 64, ..Load::ASK }),
        bulk(),
    ]
}

/// pantala over TAP and AF_XDP, with and without spinning, with a firewall, and nginx.
fn beside(id: &'static str, load: Load) -> Contest {
    let all = [
        ServerKind::Tap,
        ServerKind::Xdp,
        ServerKind::States,
        ServerKind::TapAsleep,
        ServerKind::XdpAsleep,
        ServerKind::Nginx,
    ];
    let figure = |of, to, figure, need| Claim::FigureRatio { of, to, figure, need };
    let mut claims = vec![
        Claim::Ratio { of: 0, to: 5, need: Need::Shown },
        Claim::Ratio { of: 1, to: 5, need: Need::Shown },
        Claim::Ratio { of: 2, to: 1, need: Need::Shown },
        // Polling beside interrupts.
        Claim::Ratio { of: 0, to: 3, need: Need::Shown },
        Claim::Ratio { of: 1, to: 4, need: Need::Shown },
        figure(0, 3, SD, None),
        figure(1, 4, SD, None),
        figure(0, 5, SERVER, Some(HALF)),
        figure(1, 5, SERVER, Some(HALF)),
        figure(2, 1, SERVER, None),
        figure(3, 5, SERVER, Some(HALF)),
        figure(4, 5, SERVER, Some(HALF)),
    ];
    let spread = (load.connections >= 64 && load.closes).then_some(HALF);
    claims.extend([0, 1, 3, 4].map(|of| figure(of, 5, SD, spread)));
    let title = format!("1 KB objects, {} at a time, {}", load.connections, load.describe());
    contest(id, title, "requests", all.map(|who| Served { who, load }).into(), claims)
}

/// One stream of large objects.
fn bulk() -> Contest {
    let all = [ServerKind::Tap, ServerKind::Xdp, ServerKind::Nginx, ServerKind::NginxPlain];
    let claims = vec![
        Claim::Ratio { of: 0, to: 2, need: Need::AtLeast(1.0) },
        Claim::Ratio { of: 1, to: 3, need: Need::Shown },
    ];
    let title = "objects of 16 MB, one after the other, in one stream".to_owned();
    contest("served/bulk", title, "bits", all.map(|who| Served { who, load: Load::BULK }).into(), claims)
}

fn contest(
    id: &'static str,
    title: String,
    unit: &'static str,
    cases: Vec<Served>,
    claims: Vec<Claim>,
) -> Contest {
    let cases = cases.into_iter().map(|case| Box::new(case) as Box<dyn Case>).collect();
    Contest { id, title, unit, bed: Some(Box::new(Wires)), cases, claims }
}

/// A server, and what is asked of it.
struct Served {
    who: ServerKind,
    load: Load,
}

impl Case for Served {
    fn name(&self) -> String {
        self.who.name().to_owned()
    }

    fn cpus(&self) -> String {
        format!("cpu{}: server; cpu{}: wrk", machine::test_cpu(), machine::other_cpu())
    }

    fn rounds_max(&self) -> usize {
        ROUNDS
    }

    fn set_up(&mut self) -> Result<()> {
        for program in ["wrk", "nginx", "curl", "ethtool"] {
            ensure!(
                has(program),
                "`{program}` is missing; as root: apt-get install wrk nginx-light curl ethtool"
            );
        }
        let done = follow("peers-build", cargo(["build", "--release", "--package", "pantala"]), BUILD_LIMIT)?;
        ensure!(done.status.success(), "pantala does not build:\n{}", gist(&done.log));
        Ok(())
    }

    fn launch(&mut self, _: Duration) -> Result<Sample> {
        let server = Server::start(self.who)?;
        self.load.run(&server, SECONDS)
    }
}
