//! A cache of peers: Fast Open cookies of servers (RFC 7413), and maximum segment sizes that routers
//! have said (RFC 1191 §6.3, RFC 8201 §5.3) or was found out where they do not say (RFC 4821).

use core::net::{IpAddr, Ipv6Addr};

use wire::tcp::Cookie;

use super::tcb::Opened;
use crate::base::time::{Duration, Instant};

/// Other ends that are remembered at the most; the one that was not used for longest makes room.
pub const PATHS_MAX: usize = 256;
/// Entries of one IPv6 /64, which may all be one host, at the most: the least recently used makes room.
const PATHS_OF_SITE_MAX: usize = 16;
/// Time for which Fast Open is not tried where it did not work (FreeBSD's `net.inet.tcp.fastopen.path_disable_time`).
const AVOID: Duration = Duration::from_secs(900);

/// Default maximum segment size (RFC 9293 §3.7.1).
const TAKES: u16 = 536;

/// Lifetime of a learnt segment size, as that of a path MTU.
const MSS_KEPT: Duration = Duration::from_secs(10 * 60);

/// The cache of paths to peers.
#[derive(Debug, Default)]
pub(super) struct Paths {
    paths: Vec<Path>,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    remote: IpAddr,
    cookie: Option<Cookie>,
    avoid_until: Instant,
    /// The longest segment that it takes, as it has said with its cookie.
    takes: u16,
    /// The longest segments that arrive, and until when that is believed.
    mss: Option<(u16, Instant)>,
    used: Instant,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Path>() <= 72);

impl Paths {
    /// Returns the Fast Open option of a SYN to `remote`: a cookie, the request for one, or none; and the SYN's length limit.
    pub(super) fn cookie(&mut self, remote: IpAddr, now: Instant) -> Option<(Cookie, u16)> {
        let Some(path) = self.paths.iter_mut().find(|path| path.remote == remote) else {
            return Some((Cookie::REQUEST, TAKES));
        };
        path.used = now;
        (path.avoid_until <= now).then(|| (path.cookie.unwrap_or(Cookie::REQUEST), path.takes))
    }

    /// Notes the result. A late reply may show that the path is open after all.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3.1
    pub(super) fn learn(&mut self, remote: IpAddr, opened: Opened, now: Instant) {
        let path = self.path(remote, now);
        path.takes = opened.mss.unwrap_or(path.takes);
        path.cookie = opened.cookie.or(path.cookie);
        match opened.taken {
            Some(1..) => path.avoid_until = Instant::START,
            None if opened.cookie.is_none() => path.avoid_until = now + AVOID,
            _ => {}
        }
    }

    /// The longest segments that arrive at `remote`, if that is less than the route says.
    pub(super) fn mss(&self, remote: IpAddr, now: Instant) -> Option<u16> {
        let path = self.paths.iter().find(|path| path.remote == remote)?;
        path.mss.filter(|(_, until)| *until > now).map(|(mss, _)| mss)
    }

    /// Segments of this length have arrived at `remote`, longer ones have not.
    pub(super) fn learn_mss(&mut self, remote: IpAddr, mss: u16, now: Instant) {
        self.path(remote, now).mss = Some((mss, now + MSS_KEPT));
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.paths = Vec::new();
    }

    fn path(&mut self, remote: IpAddr, now: Instant) -> &mut Path {
        let known = self.paths.iter().position(|path| path.remote == remote);
        let at = known.unwrap_or_else(|| self.place(remote));
        let new =
            Path { remote, cookie: None, avoid_until: Instant::START, takes: TAKES, mss: None, used: now };
        if at == self.paths.len() {
            self.paths.push(new);
        } else if known.is_none() {
            self.paths[at] = new;
        }
        &mut self.paths[at]
    }

    /// Where the next one has its place.
    fn place(&self, remote: IpAddr) -> usize {
        let all = || self.paths.iter().enumerate();
        let of_site = || all().filter(|(_, path)| site(path.remote) == site(remote));
        let is_site_full = of_site().count() >= PATHS_OF_SITE_MAX;
        let oldest = if is_site_full {
            of_site().min_by_key(|(_, path)| path.used)
        } else {
            all().min_by_key(|(_, path)| path.used)
        };
        let is_room = !is_site_full && self.paths.len() < PATHS_MAX;
        if is_room { self.paths.len() } else { oldest.map_or(0, |(at, _)| at) }
    }
}

