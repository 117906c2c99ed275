use proptest::prelude::*;

use super::*;

/// Messages of a whole life of a lease, of the client and of the server.
fn seeds() -> Vec<Vec<u8>> {
    let request = |kind: Kind, options: &[(u8, &[u8])]| {
        let mut message = Message::request(0, MAC);
        message.put(option::MESSAGE_TYPE, &[kind as u8]);
        options.iter().for_each(|(code, value)| message.put(*code, value));
        message
    };
    let (own, wanted) = (OWN.octets(), POOL.1.octets());
    let asks: &[(u8, &[u8])] = &[(option::SERVER, &own), (option::REQUESTED_ADDRESS, &wanted)];
    let gives: &[(u8, &[u8])] = &[
        (option::SERVER, &own),
        (option::LEASE_TIME, &[0, 0, 3, 32]),
        (option::SUBNET_MASK, &[255, 255, 255, 0]),
        (option::ROUTER, &own),
        (option::RENEWAL_TIME, &[0, 0, 1, 0]),
        (option::REBINDING_TIME, &[0, 0, 2, 0]),
        (option::CLASSLESS_ROUTES, &[0, 192, 0, 2, 1]),
        (option::RELAY_AGENT, &[1, 3, b'l', b'a', b'n']),
    ];
    let reply = |kind| Message { is_reply: true, yiaddr: POOL.1, giaddr: OWN, ..request(kind, gives) };
    let renews = Message { ciaddr: POOL.1, ..request(Kind::Request, &[]) };
    let all = [
        request(Kind::Discover, &[]),
        request(Kind::Discover, &[(option::CLIENT_ID, &[1, 2, 3])]),
        request(Kind::Request, asks),
        renews,
        request(Kind::Decline, asks),
        Message { ciaddr: POOL.1, ..request(Kind::Release, asks) },
        Message { ciaddr: POOL.1, ..request(Kind::Inform, &[]) },
        reply(Kind::Offer),
        reply(Kind::Ack),
        reply(Kind::Nak),
    ];
    all.iter().map(Message::to_bytes).collect()
}

/// A message for one of the ends, with some of its bytes changed, and perhaps cut off.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let message = (
        prop::sample::select(seeds()),
        changes,
        proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    );
    (any::<u8>(), message).prop_map(|(choice, (mut bytes, changes, cut))| {
        // Most of it is padding: what is behind the options hardly matters.
        for (at, value) in changes {
            let at = if value % 2 == 0 { at.index(bytes.len()) } else { 236 + at.index(40) };
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let [high, low] = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[choice, high, low][..], &bytes].concat()
    })
}

proptest! {
    #[test]
    fn dhcp_messages_of_any_kind_leave_server_client_and_relay_sound(steps in proptest::collection::vec(step(), 0..40)) {
        dhcp(&steps.concat());
    }

    #[test]
    fn dhcp_bytes_of_any_kind_are_read_or_refused(data in proptest::collection::vec(any::<u8>(), 0..2000)) {
        dhcp(&data);
    }
}
