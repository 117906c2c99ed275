//! Settings of a connection. The defaults are FreeBSD's, where RFCs leave a choice.

use core::time::Duration;
use std::sync::Arc;

use super::congestion::Algorithm;
use super::rtt::{self, Bounds};
use base::ids::IfIndex;

/// Different settings that are remembered to be shared.
const SHARED_MAX: usize = 4;

/// The settings of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Upper limit of [`Self::mss`] and [`Self::path_mss`], set by the program.
    pub mss_max: u16,
    /// The longest segment that we take, without options: what is announced.
    pub mss: u16,
    /// The longest that the path takes, without options.
    pub path_mss: u16,
    /// Upper limit of [`Self::path_mss`] that probing may find: that of links and routers.
    pub path_mss_max: u16,
    /// The longest segments that each path takes: where longer ones vanish, they are this long.
    pub safe_mss: u16,
    /// It is found out which segments arrive where those that should vanish, and no router says so (RFC 4821).
    pub path_probes: bool,
    /// Bytes of the longest super-packet, which the device cuts into segments; 0: each segment by itself.
    pub super_bytes: u32,
    /// Bytes that may wait to be read.
    pub receive_buffer: u32,
    /// The most that [`Self::receive_buffer`] may become: what the window must be able to say.
    pub receive_buffer_max: u32,
    /// [`Self::receive_buffer`] grows with what the path carries.
    pub tunes_receive: bool,
    /// Bytes that may wait to be acknowledged.
    pub send_buffer: u32,
    /// The most that [`Self::send_buffer`] may become.
    pub send_buffer_max: u32,
    /// [`Self::send_buffer`] grows with what the path carries.
    pub tunes_send: bool,
    /// RFC 7323 options offered and accepted.
    pub extensions: Extensions,
    /// Segments without the timestamp that was agreed on are taken; else they are dropped (RFC 7323 §3.2).
    pub takes_unstamped: bool,
    /// Selective acknowledgments (RFC 2018) are offered, and taken up.
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: Ecn,
    /// With how many repetitions of a SYN marks are still asked for: a router that drops such SYNs must not keep us from
    /// connecting (RFC 3168 §6.1.1.1).
    pub ecn_retries: u8,
    /// SYNs bear no options at all, not even the segment length.
    pub no_options: bool,
    /// From the third repetition on, a SYN offers nothing: a router that drops what it does not know is in the way.
    pub drops_options: bool,
    /// Data that is sent at once goes with the SYN, if the other end has given a cookie for it before; else one is asked
    /// for (RFC 7413).
    pub fast_open: bool,
    /// Connections of a listener on a CPU that may bring data with their SYN, and be accepted, before they stand, up to its
    /// backlog; 0: none, and no cookies are given (RFC 7413; `TCP_FASTOPEN` of a server).
    pub fast_open_max: usize,
    /// Whether any listener may let them.
    pub may_open_fast: bool,
    /// Each segment is signed, and those that come must be (RFC 2385): with the key of the other end, see
    /// `net::tcp::set_key`.
    pub signs: bool,
    /// Short segments do not wait for an acknowledgment (RFC 9293 §3.7.4).
    pub nodelay: bool,
    /// Short segments wait until more is sent, or the stream is closed.
    pub cork: bool,
    /// Time for which they do at the most; none: without end.
    pub cork_max: Option<Duration>,
    /// Each segment with data is acknowledged at once.
    pub quick_ack: bool,
    /// Urgent data is read inline; else the last urgent byte is read by itself (`SO_OOBINLINE`).
    //= https://www.rfc-editor.org/rfc/rfc6093#section-5
    pub urgent_inline: bool,
    /// Congestion control algorithm.
    pub algorithm: Algorithm,
    /// Segments that the congestion window begins with (RFC 6928).
    pub initial_segments: u32,
    /// The first retransmission timeout.
    pub initial_rto: Duration,
    /// Between which the others are kept.
    pub rto: Bounds,
    /// When nothing is heard of the last segments for two round trips, one is sent that asks (RFC 8985 §7). FreeBSD's
    /// default stack does not.
    pub tail_loss_probe: bool,
    /// Losses are found by when segments were sent (RFC 8985), if the other end tells which have come. Else by how many that
    /// were sent later have.
    pub rack: bool,
    /// Where losses are found by counting: the more is under way, the more reordering is waited out (RFC 4653).
    pub ncr: bool,
    /// Retransmissions until the first hop is doubted: R1 of RFC 9293 §3.8.3 (`tcp_retries1` of Linux).
    pub doubts_after: u8,
    /// Largest number of retransmissions: R2.
    pub retransmissions_max: u8,
    /// Time limit of establishment.
    pub establish_within: Duration,
    /// The other end is asked whether it is still there when nothing was heard of it for long (RFC 9293 §3.8.4).
    pub keepalive: bool,
    /// Idle time before keepalive.
    pub keep_idle: Duration,
    /// From one question to the next.
    pub keep_interval: Duration,
    /// Unanswered keepalives before the connection is given up.
    pub keep_count: u8,
    /// Time that data may stay unacknowledged before the connection is given up, however often it is retransmitted
    /// (RFC 5482).
    pub user_timeout: Option<Duration>,
    /// Each end tells the other how long it waits, and may be told.
    pub uto: Uto,
    /// Time limit in FIN-WAIT-2 of a connection that the program has closed.
    pub fin_wait_2: Duration,
    /// Delay of acknowledgments (RFC 9293 §3.8.6.3: less than half a second).
    pub delayed_ack: Duration,
    /// The maximum segment lifetime: half of what TIME-WAIT lasts.
    pub msl: Duration,
    /// The longest backlog that a listener can have (`kern.ipc.somaxconn`).
    pub backlog_max: usize,
    /// Largest reported accept queue length, so that a program serves its connections
    /// before it takes more; 0: all (`kern.ipc.soavailconn` of DragonFly).
    pub reported_max: usize,
    /// A reset anywhere in the window ends the connection, as in RFC 793. Else only at the left edge (RFC 5961 §3).
    pub insecure_rst: bool,
    /// A SYN in the window resets the connection, as in RFC 793. Else it is challenged (RFC 5961 §4).
    pub insecure_syn: bool,
    /// A segment with SYN and FIN begins no connection.
    pub drop_synfin: bool,
    /// A connection that does not stand yet ends when a router or the other host says that it will not come about
    /// (RFC 5927 §6.1). Else that is only remembered as the reason for a silence.
    pub icmp_may_rst: bool,
    /// Closing with bytes unread sends a reset (RFC 9293 §3.6.1: SHOULD). Else the peer does not
    /// learn of it, as on FreeBSD.
    pub resets_unread: bool,
    /// A listener may wait at an address that is not ours, and a connection begin from one (`IP_BINDANY`, `IPV6_BINDANY`): a rule brings
    /// its packets here.
    pub bind_any: bool,
    /// The only interface by which segments come and go (`SO_BINDTODEVICE`); 0: any.
    pub device: IfIndex,
}

