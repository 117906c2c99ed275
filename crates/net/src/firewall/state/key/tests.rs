use super::*;
use crate::link::tables::IfIndex;
use crate::testkit::link::{FAMILIES, Family};
use ipfw::rule::Hook;

const NOBODY: IfIndex = 0;

fn info(family: Family, proto: Protocol, src: End, dst: End) -> PktInfo {
    PktInfo {
        hook: Hook::Ingress,
        is_ip4: family == Family::V4,
        part: Part::Whole,
        proto: proto.0,
        src: src.addr,
        dst: dst.addr,
        src_port: src.port,
        dst_port: dst.port,
        tcp_flags: 0,
        l4: 20,
        recv: NOBODY,
        xmit: NOBODY,
        tag: 0,
    }
}

fn icmp(family: Family, src: u128, dst: u128, kind: u8, id: u16) -> Option<Flow> {
    let proto = if family == Family::V4 { Protocol::ICMP } else { Protocol::ICMP6 };
    let [src, dst] = [src, dst].map(|addr| End { addr, port: 77 });
    let mut l4 = [0; WINDOW];
    l4[0] = kind;
    l4[4..6].copy_from_slice(&id.to_be_bytes());
    Flow::of_parts(&info(family, proto, src, dst), &l4)
}

#[test]
fn both_directions_have_one_key_and_other_flows_have_another() {
    let ends = |far: u128| (0..9).map(move |n| End { addr: [1, 2, far][n / 3], port: [7, 8, 65535][n % 3] });
    let flows: Vec<Flow> = [(true, 6, 1 << 31), (false, 6, 1 << 64), (true, 17, 1 << 31)]
        .into_iter()
        .flat_map(|(is_ip4, proto, far)| {
            ends(far).flat_map(move |a| ends(far).map(move |b| Flow::new(is_ip4, proto, a, b)))
        })
        .collect();
    for one in &flows {
        let [src, dst] = one.ends();
        let back = Flow::new(one.key.is_ip4(), one.key.proto(), dst, src);
        assert_eq!(back.key, one.key);
        assert_eq!(back.is_downward == one.is_downward, src == dst, "{one:?}");
        assert_eq!((one.reversed(), back.reversed()), (back, *one));
        let same = flows.iter().filter(|other| other.key == one.key).count();
        assert_eq!(same, if src == dst { 1 } else { 2 }, "{one:?}");
    }
}

#[test]
fn an_answer_belongs_to_its_question_and_a_question_back_is_another_flow() {
    for family in FAMILIES {
        let (question, answer) = if family == Family::V4 { (8, 0) } else { (128, 129) };
        for (a, b) in [(1, 2), (2, 1), (3, 3)] {
            let asked = icmp(family, a, b, question, 5).unwrap();
            let answered = icmp(family, b, a, answer, 5).unwrap();
            assert!(answered.key == asked.key && answered.is_downward != asked.is_downward);
            let others = [(b, a, answer, 6), (a, b, answer, 5), (b, a, question, 5)];
            // To itself a host asks and answers both ways.
            for (src, dst, kind, id) in others.into_iter().filter(|(.., id)| a != b || *id != 5) {
                assert_ne!(icmp(family, src, dst, kind, id).unwrap().key, asked.key, "{family:?}: {kind}");
            }
        }
    }
}

#[test]
fn errors_and_later_fragments_name_no_flow_and_other_protocols_have_no_ports() {
    for family in FAMILIES {
        let errors: &[u8] = if family == Family::V4 { &[3, 4, 5, 11, 12] } else { &[1, 2, 3, 4, 100, 127] };
        assert!(errors.iter().all(|kind| icmp(family, 1, 2, *kind, 5).is_none()));
        let [src, dst] = [1, 2].map(|addr| End { addr, port: 9 });
        let of =
            |proto, part| Flow::of_parts(&PktInfo { part, ..info(family, proto, src, dst) }, &[0; WINDOW]);
        assert_eq!(of(Protocol::UDP, Part::Later), None);
        assert_eq!(of(Protocol::UDP, Part::First).unwrap().ends(), [src, dst]);
        assert_eq!(of(Protocol::SCTP, Part::Whole).unwrap().ends(), [src, dst]);
        assert_eq!(of(Protocol::GRE, Part::Whole).unwrap().ends().map(|end| end.port), [0, 0]);
    }
}
