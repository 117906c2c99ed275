//! Cookies for who opens fast (RFC 7413 §4.1.2): proof that a client was at its address not long ago, made of the two
//! addresses and a key that all CPUs have.

use core::hash::{Hash, Hasher};

use wire::tcp::Cookie;

use super::input::pcbs;
use crate::cpu::Cpu;
use crate::pcb::Ends;
use crate::secret::Secret;

/// The key that cookies are made with, and the one before it.
#[derive(Default)]
pub(super) struct Opener {
    keys: [Option<Secret>; 2],
}

/// From now on, cookies for who opens fast are made with `key`, on this CPU; the other CPUs have to be told as well, and
/// get the same. Those that were made with the key before it are still good, so that keys can be changed often: a client
/// asks for another cookie when it has come twice.
//= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.2
pub fn set_cookie_key(cpu: &mut Cpu, key: u128) {
    let keys = &mut pcbs(cpu).opener.keys;
    let [newest, _] = core::mem::take(keys);
    *keys = [Some(Secret::new(key)), newest];
}

impl Opener {
    /// The cookie that a client is given; `None` before there is a key.
    pub(super) fn cookie(&self, ends: &Ends) -> Option<Cookie> {
        self.keys[0].as_ref().and_then(|key| bake(key, ends))
    }

    /// Whether a client may open with this cookie.
    pub(super) fn is_good(&self, ends: &Ends, cookie: Cookie) -> bool {
        self.keys.iter().flatten().any(|key| bake(key, ends) == Some(cookie))
    }
}

fn bake(key: &Secret, ends: &Ends) -> Option<Cookie> {
    let mut hasher = key.hasher();
    (ends.remote, ends.local).hash(&mut hasher);
    Cookie::new(&hasher.finish().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Bench;

    #[test]
    fn a_cookie_is_good_for_two_addresses_on_all_cpus_and_until_the_key_has_changed_twice() {
        let at = |addr: &str| addr.parse().unwrap();
        for [us, them, another] in [
            ["10.0.0.1:80", "10.0.0.2:5000", "10.0.0.3:5000"],
            ["[2001:db8::1]:80", "[2001:db8::2]:5000", "[2001:db8::3]:5000"],
        ] {
            let mut bench = Bench::with(1, 2, |_| ());
            let ends = Ends::new(at(us), at(them), 0);
            let later = Ends { remote_port: 5001, local_port: 81, ..ends };
            let another = Ends::new(at(us), at(another), 0);
            let set = |bench: &mut Bench, key| {
                bench.netisrs.iter_mut().for_each(|netisr| set_cookie_key(&mut netisr.cpu, key));
            };
            pcbs(bench.cpu());
            assert_eq!(bench.cpu().tcp.as_ref().unwrap().opener.cookie(&ends), None, "there is no key");
            set(&mut bench, 1);
            let cookie = bench.cpu().tcp.as_ref().unwrap().opener.cookie(&ends).unwrap();
            for key in 2..5 {
                for netisr in &bench.netisrs {
                    let opener = &netisr.cpu.tcp.as_ref().unwrap().opener;
                    assert_eq!(opener.is_good(&later, cookie), key < 4, "key {key}");
                    assert!(!opener.is_good(&another, cookie) && !opener.is_good(&ends, Cookie::REQUEST));
                }
                set(&mut bench, key);
            }
        }
    }
}
