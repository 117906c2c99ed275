//! Peers that misbehave while they introduce themselves. Each is told why it is refused, the operator is told the same,
//! and the next peer is accepted.

use std::os::fd::OwnedFd;

use dev::memif::msg::{AddRing, Direction, Hello, Init, Msg, Name};
use dev::memif::{Fault, Role, State};
use rustix::fs::SealFlags;

use crate::memif::end::{End, Place, until};
use crate::memif::rogue_peer::{BYTES, COOKIE, RINGS, RoguePeer, bell, hello, init, memfd, region, ring};

/// Our master, a crook that does `wrong`, and what comes of it; afterwards an honest slave is served.
fn master_refuses(fault: &Fault, wrong: impl FnOnce(&mut RoguePeer)) {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let mut rogue = RoguePeer::connect(&place);
    wrong(&mut rogue);
    let told = rogue.farewell();
    until("it is written down", || master.last_fault().is_some());
    assert_eq!(master.last_fault().as_ref(), Some(fault));
    let said = Name::new(&fault.to_string()).to_string();
    assert!(told.starts_with(&said), "{told}");
    assert_eq!((master.status().ends, master.status().state), (1, State::Waiting));
    let mut slave = End::open(place.options(Role::Slave));
    until("an honest one is served", || master.is_up() && slave.is_up());
}

/// Our slave, a master that does `wrong`, and what comes of it; afterwards an honest master is found.
fn slave_refuses(fault: &Fault, wrong: impl FnOnce(&mut RoguePeer)) {
    let place = Place::new();
    let listener = RoguePeer::listen(&place);
    let mut slave = End::open(place.options(Role::Slave));
    let mut rogue = RoguePeer::accept(&listener);
    wrong(&mut rogue);
    let told = rogue.farewell();
    until("it is written down", || slave.status().ends > 0);
    assert_eq!(slave.last_fault().as_ref(), Some(fault));
    assert!(told.starts_with(&Name::new(&fault.to_string()).to_string()), "{told}");
    drop(listener);
    let mut master = End::open(place.options(Role::Master));
    until("an honest one is found", || master.is_up() && slave.is_up());
}

fn init_with(change: impl FnOnce(&mut Init)) -> Msg {
    let Msg::Init(mut wanted) = init() else { panic!() };
    change(&mut wanted);
    Msg::Init(wanted)
}

fn a_wrong_introduction() {
    let order = |got| Fault::Order { got, due: "INIT" };
    master_refuses(&order("CONNECT"), |rogue| rogue.say(&Msg::Connect(Name::new("x")), &[]));
    master_refuses(&order("HELLO"), |rogue| rogue.say(&hello(), &[]));
    master_refuses(&order("ACK"), |rogue| rogue.say(&Msg::Ack, &[]));
    master_refuses(&Fault::MessageLength(127), |rogue| rogue.say_bytes(&[0; 127], &[]));
    master_refuses(&Fault::MessageLength(1), |rogue| rogue.say_bytes(&[0; 1], &[]));
    master_refuses(&Fault::MessageLength(129), |rogue| rogue.say_bytes(&[0; 100_000], &[]));
    master_refuses(&Fault::MessageType(0), |rogue| rogue.say_bytes(&[0; 128], &[]));
    master_refuses(&Fault::MessageType(0x0909), |rogue| rogue.say_bytes(&[9; 128], &[]));
    master_refuses(&Fault::Version(0x0100, 0x0100), |rogue| {
        rogue.say(&init_with(|init| init.version = 0x0100), &[]);
    });
    master_refuses(&Fault::Mode(1), |rogue| rogue.say(&init_with(|init| init.mode = 1), &[]));
    master_refuses(&Fault::NoSuchId(7), |rogue| rogue.say(&init_with(|init| init.id = 7), &[]));
}

