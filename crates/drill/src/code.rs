//! Assertions about a connection: the part of Python that scripts use between `%{` and `}%`.

use crate::script::{At, Pos};

/// A block of statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Where it begins.
    pub pos: Pos,
    /// Its statements; at least one.
    pub statements: Vec<At<Statement>>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `assert condition, message`.
    Assert {
        /// The condition.
        condition: Formula,
        /// Message on failure, as written in the script.
        message: Option<String>,
    },
    /// `print(…)`, with what stands behind the word; it demands nothing.
    Print(String),
}

/// A formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    /// Where it begins.
    pub pos: Pos,
    /// Its kind.
    pub kind: FormulaKind,
}

impl Formula {
    /// Calls `see` with this formula and all that lie in it, from left to right.
    pub fn walk(&self, see: &mut dyn FnMut(&Self)) {
        see(self);
        match &self.kind {
            FormulaKind::Unary(_, operand) => operand.walk(see),
            FormulaKind::Binary(_, left, right) => {
                left.walk(see);
                right.walk(see);
            }
            FormulaKind::Compare(first, rest) => {
                first.walk(see);
                rest.iter().for_each(|(_, next)| next.walk(see));
            }
            FormulaKind::And(parts) | FormulaKind::Or(parts) | FormulaKind::Call(_, parts) => {
                parts.iter().for_each(|part| part.walk(see));
            }
            FormulaKind::Integer(_)
            | FormulaKind::Decimal(..)
            | FormulaKind::Name(_)
            | FormulaKind::Bool(_) => {}
        }
    }

    /// As [`Formula::walk`]; `change` may change what it sees, and sees what lies in what it has made of it.
    pub fn walk_mut(&mut self, change: &mut dyn FnMut(&mut Self)) {
        change(self);
        match &mut self.kind {
            FormulaKind::Unary(_, operand) => operand.walk_mut(change),
            FormulaKind::Binary(_, left, right) => {
                left.walk_mut(change);
                right.walk_mut(change);
            }
            FormulaKind::Compare(first, rest) => {
                first.walk_mut(change);
                rest.iter_mut().for_each(|(_, next)| next.walk_mut(change));
            }
            FormulaKind::And(parts) | FormulaKind::Or(parts) | FormulaKind::Call(_, parts) => {
                parts.iter_mut().for_each(|part| part.walk_mut(change));
            }
            FormulaKind::Integer(_)
            | FormulaKind::Decimal(..)
            | FormulaKind::Name(_)
            | FormulaKind::Bool(_) => {}
        }
    }
}

/// Kinds of formulas. They mean what they mean in Python 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormulaKind {
    /// A whole number.
    Integer(i64),
    /// A number with a point: digits, of which so many stand behind the point.
    Decimal(i64, u8),
    /// A variable of `TCP_INFO` and its like, or a constant.
    Name(Name),
    /// `True` or `False`.
    Bool(bool),
    /// `-a`, `~a`, `not a`.
    Unary(UnaryOp, Box<Formula>),
    /// `a + b`.
    Binary(BinaryOp, Box<Formula>, Box<Formula>),
    /// `a <= b < c`: each neighbours' comparison holds.
    Compare(Box<Formula>, Vec<(CompareOp, Formula)>),
    /// `a and b and c`; at least two.
    And(Vec<Formula>),
    /// `a or b or c`; at least two.
    Or(Vec<Formula>),
    /// `abs(a)`.
    Call(Function, Vec<Formula>),
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Minus,
    /// `~`
    Invert,
    /// `not`
    Not,
}

/// Operators with two operands that yield a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `&`
    BitAnd,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, which is exact.
    Divide,
    /// `//`, which rounds down.
    FloorDivide,
    /// `%`, which has the sign of the divisor.
    Modulo,
}

impl BinaryOp {
    /// All, with how they are written and how tightly they bind.
    pub const NAMES: [(&'static str, Self, u8); 11] = [
        ("|", Self::BitOr, 1),
        ("^", Self::BitXor, 2),
        ("&", Self::BitAnd, 3),
        ("<<", Self::ShiftLeft, 4),
        (">>", Self::ShiftRight, 4),
        ("+", Self::Add, 5),
        ("-", Self::Subtract, 5),
        ("*", Self::Multiply, 6),
        ("/", Self::Divide, 6),
        ("//", Self::FloorDivide, 6),
        ("%", Self::Modulo, 6),
    ];
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl CompareOp {
    /// All, with how they are written.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        ("<=", Self::LessOrEqual),
        (">", Self::Greater),
        (">=", Self::GreaterOrEqual),
    ];
}

/// Functions of formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `abs(a)`
    Abs,
    /// `min(a, b, …)`
    Min,
    /// `max(a, b, …)`
    Max,
    /// `int(a)`, towards zero.
    Int,
    /// `round(a)`
    Round,
}

