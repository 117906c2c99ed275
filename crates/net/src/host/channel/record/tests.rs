use super::*;
use crate::host::channel::bytes::RECORD;

fn addrs() -> [SocketAddr; 2] {
    [([10, 0, 1, 2], 80).into(), ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfff], 65_535).into()]
}

fn commands() -> Vec<Command> {
    let settings = (0..=u8::MAX).filter_map(|which| Setting::of(which, 1));
    let mut all: Vec<_> = settings
        .flat_map(|set| [Target::Lane(7), Target::Listener(9)].map(|at| Command::Set(at, set)))
        .collect();
    for addr in addrs() {
        let (lane, zone) = (u32::MAX, 3);
        all.push(Command::Connect(Connect {
            lane,
            remote: addr,
            local: Some(addr.ip()),
            port: Some(9),
            zone,
        }));
        all.push(Command::Connect(Connect { lane, remote: addr, local: None, port: None, zone: 0 }));
        let (listener, backlog) = (5, Some(128));
        all.push(Command::Listen(Listen { listener, addr, zone, only_v6: true, is_shared: false, backlog }));
        all.push(Command::Listen(Listen {
            listener,
            addr,
            zone,
            only_v6: false,
            is_shared: true,
            backlog: None,
        }));
    }
    all.push(Command::Open { listener: 5, backlog: 7 });
    for addr in addrs() {
        let (question, zone) = (Question { lane: 3, serial: u32::MAX }, 7);
        let bind = Bind {
            addr,
            zone,
            only_v6: addr.is_ipv6(),
            is_shared: addr.is_ipv4(),
            bind_any: addr.is_ipv6(),
            device: zone,
        };
        let on = Link { addr: addr.ip(), ifindex: 9 };
        let of = Sender::Only(addr.ip());
        let join = Join { group: addr.ip(), on, joins: true, of };
        all.push(Command::Bind(question, bind));
        all.push(Command::Speak { question, remote: addr, zone });
        all.push(Command::Join(question, join));
        all.push(Command::Join(question, Join { of: Sender::Named, ..join }));
        all.push(Command::Join(question, Join { of: Sender::AllButNamed, ..join }));
        all.push(Command::Name { lane: 3, sender: addr.ip() });
        all.push(Command::GroupsBy(question, on));
    }
    all.push(Command::Vacate(Question { lane: 11, serial: 12 }));
    all.extend([Command::Offer { listener: 1, lane: 2 }, Command::Unlisten(3)]);
    all.extend([Command::Look(4), Command::Close { lane: 5, aborts: true }]);
    all
}

fn events() -> Vec<Event> {
    let mut all = vec![Event::Listening(1, Err(Error::AddrInUse))];
    for addr in addrs() {
        let ends = FourTuple::new(addr, addr, 0);
        all.push(Event::Listening(1, Ok(addr)));
        all.push(Event::Accepted { listener: 2, lane: 3, ends });
        all.push(Event::Connected(4, ends));
        let question = Question { lane: 5, serial: 6 };
        all.push(Event::Answer(question, Ok(addr)));
        all.push(Event::Answer(question, Err(Error::Elsewhere(crate::turn::cpu::CpuId(3)))));
        all.push(Event::Quote(9, Quote { len: 3, bytes: [7; QUOTE_PART] }));
        all.push(Event::Failed(7, Failure { to: addr, error: Error::Refused, icmp: None }));
        let icmp = Icmp { from: addr.ip(), kind: 3, code: 4, info: 1280 };
        let error = Error::TooBig { mtu: 1280 };
        all.push(Event::Failed(8, Failure { to: addr, error, icmp: Some(icmp) }));
    }
    let lane = 1 << 20;
    all.extend([Event::Readable(lane), Event::Writable(lane), Event::Ended(lane), Event::Free(lane)]);
    all.push(Event::Unlistened(5));
    all
}

#[test]
fn what_is_said_is_what_is_heard() {
    for command in commands() {
        assert_eq!(Command::decode(&command.encode()), Some(command));
    }
    for event in events() {
        assert_eq!(Event::decode(&event.encode()), Some(event));
    }
}

#[test]
fn what_is_no_record_is_not_taken_for_one() {
    for what in [0, 12, 255] {
        assert_eq!(Command::decode(&[what; RECORD]), None);
    }
    assert_eq!(Event::decode(&[0; RECORD]), None);
    assert_eq!(Event::decode(&[14; RECORD]), None);
    let listens = |command: &Command| matches!(command, Command::Listen(_));
    let mut family = commands().iter().find(|command| listens(command)).unwrap().encode();
    family[5] = 5;
    assert_eq!(Command::decode(&family), None, "an address of no family");
    let mut setting = commands()[0].encode();
    setting[6] = u8::MAX;
    assert_eq!(Command::decode(&setting), None, "a setting that there is not");
}