fn a_wrong_region() {
    let offers = |index, size, fd: Option<OwnedFd>| {
        move |rogue: &mut RoguePeer| {
            rogue.hear();
            rogue.agree(&init(), &[]);
            let fds: Vec<_> = fd.iter().collect();
            rogue.say(&region(index, size), &fds);
        }
    };
    let good = || Some(memfd(BYTES, SealFlags::SHRINK));
    master_refuses(&Fault::NoDescriptor("ADD_REGION"), offers(0, BYTES, None));
    master_refuses(&Fault::RegionIndex(1), offers(1, BYTES, good()));
    master_refuses(&Fault::RegionIndex(0xffff), offers(0xffff, BYTES, good()));
    master_refuses(&Fault::RegionSize(0), offers(0, 0, good()));
    master_refuses(&Fault::RegionSize(u64::MAX), offers(0, u64::MAX, good()));
    master_refuses(&Fault::RegionShort { claimed: BYTES + 1, file: BYTES }, offers(0, BYTES + 1, good()));
    master_refuses(&Fault::Unsealed, offers(0, BYTES, Some(memfd(BYTES, SealFlags::GROW))));
    master_refuses(&Fault::Unsealed, offers(0, BYTES, Some(bell())));
    master_refuses(&Fault::RegionIndex(0), |rogue| {
        rogue.offer_memory();
        rogue.say(&region(0, BYTES), &[&memfd(BYTES, SealFlags::SHRINK)]);
    });
    master_refuses(&Fault::RegionIndex(16), |rogue| {
        rogue.offer_memory();
        for index in 1..16 {
            rogue.agree(&region(index, BYTES), &[&memfd(BYTES, SealFlags::SHRINK)]);
        }
        rogue.say(&region(16, BYTES), &[&memfd(BYTES, SealFlags::SHRINK)]);
    });
}

fn a_wrong_ring() {
    let good = ring(Direction::ToMaster, 0, 0);
    let offers = |ring: AddRing| {
        move |rogue: &mut RoguePeer| {
            rogue.offer_memory();
            rogue.say(&Msg::AddRing(ring), &[&bell()]);
        }
    };
    let place = |region, offset| Fault::RingPlace { region, offset };
    master_refuses(&Fault::RingIndex(1), offers(AddRing { index: 1, ..good }));
    master_refuses(&Fault::RingSize(15), offers(AddRing { log2_size: 15, ..good }));
    master_refuses(&Fault::RingSize(255), offers(AddRing { log2_size: 255, ..good }));
    master_refuses(&Fault::PrivateHeader(4), offers(AddRing { private_header: 4, ..good }));
    master_refuses(&place(1, 0), offers(AddRing { region: 1, ..good }));
    master_refuses(&place(0, 4), offers(AddRing { offset: 4, ..good }));
    master_refuses(&place(0, u32::MAX), offers(AddRing { offset: u32::MAX, ..good }));
    let last = u32::try_from(BYTES).unwrap() - 376;
    master_refuses(&place(0, last), offers(AddRing { offset: last, ..good }));
    master_refuses(&Fault::NoDescriptor("ADD_RING"), |rogue| {
        rogue.offer_memory();
        rogue.say(&Msg::AddRing(good), &[]);
    });
    master_refuses(&Fault::NoEventfd, |rogue| {
        rogue.offer_memory();
        rogue.say(&Msg::AddRing(good), &[&memfd(8, SealFlags::empty())]);
    });
    master_refuses(&Fault::RingIndex(0), |rogue| {
        rogue.offer_memory();
        rogue.agree(&Msg::AddRing(good), &[&bell()]);
        rogue.say(&Msg::AddRing(good), &[&bell()]);
    });
}

