//! Tokens of ipfw(8) that are not supported, with the reason. `docs/reference/IPFW.md` shows the same table.

/// Where a word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A flag before the command.
    Flag,
    /// The first word.
    Command,
    /// Actions of rules.
    Action,
    /// Between the action and the body.
    Parameter,
    /// A match, or another word of the body.
    Option,
    /// Behind `enable` or `disable`.
    Switch,
    /// Behind `table NAME create`.
    Table,
    /// Behind `table NAME`.
    TableCommand,
    /// A key of `lookup`.
    Key,
    /// Behind `nat N config`, `nat64lsn NAME create`, `pipe N config` and the like.
    Parameters,
    /// Behind `type` of a scheduler.
    Scheduler,
}

/// A word that is known and refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it stands.
    pub place: Place,
    /// The word.
    pub word: &'static str,
    /// Why it is refused: what it does elsewhere, and what pantala has not.
    pub why: &'static str,
    /// The word to use instead.
    pub instead: &'static str,
}

/// The word at that place, if it is refused.
#[must_use]
pub fn find(place: Place, word: &str) -> Option<&'static Refused> {
    REFUSED.iter().find(|refused| refused.place == place && refused.word == word)
}

const SOCKET: &str = "passes packets to a program through a kernel socket; pantala has none";
const NETGRAPH: &str = "passes packets to netgraph, a part of FreeBSD's kernel; pantala has none";
const OWNER: &str = "compares the owner of the packet's socket, which only the kernel knows";
const MARK: &str = "is a 32-bit mark of FreeBSD 14; pantala has 16-bit tags";
const DIVERTED: &str = "matches packets that came back from a divert socket; pantala has none";
const STATELESS: &str = "is a stateless translation between families; pantala has the stateful one";
const SCTP: &str = "answers with an ABORT of SCTP, which pantala does not speak";
const ALTQ: &str = "is a shaper of FreeBSD's kernel, replaced by dummynet";
const USED: &str = "needs the time of an entry's last use, which pantala does not record";
const PIE: &str = "is the active queue management of RFC 8033; pantala has CoDel";
const USE_NAT: &str = "for translation use `nat`, to count or copy traffic `log`, else `deny`";
const USE_NAMES: &str = "use `me`, addresses and ports";

const fn refused(place: Place, word: &'static str, why: &'static str, instead: &'static str) -> Refused {
    Refused { place, word, why, instead }
}

/// All of them.
pub const REFUSED: &[Refused] = &[
    refused(
        Place::Flag,
        "p",
        "runs a preprocessor over the file; pantala reads files as they are",
        "run the preprocessor first",
    ),
    refused(
        Place::Command,
        "internal",
        "shows internals of FreeBSD's kernel",
        "use `show`, and `table NAME info`",
    ),
    refused(Place::Command, "nat64stl", STATELESS, "use `nat64lsn`"),
    refused(Place::Command, "nat64clat", STATELESS, "use `nat64lsn` at the provider's side"),
    refused(Place::Command, "flowset", "is the name that `queue` had in the first dummynet", "use `queue`"),
    refused(Place::Action, "divert", SOCKET, USE_NAT),
    refused(Place::Action, "tee", SOCKET, "to copy traffic use `log`, or capture it with tcpdump"),
    refused(Place::Action, "netgraph", NETGRAPH, USE_NAT),
    refused(Place::Action, "ngtee", NETGRAPH, "to copy traffic use `log`, or capture it with tcpdump"),
    refused(Place::Action, "setmark", MARK, "use `count tag N`, and `tagged N` to match it"),
    refused(Place::Action, "nat64stl", STATELESS, "use `nat64lsn`"),
    refused(Place::Action, "nat64clat", STATELESS, "use `nat64lsn` at the provider's side"),
    refused(
        Place::Action,
        "eaction",
        "names an action of a module of FreeBSD's kernel",
        "use the action's own name, such as `nptv6`",
    ),
    refused(Place::Action, "abort", SCTP, "use `deny`, or `unreach port`"),
    refused(Place::Action, "abort6", SCTP, "use `deny`, or `unreach6 port`"),
    refused(Place::Parameter, "altq", ALTQ, "use `queue N`"),
    refused(Place::Option, "uid", OWNER, USE_NAMES),
    refused(Place::Option, "gid", OWNER, USE_NAMES),
    refused(
        Place::Option,
        "jail",
        "compares the jail of the packet's socket; jails are FreeBSD's",
        USE_NAMES,
    ),
    refused(
        Place::Option,
        "sockarg",
        "matches a value that a program gave its socket in FreeBSD's kernel",
        USE_NAMES,
    ),
    refused(
        Place::Option,
        "ipsec",
        "matches packets that the kernel's IPsec decrypted; pantala has none",
        "match what is encrypted with `proto esp`",
    ),
    refused(Place::Option, "mark", MARK, "use `tag N` and `tagged N`"),
    refused(Place::Option, "diverted", DIVERTED, "leave it out"),
    refused(Place::Option, "diverted-loopback", DIVERTED, "leave it out"),
    refused(Place::Option, "diverted-output", DIVERTED, "leave it out"),
    refused(Place::Switch, "altq", ALTQ, "use `queue N`"),
    refused(
        Place::Switch,
        "debug",
        "enables debug messages of FreeBSD's kernel",
        "use `log`, `show` and `netstat -s`",
    ),
    refused(
        Place::Table,
        "algo",
        "chooses how a table is stored; pantala chooses by the type of the keys",
        "leave it out",
    ),
    refused(
        Place::TableCommand,
        "modify",
        "changes the limit or the values of an existing table",
        "create it anew, and `swap` them",
    ),
    refused(Place::TableCommand, "zero", USED, "leave it out"),
    refused(
        Place::TableCommand,
        "expire",
        USED,
        "`delete` entries, or create the table anew, and `swap` them",
    ),
    refused(Place::Key, "uid", OWNER, USE_NAMES),
    refused(Place::Key, "jail", OWNER, USE_NAMES),
    refused(Place::Key, "mark", MARK, "use `tagged N`"),
    refused(Place::Key, "rulenum", "looks up the number of the rule itself", "write the value into the rule"),
    refused(
        Place::Parameters,
        "profile",
        "reads the delays of a link from a file; a pipe of pantala has one delay",
        "use `delay`, and `plr` for loss",
    ),
    refused(Place::Parameters, "pie", PIE, "use `codel`"),
    refused(
        Place::Parameters,
        "lmax",
        "is a parameter of the scheduler qfq, which pantala does not have",
        "leave it out",
    ),
    refused(
        Place::Parameters,
        "skip_global",
        "takes an instance out of `nat global`; here `nat global` uses all of them",
        "name the instances one by one, each in a rule",
    ),
    refused(
        Place::Parameters,
        "udp_eim",
        "keeps a UDP port's translation for all peers; here each flow has its own",
        "leave it out, or use `redirect_port udp`",
    ),
    refused(Place::Scheduler, "qfq", "is a weighted scheduler of dummynet", "use `wf2q+`, which is as fair"),
    refused(
        Place::Scheduler,
        "prio",
        "serves queues by strict priority",
        "use `wf2q+` with very different weights",
    ),
    refused(Place::Scheduler, "fq_pie", PIE, "use `fq_codel`"),
];