impl Function {
    /// All, with their names.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("abs", Self::Abs),
        ("min", Self::Min),
        ("max", Self::Max),
        ("int", Self::Int),
        ("round", Self::Round),
    ];
}

/// A name in a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A field of `TCP_INFO`.
    TcpInfo(&'static str),
    /// A field of `TCP_CC_INFO` or of `SO_MEMINFO`.
    Other(&'static str),
    /// A state of TCP: `TCP_CLOSE_WAIT` as Linux has it, `TCPI_CLOSE_WAIT` as the BSDs.
    State(&'static str),
    /// A state of congestion control, `TCP_CA_Open` and its like.
    CaState(&'static str),
    /// A bit of `tcpi_options`.
    OptionBit(&'static str),
}

impl Name {
    /// As scripts write it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TcpInfo(text)
            | Self::Other(text)
            | Self::State(text)
            | Self::CaState(text)
            | Self::OptionBit(text) => text,
        }
    }

    /// The name that is written so.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        Self::all().find(|name| name.text() == text)
    }

    /// All names.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        let info = TCP_INFO.iter().map(|&text| Self::TcpInfo(text));
        let other = OTHER_INFO.iter().map(|&text| Self::Other(text));
        let states = STATES.iter().flat_map(|(_, names)| names.iter().map(|&text| Self::State(text)));
        let ca = CA_STATES.iter().map(|&text| Self::CaState(text));
        info.chain(other).chain(states).chain(ca).chain(OPTION_BITS.iter().map(|&text| Self::OptionBit(text)))
    }

    /// The state of RFC 9293 §3.3.2 that the name of a state means.
    #[must_use]
    pub fn state(self) -> Option<&'static str> {
        let Self::State(text) = self else { return None };
        STATES.iter().find(|(_, names)| names.contains(&text)).map(|(state, _)| *state)
    }
}

/// States of RFC 9293 §3.3.2 under the names that Linux gives them, and those of the BSDs.
pub const STATES: &[(&str, [&str; 2])] = &[
    ("CLOSED", ["TCP_CLOSE", "TCPI_CLOSED"]),
    ("LISTEN", ["TCP_LISTEN", "TCPI_LISTEN"]),
    ("SYN-SENT", ["TCP_SYN_SENT", "TCPI_SYN_SENT"]),
    ("SYN-RECEIVED", ["TCP_SYN_RECV", "TCPI_SYN_RECEIVED"]),
    ("ESTABLISHED", ["TCP_ESTABLISHED", "TCPI_ESTABLISHED"]),
    ("FIN-WAIT-1", ["TCP_FIN_WAIT1", "TCPI_FIN_WAIT_1"]),
    ("FIN-WAIT-2", ["TCP_FIN_WAIT2", "TCPI_FIN_WAIT_2"]),
    ("CLOSE-WAIT", ["TCP_CLOSE_WAIT", "TCPI_CLOSE_WAIT"]),
    ("CLOSING", ["TCP_CLOSING", "TCPI_CLOSING"]),
    ("LAST-ACK", ["TCP_LAST_ACK", "TCPI_LAST_ACK"]),
    ("TIME-WAIT", ["TCP_TIME_WAIT", "TCPI_TIME_WAIT"]),
];

/// States of congestion control, as Linux has them.
pub const CA_STATES: &[&str] =
    &["TCP_CA_Open", "TCP_CA_Disorder", "TCP_CA_CWR", "TCP_CA_Recovery", "TCP_CA_Loss"];

/// Bits of `tcpi_options`.
pub const OPTION_BITS: &[&str] = &[
    "TCPI_OPT_TIMESTAMPS",
    "TCPI_OPT_SACK",
    "TCPI_OPT_WSCALE",
    "TCPI_OPT_ECN",
    "TCPI_OPT_ECN_SEEN",
    "TCPI_OPT_SYN_DATA",
    "TCPI_OPT_USEC_TS",
    "TCPI_OPT_TOE",
    "TCPI_OPT_TFO",
];