fn a_wrong_end_of_the_introduction() {
    let few = Fault::FewRings { theirs: 0, ours: 1 };
    master_refuses(&few, |rogue| {
        rogue.offer_memory();
        rogue.say(&Msg::Connect(Name::new("x")), &[]);
    });
    master_refuses(&few, |rogue| {
        rogue.offer_memory();
        rogue.agree(&Msg::AddRing(ring(Direction::ToMaster, 0, 0)), &[&bell()]);
        rogue.say(&Msg::Connect(Name::new("x")), &[]);
    });
    for (wrong, cookies) in [(0, [0, COOKIE]), (1, [COOKIE, COOKIE + 1])] {
        master_refuses(&Fault::Cookie(wrong), |rogue| {
            rogue.offer_memory();
            for (at, direction) in [Direction::ToMaster, Direction::ToSlave].into_iter().enumerate() {
                rogue.ring(at).set_cookie(cookies[at]);
                rogue.agree(&Msg::AddRing(ring(direction, 0, RINGS[at])), &[&bell()]);
            }
            rogue.say(&Msg::Connect(Name::new("x")), &[]);
        });
    }
    let due = "ADD_REGION, ADD_RING or CONNECT";
    master_refuses(&Fault::Order { got: "INIT", due }, |rogue| {
        rogue.offer_memory();
        rogue.say(&init(), &[]);
    });
    master_refuses(&Fault::Order { got: "ACK", due: "DISCONNECT" }, |rogue| {
        rogue.be_slave();
        rogue.say(&Msg::Ack, &[]);
    });
}

fn a_wrong_master() {
    let hello_with = |change: fn(&mut Hello)| {
        let Msg::Hello(mut said) = hello() else { panic!() };
        change(&mut said);
        Msg::Hello(said)
    };
    let newer = hello_with(|hello| (hello.min_version, hello.max_version) = (0x0201, 0x0300));
    slave_refuses(&Fault::Version(0x0201, 0x0300), |rogue| rogue.say(&newer, &[]));
    slave_refuses(&Fault::Order { got: "ACK", due: "HELLO" }, |rogue| rogue.say(&Msg::Ack, &[]));
    slave_refuses(&Fault::MessageLength(5), |rogue| rogue.say_bytes(&[1; 5], &[]));
    slave_refuses(&Fault::Order { got: "HELLO", due: "ACK" }, |rogue| {
        rogue.say(&hello(), &[]);
        rogue.hear();
        rogue.say(&hello(), &[]);
    });
    slave_refuses(&Fault::Order { got: "CONNECTED", due: "ACK" }, |rogue| {
        rogue.say(&hello(), &[]);
        rogue.say(&Msg::Connected(Name::new("early")), &[]);
    });
    slave_refuses(&Fault::Order { got: "ACK", due: "CONNECTED" }, |rogue| {
        rogue.say(&hello(), &[]);
        (0..6).for_each(|_| rogue.say(&Msg::Ack, &[]));
    });
    slave_refuses(&Fault::Order { got: "ACK", due: "DISCONNECT" }, |rogue| {
        rogue.be_master();
        rogue.say(&Msg::Ack, &[]);
    });
}

fn more_rings_than_the_master_has() {
    let place = Place::new();
    let listener = RoguePeer::listen(&place);
    let slave = End::open(dev::memif::Options { rings: 2, ..place.options(Role::Slave) });
    let mut rogue = RoguePeer::accept(&listener);
    rogue.say(&hello(), &[]);
    assert!(rogue.farewell().contains("set rings to the same number"));
    until("it is written down", || slave.status().ends > 0);
    assert_eq!(slave.last_fault(), Some(Fault::FewRings { theirs: 1, ours: 2 }));
}

fn a_master_that_hangs_up_at_each_step() {
    let place = Place::new();
    let listener = RoguePeer::listen(&place);
    let mut slave = End::open(place.options(Role::Slave));
    for step in 0..6_u64 {
        let mut rogue = RoguePeer::accept(&listener);
        for said in 0..step {
            rogue.say(&if said == 0 { hello() } else { Msg::Ack }, &[]);
            rogue.hear();
        }
        drop(rogue);
        until("it is noticed", || slave.status().ends == step + 1);
        assert!(slave.is_down());
    }
    let mut rogue = RoguePeer::accept(&listener);
    rogue.be_master();
    until("it is up after all", || slave.is_up());
    drop(rogue);
    until("it is down again", || slave.is_down());
}

