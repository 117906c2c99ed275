//! The cookie that scripts mean by `TFO_COOKIE`: the one that this host gives, of which each stack has its own
//! (RFC 7413 §4.1.2). It is asked for on the wire, of a host with the same keys.

use drill::Script;
use drill::packet::{Cookie, Packet, Payload, TcpOption, TcpOptions};
use drill::script::Action;

use super::super::Setup;
use super::super::play::Play;

/// Its name in scripts.
const NAME: &str = "TFO_COOKIE";
/// Asks a listener for one.
const ASK: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, IPPROTO_TCP, TCP_FASTOPEN, [1], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 1000 <mss 1000,FO,nop,nop>
";

/// The script with the host's cookie wherever it is named; `None` if it is named nowhere.
pub(in super::super) fn named(script: &Script, setup: &Setup) -> Option<Script> {
    let like = script;
    let mut script = script.clone();
    let places = script.events.iter_mut().filter_map(|event| match &mut event.action {
        Action::Packet(packet) => Some(packet),
        _ => None,
    });
    let places = places.flat_map(cookies).filter(|place| matches!(place, Cookie::Name(name) if name == NAME));
    let places: Vec<_> = places.collect();
    if places.is_empty() {
        return None;
    }
    let cookie = asked(like, setup)?;
    places.into_iter().for_each(|place| *place = cookie.clone());
    Some(script)
}

fn cookies(packet: &mut Packet) -> impl Iterator<Item = &mut Cookie> {
    let list = match &mut packet.payload {
        Payload::Tcp(tcp) => match &mut tcp.options.value {
            TcpOptions::List(list) => list.as_mut_slice(),
            _ => &mut [],
        },
        _ => &mut [],
    };
    list.iter_mut().filter_map(|option| match &mut option.value {
        TcpOption::FastOpen(cookie) | TcpOption::FastOpenExp(cookie) => Some(cookie),
        _ => None,
    })
}

/// Returns the cookie of a host with these keys and addresses.
fn asked(like: &Script, setup: &Setup) -> Option<Cookie> {
    let mut ask = drill::parse(NAME, ASK, &[]).ok()?;
    ask.options.clone_from(&like.options);
    let mut answer = Play::new(&ask, setup).ok()?.hear()?;
    cookies(&mut answer).next().cloned()
}