/// The user timeout option (RFC 5482 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uto {
    /// It is sent, and what comes is heard: `ENABLED`.
    pub is_on: bool,
    /// The peer may change it: `CHANGEABLE`. A program that sets [`Settings::user_timeout`] wants just that.
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3.1
    pub is_changeable: bool,
    /// User timeout announced to the peer, if not [`Settings::user_timeout`]: `ADV_UTO`.
    pub told: Option<Duration>,
    /// Between which what follows from both ends' is kept: `L_LIMIT`, `U_LIMIT`.
    pub least: Duration,
    /// See [`Self::least`].
    pub most: Duration,
}

/// A change of one connection's settings by its program, before it begins or while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// [`Settings::nodelay`] (`TCP_NODELAY`).
    NoDelay(bool),
    /// [`Settings::cork`] without end (`TCP_NOPUSH`).
    Cork(bool),
    /// [`Settings::cork`] for so long at the most; none: no more (`TCP_CORK`).
    CorkFor(Option<Duration>),
    /// [`Settings::quick_ack`] (`TCP_QUICKACK`).
    QuickAck(bool),
    /// [`Settings::urgent_inline`] (`SO_OOBINLINE`).
    UrgentInline(bool),
    /// [`Settings::keepalive`] (`SO_KEEPALIVE`).
    KeepAlive(bool),
    /// [`Settings::keep_idle`] (`TCP_KEEPIDLE`).
    KeepIdle(Duration),
    /// [`Settings::keep_interval`] (`TCP_KEEPINTVL`).
    KeepInterval(Duration),
    /// [`Settings::keep_count`] (`TCP_KEEPCNT`).
    KeepCount(u8),
    /// [`Settings::establish_within`] (`TCP_KEEPINIT`).
    EstablishWithin(Duration),
    /// [`Settings::user_timeout`] (`TCP_USER_TIMEOUT`). Unless it is none, the other end changes it no more.
    UserTimeout(Option<Duration>),
    /// [`Uto::is_on`] (`TCP_UTO_ENABLE`).
    TellsUserTimeout(bool),
    /// [`Uto::told`] (`TCP_UTO_ADVERTISE`).
    ToldUserTimeout(Option<Duration>),
    /// [`Uto::is_changeable`] (`TCP_UTO_CHANGEABLE`).
    YieldsUserTimeout(bool),
    /// [`Settings::send_buffer`] (`SO_SNDBUF`), which grows no more by itself.
    SendBuffer(u32),
    /// [`Settings::receive_buffer`] (`SO_RCVBUF`), not above [`Settings::receive_buffer_max`]; it grows no more by itself.
    ReceiveBuffer(u32),
    /// [`Settings::mss_max`] (`TCP_MAXSEG`).
    MaxSegment(u16),
    /// [`Settings::algorithm`] (`TCP_CONGESTION`).
    Algorithm(Algorithm),
    /// [`Settings::fast_open`] (`TCP_FASTOPEN` of a client); of a connection that has begun it changes nothing.
    FastOpen(bool),
    /// [`Settings::fast_open_max`] (`TCP_FASTOPEN` of a server); of a listener that waits it changes nothing.
    FastOpenMax(usize),
    /// [`Settings::signs`] (`TCP_MD5SIG`).
    Sign(bool),
    /// [`Settings::no_options`] (`TCP_NOOPT`); of a connection that has begun it changes nothing.
    NoOptions(bool),
    /// [`Settings::bind_any`] (`IP_BINDANY`); of what has a place already it changes nothing.
    BindAny(bool),
    /// [`Settings::device`] (`SO_BINDTODEVICE`); of a connection that has begun it changes nothing.
    Device(IfIndex),
}

