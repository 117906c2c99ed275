//! `stp`, `stp_priority`, `hellotime`, `maxage`, `fwddelay`, `holdcnt`, `stp_port`: the spanning tree of a bridge.

use core::ops::Range;

use net::stp::{PortSettings, Settings};

use super::fields::Fields;
use super::problem::{At, Report, Wrong};

/// Largest priority of a bridge: as all, a multiple of 4096.
const PRIORITY_MAX: u32 = 61_440;
/// Largest cost of a path (IEEE 802.1D-2004 table 17-3).
const COST_MAX: u32 = 200_000_000;
/// The words of a port.
const WORDS: &str =
    "write \"PORT WORD…\", as in \"lan1 cost 2000 edge\"; words: cost N, priority N, edge, -autoedge, -ptp";

/// The spanning tree of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stp {
    /// Settings of the bridge.
    pub settings: Settings,
    /// Settings of ports that differ from others.
    pub ports: Vec<StpPort>,
}

/// The settings of a port, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StpPort {
    /// The name of the port.
    pub name: String,
    /// Its settings.
    pub settings: PortSettings,
}

impl Stp {
    /// Returns the settings of a port.
    #[must_use]
    pub fn port(&self, name: &str) -> PortSettings {
        self.ports
            .iter()
            .find(|port| port.name == name)
            .map_or_else(PortSettings::default, |port| port.settings)
    }
}

/// The keys of a bridge.
#[derive(Default)]
pub(crate) struct Draft {
    /// Whether it speaks STP alone; `None` for no spanning tree.
    is_stp: Option<At<Option<bool>>>,
    priority: Option<At<u32>>,
    hello: Option<At<u32>>,
    max_age: Option<At<u32>>,
    forward_delay: Option<At<u32>>,
    hold_count: Option<At<u32>>,
    pub(crate) ports: Vec<At<StpPort>>,
}

impl Draft {
    /// Returns what is given, and the defaults, if there is a spanning tree.
    pub(crate) fn settings(&self) -> Option<Stp> {
        let is_stp = self.is_stp.as_ref()?.value?;
        let usual = Settings::default();
        let small = |at: &Option<At<u32>>, usual: u8| {
            at.as_ref().and_then(|at| u8::try_from(at.value).ok()).unwrap_or(usual)
        };
        let priority = self.priority.as_ref().and_then(|at| u16::try_from(at.value).ok());
        let settings = Settings {
            priority: priority.unwrap_or(usual.priority),
            is_stp,
            hello: small(&self.hello, usual.hello),
            max_age: small(&self.max_age, usual.max_age),
            forward_delay: small(&self.forward_delay, usual.forward_delay),
            hold_count: small(&self.hold_count, usual.hold_count),
        };
        Some(Stp { settings, ports: self.ports.iter().map(|at| at.value.clone()).collect() })
    }

    /// The keys that are given, and where they stand.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&'static str, &Range<usize>)> {
        let numbers = [
            ("stp_priority", &self.priority),
            ("hellotime", &self.hello),
            ("maxage", &self.max_age),
            ("fwddelay", &self.forward_delay),
            ("holdcnt", &self.hold_count),
        ];
        let numbers = numbers.into_iter().filter_map(|(key, at)| Some((key, &at.as_ref()?.span)));
        let stp = self.is_stp.iter().map(|at| ("stp", &at.span));
        stp.chain(numbers).chain(self.ports.first().map(|at| ("stp_port", &at.span)))
    }

    /// Reports times that do not fit each other.
    pub(crate) fn check(&self, report: &mut Report<'_>) {
        let Some(stp) = self.settings().filter(|stp| !stp.settings.are_consistent()) else { return };
        let spans = [&self.max_age, &self.hello, &self.forward_delay];
        let Some(span) = spans.into_iter().flatten().map(|at| &at.span).next() else { return };
        let Settings { hello, max_age, forward_delay, .. } = stp.settings;
        report.add(
            span,
            format!("hellotime {hello}, maxage {max_age} and fwddelay {forward_delay} do not fit each other"),
            "IEEE 802.1D §17.14: 2 × (fwddelay − 1) ≥ maxage ≥ 2 × (hellotime + 1)",
        );
    }
}

pub(crate) fn read(fields: &Fields<'_>, report: &mut Report<'_>) -> Draft {
    let priority = fields.number("stp_priority", 0..=PRIORITY_MAX, report);
    if let Some(at) = priority.as_ref().filter(|at| at.value % 4096 != 0) {
        report.add(
            &at.span,
            format!("stp_priority {} is no multiple of 4096", at.value),
            "use 4096, 8192, …",
        );
    }
    Draft {
        is_stp: fields.truth_or("stp", |on| on.then_some(false), protocol, report),
        priority,
        hello: fields.number("hellotime", 1..=2, report),
        max_age: fields.number("maxage", 6..=40, report),
        forward_delay: fields.number("fwddelay", 4..=30, report),
        hold_count: fields.number("holdcnt", 1..=10, report),
        ports: fields.parsed_list("stp_port", port, report),
    }
}

fn protocol(text: &str) -> Result<Option<bool>, Wrong> {
    match text {
        "rstp" => Ok(Some(false)),
        "stp" => Ok(Some(true)),
        _ => Err(Wrong::new(
            format!("`{text}` is no spanning tree protocol"),
            "write true, \"rstp\" or \"stp\"",
        )),
    }
}

fn port(text: &str) -> Result<StpPort, Wrong> {
    let mut words = text.split_whitespace();
    let name = words.next().ok_or_else(|| Wrong::new("`stp_port` names no port", WORDS))?;
    let mut settings = PortSettings::default();
    while let Some(word) = words.next() {
        let mut number = |most: u32| {
            let value = words.next().and_then(|text| text.parse::<u32>().ok()).filter(|value| *value <= most);
            value.ok_or_else(|| Wrong::new(format!("`{word}` needs a number up to {most}"), WORDS))
        };
        match word {
            "cost" => settings.cost = number(COST_MAX)?.max(1),
            "priority" => {
                let value = number(240)?;
                let value = u8::try_from(value).ok().filter(|value| value % 16 == 0);
                settings.priority =
                    value.ok_or_else(|| Wrong::new("the priority of a port is a multiple of 16", WORDS))?;
            }
            "edge" => settings.is_edge = true,
            "-edge" => settings.is_edge = false,
            "autoedge" => settings.may_be_edge = true,
            "-autoedge" => settings.may_be_edge = false,
            "ptp" => settings.is_point_to_point = true,
            "-ptp" => settings.is_point_to_point = false,
            _ => return Err(Wrong::new(format!("`{word}` says nothing of a port"), WORDS)),
        }
    }
    Ok(StpPort { name: name.to_owned(), settings })
}