/// Fields of `TCP_INFO`: those that Linux and FreeBSD share, those of Linux, those of FreeBSD.
pub const TCP_INFO: &[&str] = &[
    "tcpi_state",
    "tcpi_options",
    "tcpi_snd_wscale",
    "tcpi_rcv_wscale",
    "tcpi_rto",
    "tcpi_snd_mss",
    "tcpi_rcv_mss",
    "tcpi_last_data_recv",
    "tcpi_rtt",
    "tcpi_rttvar",
    "tcpi_snd_ssthresh",
    "tcpi_snd_cwnd",
    "tcpi_rcv_space",
    "tcpi_snd_wnd",
    "tcpi_ca_state",
    "tcpi_retransmits",
    "tcpi_probes",
    "tcpi_backoff",
    "tcpi_delivery_rate_app_limited",
    "tcpi_fastopen_client_fail",
    "tcpi_ato",
    "tcpi_unacked",
    "tcpi_sacked",
    "tcpi_lost",
    "tcpi_retrans",
    "tcpi_fackets",
    "tcpi_last_data_sent",
    "tcpi_last_ack_sent",
    "tcpi_last_ack_recv",
    "tcpi_pmtu",
    "tcpi_rcv_ssthresh",
    "tcpi_advmss",
    "tcpi_reordering",
    "tcpi_rcv_rtt",
    "tcpi_total_retrans",
    "tcpi_pacing_rate",
    "tcpi_max_pacing_rate",
    "tcpi_bytes_acked",
    "tcpi_bytes_received",
    "tcpi_segs_out",
    "tcpi_segs_in",
    "tcpi_notsent_bytes",
    "tcpi_min_rtt",
    "tcpi_data_segs_in",
    "tcpi_data_segs_out",
    "tcpi_delivery_rate",
    "tcpi_busy_time",
    "tcpi_rwnd_limited",
    "tcpi_sndbuf_limited",
    "tcpi_delivered",
    "tcpi_delivered_ce",
    "tcpi_bytes_sent",
    "tcpi_bytes_retrans",
    "tcpi_dsack_dups",
    "tcpi_reord_seen",
    "tcpi_rcv_ooopack",
    "tcpi_rcv_wnd",
    "tcpi_rehash",
    "tcpi_total_rto",
    "tcpi_total_rto_recoveries",
    "tcpi_total_rto_time",
    "tcpi_received_ce",
    "tcpi_received_e0_bytes",
    "tcpi_received_e1_bytes",
    "tcpi_received_ce_bytes",
    "tcpi_delivered_e0_bytes",
    "tcpi_delivered_e1_bytes",
    "tcpi_delivered_ce_bytes",
    "tcpi_ecn_mode",
    "tcpi_accecn_opt_seen",
    "tcpi_accecn_fail_mode",
    "tcpi_snd_bwnd",
    "tcpi_snd_nxt",
    "tcpi_rcv_nxt",
    "tcpi_toe_tid",
    "tcpi_snd_rexmitpack",
    "tcpi_snd_zerowin",
    "tcpi_snd_una",
    "tcpi_snd_max",
    "tcpi_rcv_numsacks",
    "tcpi_rcv_adv",
    "tcpi_dupacks",
    "tcpi_total_tlp",
    "tcpi_total_tlp_bytes",
];

/// Fields of `TCP_CC_INFO` and of `SO_MEMINFO`.
pub const OTHER_INFO: &[&str] = &[
    "bbr_bw",
    "bbr_bw_lo",
    "bbr_bw_hi",
    "bbr_min_rtt",
    "bbr_pacing_gain",
    "bbr_cwnd_gain",
    "dctcp_enabled",
    "dctcp_ce_state",
    "dctcp_alpha",
    "dctcp_ab_ecn",
    "dctcp_ab_tot",
    "tcpv_enabled",
    "tcpv_rttcnt",
    "tcpv_rtt",
    "tcpv_minrtt",
    "SK_MEMINFO_RMEM_ALLOC",
    "SK_MEMINFO_RCVBUF",
    "SK_MEMINFO_WMEM_ALLOC",
    "SK_MEMINFO_SNDBUF",
    "SK_MEMINFO_FWD_ALLOC",
    "SK_MEMINFO_WMEM_QUEUED",
    "SK_MEMINFO_OPTMEM",
    "SK_MEMINFO_BACKLOG",
    "SK_MEMINFO_DROPS",
];