impl Settings {
    /// Whether a listener lets connections bring data with their SYN.
    #[inline]
    pub const fn opens_fast(&self) -> bool {
        self.may_open_fast && self.fast_open_max > 0
    }

    /// Makes a change.
    pub fn take(&mut self, change: Change) {
        match change {
            Change::NoDelay(nodelay) => self.nodelay = nodelay,
            Change::Cork(cork) => (self.cork, self.cork_max) = (cork, None),
            Change::CorkFor(most) => (self.cork, self.cork_max) = (most.is_some(), most),
            Change::QuickAck(quick) => self.quick_ack = quick,
            Change::UrgentInline(inline) => self.urgent_inline = inline,
            Change::KeepAlive(keepalive) => self.keepalive = keepalive,
            Change::KeepIdle(idle) => self.keep_idle = idle,
            Change::KeepInterval(interval) => self.keep_interval = interval,
            Change::KeepCount(count) => self.keep_count = count,
            Change::EstablishWithin(within) => self.establish_within = within,
            Change::UserTimeout(timeout) => {
                (self.user_timeout, self.uto.is_changeable) = (timeout, timeout.is_none());
            }
            Change::TellsUserTimeout(tells) => self.uto.is_on = tells,
            Change::ToldUserTimeout(told) => self.uto.told = told,
            Change::YieldsUserTimeout(yields) => self.uto.is_changeable = yields,
            Change::SendBuffer(bytes) => (self.send_buffer, self.tunes_send) = (bytes, false),
            Change::ReceiveBuffer(bytes) => {
                (self.receive_buffer, self.tunes_receive) = (bytes.min(self.receive_buffer_max), false);
            }
            Change::MaxSegment(bytes) => {
                (self.mss_max, self.mss, self.path_mss) =
                    (bytes, self.mss.min(bytes), self.path_mss.min(bytes));
            }
            Change::Algorithm(algorithm) => self.algorithm = algorithm,
            Change::FastOpen(fast_open) => self.fast_open = fast_open,
            Change::FastOpenMax(most) => self.fast_open_max = most,
            Change::Sign(signs) => self.signs = signs,
            Change::NoOptions(no_options) => self.no_options = no_options,
            Change::BindAny(any) => self.bind_any = any,
            Change::Device(device) => self.device = device,
        }
    }
}

/// The settings that connections were begun with last. There are few different ones and many connections, which share them.
#[derive(Debug, Default)]
pub struct Shared {
    known: [Option<Known>; SHARED_MAX],
    /// The place of the next that is new.
    next: usize,
}

impl Shared {
    /// These settings, suited to a way; as others may have them already.
    pub fn share(&mut self, settings: &Settings, along: Along) -> Arc<Settings> {
        let is_it = |known: &&Known| known.along == along && known.settings == *settings;
        if let Some(known) = self.known.iter().flatten().find(is_it) {
            return Arc::clone(&known.suited);
        }
        let suited = Arc::new(along.suit(settings));
        let known = Known { settings: *settings, along, suited: Arc::clone(&suited) };
        self.known[self.next] = Some(known);
        self.next = (self.next + 1) % SHARED_MAX;
        suited
    }
}

