//! The stage of scripts that were written for Linux, google's own among them: they begin with `defaults.sh`, which is
//! no program here but a name for all that it sets. The host has Linux's buffers and a card that cuts segments.
//!
//! In which order the options of a header stand, and how they are padded, each stack decides by itself. Such scripts
//! demand Linux's order; so what came is laid out as Linux does before it is compared, option by option, padding included.

pub(super) mod aggregate;
pub(super) mod cookie;
pub(super) mod info;
pub(super) mod layout;
pub(super) mod opening;
pub(super) mod sysctl;

use drill::packet::TcpOption;
use drill::script::{Action, At, Command, Pos, Script};
use net::tcp::settings::{Ecn, Settings};
use net::time::Duration;

use super::errno::Errno;
use super::program::Outcome;

/// The script that these scripts begin with.
const DEFAULTS: &str = "defaults.sh";
/// Maximum receive and send buffers, as it sets `tcp_rmem` and `tcp_wmem`.
const RECEIVE_MAX: u32 = 15 << 20;
const SEND_MAX: u32 = 4 << 20;
const SEND: u32 = 256 << 10;
/// Linux acknowledges the first segments of a connection at once. Here they wait for so long, which is within what scripts
/// tolerate.
const DELAYED_ACK: Duration = Duration::from_millis(1);
/// A variable that has cookies be forgotten.
const COOKIES: &str = "net.ipv4.tcp_fastopen_cookies=";
/// Disables TCP segmentation offload.
const CUTS_NO_MORE: &str = "tso off";

/// Whether a script is one of these.
pub(super) fn wrote(script: &Script) -> bool {
    commands(script).any(|command| command.split_whitespace().any(is_defaults))
}

/// Whether the host of such a script has a card that cuts segments.
pub(super) fn cuts(script: &Script) -> bool {
    wrote(script) && !commands(script).any(cuts_no_more)
}

/// Whether a command switches that off.
pub(super) fn cuts_no_more(command: &str) -> bool {
    command.contains(CUTS_NO_MORE)
}

fn commands(script: &Script) -> impl Iterator<Item = &str> {
    let events = script.events.iter().filter_map(|event| match &event.action {
        Action::Command(command) => Some(command),
        _ => None,
    });
    script.init.iter().chain(events).map(|command: &At<Command>| command.value.0.as_str())
}

/// Whether a command is the script that they begin with, wherever it lies.
pub(super) fn is_defaults(command: &str) -> bool {
    command.rsplit('/').next() == Some(DEFAULTS)
}

/// Whether a command is the script that sets variables by their files and writes another that restores them.
pub(super) fn sets_variables(command: &str) -> bool {
    command.rsplit('/').next() == Some("set_sysctls.py")
}

/// Whether a command changes nothing: the next host begins anew, and what a card does is known before the first event.
pub(super) fn changes_nothing(words: &[&str]) -> bool {
    matches!(
        words,
        ["/tmp/sysctl_restore_${PPID}.sh"]
            | ["nstat", "-n"]
            | ["ethtool", "-K", "tun0", "tso", "off"]
            | ["ethtool", "-K", "tun0", "tso", "off", "gso", "off"]
    )
}

/// Whether a command has all be forgotten that is known of other ends. Where the system has a variable for that, it is tried
/// before.
pub(super) fn forgets(words: &[&str]) -> bool {
    let words = match words.iter().position(|word| *word == "||") {
        Some(at) if words.get(2).is_some_and(|name| name.starts_with(COOKIES)) => &words[at + 1..],
        _ => words,
    };
    matches!(words, ["ip", "tcp_metrics", "flush", "all", rest @ ..] if rest.iter().all(|word| is_quiet(word)))
}

/// Redirection of a command's output to nowhere.
fn is_quiet(word: &str) -> bool {
    matches!(word, ">" | "&>" | "/dev/null" | "2>&1")
}

/// Returns the settings of that script, as far as they mean something here.
pub(super) fn defaults(settings: Settings) -> Settings {
    Settings {
        receive_buffer_max: RECEIVE_MAX,
        send_buffer: SEND,
        send_buffer_max: SEND_MAX,
        delayed_ack: DELAYED_ACK,
        ecn: Ecn::Off,
        takes_unstamped: true,
        tail_loss_probe: true,
        resets_unread: true,
        ..settings
    }
}

/// Maps the result of a call that sends: without a connection, Linux returns EPIPE.
pub(super) fn sent<T>(outcome: Outcome<T>, is_linux: bool) -> Outcome<T> {
    match outcome {
        Outcome::Done(Err(Errno("ENOTCONN"))) if is_linux => Outcome::fails("EPIPE"),
        outcome => outcome,
    }
}

/// The options of a header as Linux lays them out.
pub(super) fn laid_out(options: &[At<TcpOption>]) -> Vec<At<TcpOption>> {
    let options: Vec<_> = options.iter().map(|at| at.value.clone()).collect();
    let len = |option: &TcpOption| option.len().unwrap_or(0);
    let laid = layout::lay(&options, kind, len, &TcpOption::Nop);
    laid.into_iter().map(|option| At::new(Pos::default(), option)).collect()
}

/// The number of an option.
const fn kind(option: &TcpOption) -> u8 {
    match option {
        TcpOption::Eol => layout::EOL,
        TcpOption::Nop => layout::NOP,
        TcpOption::Mss(_) => layout::MSS,
        TcpOption::WindowScale(_) => layout::WINDOW_SCALE,
        TcpOption::SackPermitted => layout::SACK_PERMITTED,
        TcpOption::Sack(_) => layout::SACK,
        TcpOption::Timestamps { .. } => layout::TIMESTAMPS,
        TcpOption::Md5(_) => layout::MD5,
        TcpOption::UserTimeout(_) => layout::USER_TIMEOUT,
        TcpOption::FastOpen(_) => layout::FAST_OPEN,
        TcpOption::FastOpenExp(_) => layout::EXPERIMENT,
        TcpOption::AccEcn(_) => layout::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_laid_out_as_linux_does() {
        let lay = |list: &[TcpOption]| {
            let at = list.iter().map(|option| At::new(Pos::default(), option.clone())).collect::<Vec<_>>();
            laid_out(&at).iter().map(|at| at.value.to_string()).collect::<Vec<_>>().join(",")
        };
        use TcpOption::{Eol, Mss, Nop, SackPermitted, WindowScale};
        let stamps = TcpOption::Timestamps { val: Some(1), ecr: 0, ecr_absolute: false };
        let scale = WindowScale(Some(8));
        assert_eq!(
            lay(&[Mss(1460), Nop, scale.clone(), SackPermitted, stamps.clone()]),
            "mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 8"
        );
        assert_eq!(
            lay(&[Mss(1460), Nop, scale, SackPermitted, Eol, Eol]),
            "mss 1460,nop,nop,sackOK,nop,wscale 8"
        );
        assert_eq!(lay(&[Nop, Nop, stamps]), "nop,nop,TS val 1 ecr 0");
        assert_eq!(lay(&[]), "");
    }
}
