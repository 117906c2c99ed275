//! Our own scripts: each is read, and what is printed of it is read as the same.
use drill::packet::{Direction, Ecn, Flags, Payload, SeqStart, TcpOption, TcpOptions};
use drill::script::IpVersion;
use drill::{Action, Script, Time};

fn read(name: &str) -> Script {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    drill::parse(name, &text, &[drill::STANDARD]).unwrap_or_else(|errors| unreachable!("{}", errors[0]))
}

fn what_is_printed_of_a_script_is_read_as_that_script() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let script = read(&name);
        let printed = script.to_string();
        let again = drill::parse(&name, &printed, &[]).unwrap_or_else(|errors| unreachable!("{}", errors[0]));
        assert_eq!(again, script, "{printed}");
        assert_eq!(again.to_string(), printed);
    }
}

fn options_and_commands_around_the_events_are_found() {
    let script = read("server-ipv4.pkt");
    assert_eq!(script.ip_version(), Some(IpVersion::Ipv4));
    assert_eq!(script.tolerance(), Some(core::time::Duration::from_millis(10)));
    assert_eq!((script.number("mtu"), script.number("mss")), (Some(1500), None));
    assert!(script.init.is_none());
    assert_eq!(script.cleanup.unwrap().value.0, "sysctl -w net.inet.tcp.sack.enable=1");
    let script = read("options.pkt");
    assert_eq!(script.init.as_ref().unwrap().value.0, "setkey -F");
    assert_eq!(script.definition("COOKIE").unwrap().to_string(), "0123456789abcdef");
    assert_eq!(script.definition("CLEAN").unwrap().to_string(), "`rm -f /tmp/x`");
    assert!(script.definition("OTHER").is_none());
}

fn a_segment_has_its_fields_and_each_its_place() {
    let script = read("server-ipv4.pkt");
    let event = &script.events[6];
    assert_eq!(event.time.value, Time::Relative(core::time::Duration::ZERO));
    let Action::Packet(packet) = &event.action else { unreachable!("{event}") };
    let Payload::Tcp(tcp) = &packet.payload else { unreachable!("{event}") };
    assert_eq!(packet.direction, Direction::Outbound);
    assert_eq!(tcp.flags.value, Flags::SYN.with(Flags::ACK));
    assert_eq!((tcp.seq.start, tcp.seq.len), (SeqStart::Relative(0), 0));
    assert_eq!((tcp.ack.map(|ack| ack.value), tcp.window.map(|win| win.value)), (Some(1), Some(65535)));
    let TcpOptions::List(options) = &tcp.options.value else { unreachable!("{event}") };
    let options: Vec<&TcpOption> = options.iter().map(|option| &option.value).collect();
    assert_eq!(options, [&TcpOption::Mss(1460), &TcpOption::SackPermitted, &TcpOption::Eol, &TcpOption::Eol]);
    let places = [event.time.pos, packet.pos, tcp.flags.pos, tcp.seq.pos, tcp.ack.unwrap().pos];
    assert_eq!(places.map(|pos| (pos.line, pos.column)), [(12, 1), (12, 7), (12, 9), (12, 15), (12, 35)]);
}

fn the_number_behind_the_flags_is_the_three_bits_of_accurate_ecn() {
    let script = read("ecn.pkt");
    let segments: Vec<_> = script
        .events
        .iter()
        .filter_map(|event| match &event.action {
            Action::Packet(packet) => match &packet.payload {
                Payload::Tcp(tcp) => Some((packet.ip, tcp.flags.value)),
                Payload::Udp(_) | Payload::Icmp(_) => None,
            },
            _ => None,
        })
        .collect();
    let (ip, flags) = segments[2];
    assert_eq!(ip.ecn.unwrap().value, Ecn::Ce);
    assert_eq!(flags, Flags::PSH.with(Flags::ACK).with(Flags::AE).with(Flags::ECE));
    let (ip, flags) = segments[7];
    assert_eq!((ip.dscp.unwrap().value, ip.ecn.unwrap().value), (0, Ecn::Ce));
    assert_eq!(flags, Flags::FIN.with(Flags::ACK));
    assert_eq!(segments[8].1, Flags::default());
}

fn numbers_of_icmp_depend_on_the_version_of_ip() {
    let script = read("client-ipv6.pkt");
    let icmp = script.events.iter().find_map(|event| match &event.action {
        Action::Packet(packet) => match &packet.payload {
            Payload::Icmp(icmp) => Some(icmp),
            Payload::Tcp(_) | Payload::Udp(_) => None,
        },
        _ => None,
    });
    let (kind, code) = icmp.map(|icmp| (icmp.kind.value, icmp.code.unwrap().value)).unwrap();
    assert_eq!((kind.number(false), code.number(kind, false)), (Some(3), Some(3)));
    assert_eq!((kind.number(true), code.number(kind, true)), (Some(1), Some(4)));
}

fn branches_are_taken_as_names_are_defined() {
    assert_eq!(
        read("branches.pkt").to_string(),
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 listen(3, 1) = 0\n+0 listen(3, 3) = 0\n+0 close(3) = 0\n"
    );
}

harness::tests![
    what_is_printed_of_a_script_is_read_as_that_script,
    options_and_commands_around_the_events_are_found,
    a_segment_has_its_fields_and_each_its_place,
    the_number_behind_the_flags_is_the_three_bits_of_accurate_ecn,
    numbers_of_icmp_depend_on_the_version_of_ip,
    branches_are_taken_as_names_are_defined
];
