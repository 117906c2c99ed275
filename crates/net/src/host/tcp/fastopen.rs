//! Fast Open cookies (RFC 7413 §4.1.2): proof that a client was at its address not long ago, made of the two
//! addresses and a key that all CPUs have.

use core::hash::{Hash, Hasher};

use wire::tcp::Cookie;

use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::host::pcb::FourTuple;
use crate::turn::cpu::Cpu;

/// Lifetime of a random cookie key (FreeBSD's `net.inet.tcp.fastopen.autokey`).
pub(crate) const KEY_LIFE: Duration = Duration::from_secs(120);

/// The keys of cookies; without one none are given.
#[derive(Default)]
pub struct Opener(Keys);

/// Keys.
#[derive(Default)]
enum Keys {
    #[default]
    None,
    /// The one that was told last, and the one before it.
    Told([Option<u128>; 2]),
    /// Each follows from this one and the time.
    Drawn(u128),
}

/// Sets the `key` of Fast Open cookies on this CPU; the other CPUs have to be told as well, and
/// get the same. Cookies of the previous key are still good, so that keys can be changed often: a client
/// asks for another cookie when it has come twice.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.2
pub fn set_cookie_key(cpu: &mut Cpu, key: u128) {
    let newest = match core::mem::take(&mut cpu.opener.0) {
        Keys::Told([newest, _]) => newest,
        Keys::None | Keys::Drawn(_) => None,
    };
    cpu.opener.0 = Keys::Told([Some(key), newest]);
}

/// From now on, cookies are made with keys that follow from `key`, which all CPUs get, and from the time: each is used for two
/// minutes, and good for as long again.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.2
pub fn draw_cookie_keys(cpu: &mut Cpu, key: u128) {
    cpu.opener.0 = Keys::Drawn(key);
}

impl Opener {
    /// The cookie that a client is given; `None` without a key.
    pub(super) fn cookie(&self, ends: &FourTuple, now: Instant) -> Option<Cookie> {
        let [newest, _] = self.keys(now);
        newest.and_then(|key| bake(&key, ends))
    }

    /// Whether a client may open with this cookie.
    pub(super) fn is_good(&self, ends: &FourTuple, cookie: Cookie, now: Instant) -> bool {
        self.keys(now).iter().flatten().any(|key| bake(key, ends) == Some(cookie))
    }

    /// The key of now, and the one before it.
    fn keys(&self, now: Instant) -> [Option<Secret>; 2] {
        match &self.0 {
            Keys::None => [const { None }; 2],
            Keys::Told(keys) => keys.map(|key| key.map(Secret::new)),
            Keys::Drawn(from) => {
                let nth = now.ns() / KEY_LIFE_NS;
                [Some(nth), nth.checked_sub(1)].map(|nth| Some(drawn(*from, nth?)))
            }
        }
    }
}

const KEY_LIFE_NS: u64 = KEY_LIFE.as_secs() * 1_000_000_000;

fn drawn(from: u128, nth: u64) -> Secret {
    let half = |which: u64| {
        let mut hasher = Secret::new(from).hasher();
        (which, nth).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    Secret::new(half(0) << 64 | half(1))
}

fn bake(key: &Secret, ends: &FourTuple) -> Option<Cookie> {
    let mut hasher = key.hasher();
    (ends.remote, ends.local).hash(&mut hasher);
    Cookie::new(&hasher.finish().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Bench;

    #[test]
    fn a_cookie_is_good_for_two_addresses_on_all_cpus_and_until_the_key_has_changed_twice() {
        let at = |addr: &str| addr.parse().unwrap();
        for [us, them, another] in [
            ["10.0.0.1:80", "10.0.0.2:5000", "10.0.0.3:5000"],
            ["[2001:db8::1]:80", "[2001:db8::2]:5000", "[2001:db8::3]:5000"],
        ] {
            let mut bench = Bench::with(1, 2, |_| ());
            let ends = FourTuple::new(at(us), at(them), 0);
            let later = FourTuple { remote_port: 5001, local_port: 81, ..ends };
            let another = FourTuple::new(at(us), at(another), 0);
            let set = |bench: &mut Bench, key| {
                bench.netisrs.iter_mut().for_each(|netisr| set_cookie_key(&mut netisr.cpu, key));
            };
            let now = bench.cpu().now;
            assert_eq!(bench.cpu().opener.cookie(&ends, now), None, "there is no key");
            set(&mut bench, 1);
            let cookie = bench.cpu().opener.cookie(&ends, now).unwrap();
            for key in 2..5 {
                for netisr in &bench.netisrs {
                    let opener = &netisr.cpu.opener;
                    assert_eq!(opener.is_good(&later, cookie, now), key < 4, "key {key}");
                    assert!(!opener.is_good(&another, cookie, now));
                    assert!(!opener.is_good(&ends, Cookie::REQUEST, now));
                }
                set(&mut bench, key);
            }
        }
    }

    #[test]
    fn fast_open_keys_rotate_every_two_minutes_and_stay_valid_for_two_more_on_all_cpus() {
        let mut bench = Bench::with(1, 2, |_| ());
        bench.netisrs.iter_mut().for_each(|netisr| draw_cookie_keys(&mut netisr.cpu, 9));
        let at = |addr: &str| addr.parse().unwrap();
        let ends = FourTuple::new(at("10.0.0.1:80"), at("10.0.0.2:5000"), 0);
        let [here, there] = [0, 1].map(|cpu| &bench.netisrs[cpu].cpu.opener);
        let second = |second| Instant::START + Duration::from_secs(second);
        let cookie = here.cookie(&ends, second(130)).unwrap();
        for (when, is_same, is_good) in [
            (119, false, false),
            (120, true, true),
            (239, true, true),
            (240, false, true),
            (359, false, true),
            (360, false, false),
        ] {
            assert_eq!(there.cookie(&ends, second(when)) == Some(cookie), is_same, "{when} s");
            assert_eq!(there.is_good(&ends, cookie, second(when)), is_good, "{when} s");
        }
        assert!(here.cookie(&ends, second(0)).is_some());
    }
}