/// Settings as a program has said them, and what has become of them on a way.
#[derive(Debug)]
struct Known {
    settings: Settings,
    along: Along,
    suited: Arc<Settings>,
}

/// The settings that a route gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    /// The longest segments that the link carries.
    pub link_mss: u16,
    /// The longest segments that the path carries.
    pub path_mss: u16,
    /// The longest that have been found to arrive, where that is less than routers say.
    pub found_mss: Option<u16>,
    /// See [`Settings::safe_mss`].
    pub safe_mss: u16,
    /// See [`Settings::super_bytes`].
    pub super_bytes: u32,
    /// The route's [`Settings::initial_segments`]; 0: none.
    pub initial_segments: u32,
    /// The route's [`Settings::msl`], in milliseconds; 0: none.
    pub msl_ms: u32,
}

impl Along {
    /// `settings`, on this way.
    fn suit(&self, settings: &Settings) -> Settings {
        let path_mss = self.path_mss.min(settings.mss_max);
        let found = self.found_mss.filter(|_| settings.path_probes);
        let initial = self.initial_segments;
        Settings {
            mss: self.link_mss.min(settings.mss_max),
            path_mss: found.map_or(path_mss, |found| found.min(path_mss)),
            path_mss_max: path_mss,
            safe_mss: self.safe_mss,
            super_bytes: self.super_bytes,
            initial_segments: if initial > 0 { initial } else { settings.initial_segments },
            msl: if self.msl_ms > 0 { Duration::from_millis(self.msl_ms.into()) } else { settings.msl },
            ..*settings
        }
    }
}

/// Whether marks of routers are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Never.
    Off,
    /// If the other end asks.
    #[default]
    Passive,
    /// We ask.
    Active,
}

/// The options of RFC 7323.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extensions {
    /// Nothing of it.
    Off,
    /// Window scaling and timestamps.
    #[default]
    Both,
    /// Window scaling alone.
    Scale,
    /// Timestamps alone.
    Stamps,
}

impl Extensions {
    /// Whether windows are scaled.
    #[inline]
    #[must_use]
    pub const fn scales(self) -> bool {
        matches!(self, Self::Both | Self::Scale)
    }

    /// Whether segments bear timestamps.
    #[inline]
    #[must_use]
    pub const fn stamps(self) -> bool {
        matches!(self, Self::Both | Self::Stamps)
    }
}

impl Default for Uto {
    fn default() -> Self {
        Self {
            is_on: false,
            is_changeable: true,
            told: None,
            // RFC 9293 §3.8.3: what is sent again is given up after 100 s at the soonest.
            least: Duration::from_secs(100),
            most: Duration::from_secs(60 * 60),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mss_max: u16::MAX,
            mss: 1460,
            path_mss: 1460,
            path_mss_max: 1460,
            safe_mss: 536,
            path_probes: true,
            super_bytes: 0,
            receive_buffer: 65_536,
            receive_buffer_max: 2 << 20,
            tunes_receive: true,
            send_buffer: 32_768,
            send_buffer_max: 2 << 20,
            tunes_send: true,
            extensions: Extensions::default(),
            takes_unstamped: false,
            sack: true,
            ecn: Ecn::Passive,
            ecn_retries: 1,
            no_options: false,
            drops_options: false,
            fast_open: false,
            fast_open_max: 0,
            may_open_fast: true,
            signs: false,
            nodelay: false,
            cork: false,
            cork_max: None,
            quick_ack: false,
            urgent_inline: true,
            algorithm: Algorithm::Cubic,
            initial_segments: 10,
            initial_rto: rtt::INITIAL,
            rto: Bounds::default(),
            tail_loss_probe: true,
            rack: true,
            ncr: true,
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
            //# The value of R1 SHOULD correspond to at least 3 retransmissions, at
            //# the current RTO (SHLD-10).
            doubts_after: 3,
            retransmissions_max: 12,
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
            //# In particular, R2 for a
            //# SYN segment MUST be set large enough to provide retransmission of the
            //# segment for at least 3 minutes (MUST-23).
            establish_within: Duration::from_secs(180),
            keepalive: false,
            keep_idle: Duration::from_secs(2 * 60 * 60),
            keep_interval: Duration::from_secs(75),
            keep_count: 8,
            user_timeout: None,
            uto: Uto::default(),
            fin_wait_2: Duration::from_secs(60),
            delayed_ack: Duration::from_millis(40),
            msl: Duration::from_secs(30),
            backlog_max: 4096,
            reported_max: 32,
            insecure_rst: false,
            insecure_syn: false,
            drop_synfin: false,
            icmp_may_rst: true,
            resets_unread: true,
            bind_any: false,
            device: 0,
        }
    }
}