fn a_slave_that_hangs_up_at_each_step() {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let steps: [fn(&mut RoguePeer); 5] = [
        |_| (),
        |rogue| assert!(rogue.hear().is_some()),
        |rogue| {
            rogue.hear();
            rogue.agree(&init(), &[]);
        },
        RoguePeer::offer_memory,
        |rogue| {
            rogue.offer_memory();
            rogue.agree(&Msg::AddRing(ring(Direction::ToMaster, 0, 0)), &[&bell()]);
        },
    ];
    for (ends, step) in (1..).zip(steps) {
        let mut rogue = RoguePeer::connect(&place);
        step(&mut rogue);
        drop(rogue);
        until("it is noticed", || master.status().ends == ends);
        assert_eq!(master.last_fault(), Some(Fault::HungUp));
    }
    let mut rogue = RoguePeer::connect(&place);
    rogue.be_slave();
    until("it is up after all", || master.is_up());
    drop(rogue);
    until("it is down again", || master.is_down());
}

fn a_silent_client_is_disconnected_and_delays_no_others() {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let silent: Vec<_> = (0..10).map(|_| RoguePeer::connect(&place)).collect();
    let mut slave = End::open(place.options(Role::Slave));
    until("an honest one is served", || master.is_up() && slave.is_up());
    until("they are sent away", || master.status().ends >= 10);
    assert_eq!(master.last_fault(), Some(Fault::TimedOut));
    drop(silent);
    assert!(master.is_up() && slave.is_up());
}

fn a_crowd_is_let_in_up_to_its_bound() {
    let place = Place::new();
    let master = End::open(place.options(Role::Master));
    let mut silent: Vec<_> = (0..16).map(|_| RoguePeer::connect(&place)).collect();
    silent.iter_mut().for_each(|rogue| assert_eq!(rogue.hear().map(|msg| msg.word()), Some("HELLO")));
    let mut late = RoguePeer::connect(&place);
    assert!(late.farewell().starts_with("too many peers"));
    until("it is written down", || master.last_fault() == Some(Fault::Crowd));
}

fn a_second_slave_is_sent_away_and_the_first_stays() {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let mut slave = End::open(place.options(Role::Slave));
    until("they are up", || master.is_up() && slave.is_up());
    let mut rogue = RoguePeer::connect(&place);
    rogue.say(&init(), &[]);
    assert_eq!(rogue.farewell(), "id 0 is connected already");
    assert!(master.is_up() && slave.is_up());
}

fn unexpected_descriptors_are_closed() {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let mut rogue = RoguePeer::connect(&place);
    rogue.hear();
    let [ours, theirs] = [0; 2].map(|_| bell());
    let (reader, writer) = std::io::pipe().unwrap();
    let writer = OwnedFd::from(writer);
    rogue.agree(&init(), &[&ours, &writer, &theirs, &writer]);
    drop(writer);
    let mut nothing = Vec::new();
    std::io::Read::read_to_end(&mut { reader }, &mut nothing).unwrap(); // no other end is open
    assert!(master.is_down());
}

harness::tests![
    a_wrong_introduction,
    a_wrong_region,
    a_wrong_ring,
    a_wrong_end_of_the_introduction,
    a_wrong_master,
    more_rings_than_the_master_has,
    a_master_that_hangs_up_at_each_step,
    a_slave_that_hangs_up_at_each_step,
    a_silent_client_is_disconnected_and_delays_no_others,
    a_crowd_is_let_in_up_to_its_bound,
    a_second_slave_is_sent_away_and_the_first_stays,
    unexpected_descriptors_are_closed,
];