/// An address, or of IPv6 its /64.
fn site(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => addr,
        IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(at: u16) -> [IpAddr; 2] {
        let [high, low] = at.to_be_bytes();
        [[192, 0, high, low].into(), [0x2001, 0xdb8, 0, at, 0, 0, 0, 1].into()]
    }

    fn known(paths: &mut Paths, remote: IpAddr, now: Instant) -> Option<Cookie> {
        paths.cookie(remote, now).map(|(cookie, _)| cookie)
    }

    #[test]
    fn how_long_a_syn_may_be_is_remembered_with_the_cookie() {
        for remote in host(1) {
            let (mut paths, now) = (Paths::default(), Instant::START);
            let (cookie, taken) = (Cookie::new(&[1; 8]), Some(100));
            paths.learn(remote, Opened { cookie, taken, mss: Some(940) }, now);
            assert_eq!(paths.cookie(remote, now), cookie.map(|cookie| (cookie, 940)));
            paths.learn(remote, Opened { cookie: None, taken, mss: Some(1300) }, now);
            assert_eq!(paths.cookie(remote, now), cookie.map(|cookie| (cookie, 1300)));
        }
    }

    #[test]
    fn a_cookie_is_used_until_there_is_another_and_a_path_without_one_is_left_alone_for_a_while() {
        let (first, second) = (Cookie::new(&[1; 8]), Cookie::new(&[2; 6]));
        for remote in host(1) {
            let (mut paths, now) = (Paths::default(), Instant::START);
            assert_eq!(paths.cookie(remote, now), Some((Cookie::REQUEST, TAKES)));
            paths.learn(remote, Opened { cookie: first, taken: None, mss: None }, now);
            assert_eq!(known(&mut paths, remote, now), first);
            paths.learn(remote, Opened { cookie: None, taken: Some(100), mss: None }, now);
            assert_eq!(known(&mut paths, remote, now), first);
            paths.learn(remote, Opened { cookie: second, taken: None, mss: None }, now);
            assert_eq!(known(&mut paths, remote, now), second);
            paths.learn(remote, Opened { cookie: None, taken: None, mss: None }, now);
            assert_eq!(paths.cookie(remote, now), None);
            assert_eq!(known(&mut paths, remote, now + AVOID), second);
            paths.clear();
            assert_eq!(paths.cookie(remote, now), Some((Cookie::REQUEST, TAKES)));
        }
    }

    #[test]
    fn a_path_is_tried_again_as_soon_as_data_of_a_syn_was_taken() {
        let cookie = Cookie::new(&[1; 8]);
        for remote in host(1) {
            let (mut paths, now) = (Paths::default(), Instant::START + Duration::from_secs(1));
            paths.learn(remote, Opened { cookie, taken: None, mss: None }, now);
            for (taken, is_tried) in [(None, false), (Some(0), false), (Some(1), true)] {
                paths.learn(remote, Opened { cookie: None, taken, mss: None }, now);
                assert_eq!(known(&mut paths, remote, now).is_some(), is_tried, "{taken:?} bytes");
            }
        }
    }

    #[test]
    fn when_there_are_as_many_as_may_be_the_one_unused_for_longest_makes_room() {
        let cookie = Cookie::new(&[1; 8]);
        for family in 0..2 {
            let mut paths = Paths::default();
            let at = |ms| Instant::START + Duration::from_millis(ms);
            for server in 0..256 {
                paths.learn(
                    host(server)[family],
                    Opened { cookie, taken: None, mss: None },
                    at(server.into()),
                );
            }
            assert_eq!(known(&mut paths, host(0)[family], at(300)), cookie, "used again");
            paths.learn(host(256)[family], Opened { cookie, taken: None, mss: None }, at(301));
            let is_known =
                |server: u16, paths: &mut Paths| known(paths, host(server)[family], at(302)) == cookie;
            assert!(is_known(0, &mut paths) && is_known(256, &mut paths) && !is_known(1, &mut paths));
            assert_eq!(paths.paths.len(), PATHS_MAX);
        }
    }

    #[test]
    fn one_network_of_ipv6_takes_no_more_than_its_share() {
        let (mut paths, now) = (Paths::default(), Instant::START);
        let friend = host(1)[1];
        paths.learn_mss(friend, 1200, now);
        for at in 0..1000 {
            let later = now + Duration::from_millis(at);
            paths.learn_mss([0x3fff, 0, 0, 0, 0, 0, 0, u16::try_from(at).unwrap_or(0)].into(), 216, later);
        }
        assert_eq!((paths.mss(friend, now), paths.paths.len()), (Some(1200), 1 + PATHS_OF_SITE_MAX));
    }
}
