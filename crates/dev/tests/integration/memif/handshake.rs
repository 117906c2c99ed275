//! Peers that misbehave while they introduce themselves. Each is told why it is refused, the operator is told the same,
//! and the next peer finds the door open.

use std::os::fd::OwnedFd;

use dev::memif::msg::{AddRing, Direction, Hello, Init, Msg, Name};
use dev::memif::{Fault, Role, State};
use rustix::fs::SealFlags;

use crate::memif::crook::{BYTES, COOKIE, Crook, RINGS, bell, hello, init, memfd, region, ring};
use crate::memif::end::{End, Place, until};

/// Our master, a crook that does `wrong`, and what comes of it; afterwards an honest slave is served.
fn master_refuses(fault: &Fault, wrong: impl FnOnce(&mut Crook)) {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let mut crook = Crook::connect(&place);
    wrong(&mut crook);
    let told = crook.farewell();
    until("it is written down", || master.last_fault().is_some());
    assert_eq!(master.last_fault().as_ref(), Some(fault));
    let said = Name::new(&fault.to_string()).to_string();
    assert!(told.starts_with(&said), "{told}");
    assert_eq!((master.status().ends, master.status().state), (1, State::Waiting));
    let mut slave = End::open(place.options(Role::Slave));
    until("an honest one is served", || master.is_up() && slave.is_up());
}

/// Our slave, a master that does `wrong`, and what comes of it; afterwards an honest master is found.
fn slave_refuses(fault: &Fault, wrong: impl FnOnce(&mut Crook)) {
    let place = Place::new();
    let listener = Crook::listen(&place);
    let mut slave = End::open(place.options(Role::Slave));
    let mut crook = Crook::accept(&listener);
    wrong(&mut crook);
    let told = crook.farewell();
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
    master_refuses(&order("CONNECT"), |crook| crook.say(&Msg::Connect(Name::new("x")), &[]));
    master_refuses(&order("HELLO"), |crook| crook.say(&hello(), &[]));
    master_refuses(&order("ACK"), |crook| crook.say(&Msg::Ack, &[]));
    master_refuses(&Fault::MessageLength(127), |crook| crook.say_bytes(&[0; 127], &[]));
    master_refuses(&Fault::MessageLength(1), |crook| crook.say_bytes(&[0; 1], &[]));
    master_refuses(&Fault::MessageLength(129), |crook| crook.say_bytes(&[0; 100_000], &[]));
    master_refuses(&Fault::MessageType(0), |crook| crook.say_bytes(&[0; 128], &[]));
    master_refuses(&Fault::MessageType(0x0909), |crook| crook.say_bytes(&[9; 128], &[]));
    master_refuses(&Fault::Version(0x0100, 0x0100), |crook| {
        crook.say(&init_with(|init| init.version = 0x0100), &[]);
    });
    master_refuses(&Fault::Mode(1), |crook| crook.say(&init_with(|init| init.mode = 1), &[]));
    master_refuses(&Fault::NoSuchId(7), |crook| crook.say(&init_with(|init| init.id = 7), &[]));
}

fn a_wrong_region() {
    let offers = |index, size, fd: Option<OwnedFd>| {
        move |crook: &mut Crook| {
            crook.hear();
            crook.agree(&init(), &[]);
            let fds: Vec<_> = fd.iter().collect();
            crook.say(&region(index, size), &fds);
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
    master_refuses(&Fault::RegionIndex(0), |crook| {
        crook.offer_memory();
        crook.say(&region(0, BYTES), &[&memfd(BYTES, SealFlags::SHRINK)]);
    });
    master_refuses(&Fault::RegionIndex(16), |crook| {
        crook.offer_memory();
        for index in 1..16 {
            crook.agree(&region(index, BYTES), &[&memfd(BYTES, SealFlags::SHRINK)]);
        }
        crook.say(&region(16, BYTES), &[&memfd(BYTES, SealFlags::SHRINK)]);
    });
}

fn a_wrong_ring() {
    let good = ring(Direction::ToMaster, 0, 0);
    let offers = |ring: AddRing| {
        move |crook: &mut Crook| {
            crook.offer_memory();
            crook.say(&Msg::AddRing(ring), &[&bell()]);
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
    master_refuses(&Fault::NoDescriptor("ADD_RING"), |crook| {
        crook.offer_memory();
        crook.say(&Msg::AddRing(good), &[]);
    });
    master_refuses(&Fault::NoEventfd, |crook| {
        crook.offer_memory();
        crook.say(&Msg::AddRing(good), &[&memfd(8, SealFlags::empty())]);
    });
    master_refuses(&Fault::RingIndex(0), |crook| {
        crook.offer_memory();
        crook.agree(&Msg::AddRing(good), &[&bell()]);
        crook.say(&Msg::AddRing(good), &[&bell()]);
    });
}

fn a_wrong_end_of_the_introduction() {
    let few = Fault::FewRings { theirs: 0, ours: 1 };
    master_refuses(&few, |crook| {
        crook.offer_memory();
        crook.say(&Msg::Connect(Name::new("x")), &[]);
    });
    master_refuses(&few, |crook| {
        crook.offer_memory();
        crook.agree(&Msg::AddRing(ring(Direction::ToMaster, 0, 0)), &[&bell()]);
        crook.say(&Msg::Connect(Name::new("x")), &[]);
    });
    for (wrong, cookies) in [(0, [0, COOKIE]), (1, [COOKIE, COOKIE + 1])] {
        master_refuses(&Fault::Cookie(wrong), |crook| {
            crook.offer_memory();
            for (at, direction) in [Direction::ToMaster, Direction::ToSlave].into_iter().enumerate() {
                crook.ring(at).set_cookie(cookies[at]);
                crook.agree(&Msg::AddRing(ring(direction, 0, RINGS[at])), &[&bell()]);
            }
            crook.say(&Msg::Connect(Name::new("x")), &[]);
        });
    }
    let due = "ADD_REGION, ADD_RING or CONNECT";
    master_refuses(&Fault::Order { got: "INIT", due }, |crook| {
        crook.offer_memory();
        crook.say(&init(), &[]);
    });
    master_refuses(&Fault::Order { got: "ACK", due: "DISCONNECT" }, |crook| {
        crook.be_slave();
        crook.say(&Msg::Ack, &[]);
    });
}

fn a_wrong_master() {
    let hello_with = |change: fn(&mut Hello)| {
        let Msg::Hello(mut said) = hello() else { panic!() };
        change(&mut said);
        Msg::Hello(said)
    };
    let newer = hello_with(|hello| (hello.min_version, hello.max_version) = (0x0201, 0x0300));
    slave_refuses(&Fault::Version(0x0201, 0x0300), |crook| crook.say(&newer, &[]));
    slave_refuses(&Fault::Order { got: "ACK", due: "HELLO" }, |crook| crook.say(&Msg::Ack, &[]));
    slave_refuses(&Fault::MessageLength(5), |crook| crook.say_bytes(&[1; 5], &[]));
    slave_refuses(&Fault::Order { got: "HELLO", due: "ACK" }, |crook| {
        crook.say(&hello(), &[]);
        crook.hear();
        crook.say(&hello(), &[]);
    });
    slave_refuses(&Fault::Order { got: "CONNECTED", due: "ACK" }, |crook| {
        crook.say(&hello(), &[]);
        crook.say(&Msg::Connected(Name::new("early")), &[]);
    });
    slave_refuses(&Fault::Order { got: "ACK", due: "CONNECTED" }, |crook| {
        crook.say(&hello(), &[]);
        (0..6).for_each(|_| crook.say(&Msg::Ack, &[]));
    });
    slave_refuses(&Fault::Order { got: "ACK", due: "DISCONNECT" }, |crook| {
        crook.be_master();
        crook.say(&Msg::Ack, &[]);
    });
}

fn more_rings_than_the_master_has() {
    let place = Place::new();
    let listener = Crook::listen(&place);
    let slave = End::open(dev::memif::Options { rings: 2, ..place.options(Role::Slave) });
    let mut crook = Crook::accept(&listener);
    crook.say(&hello(), &[]);
    assert!(crook.farewell().contains("set rings to the same number"));
    until("it is written down", || slave.status().ends > 0);
    assert_eq!(slave.last_fault(), Some(Fault::FewRings { theirs: 1, ours: 2 }));
}

fn a_master_that_hangs_up_at_each_step() {
    let place = Place::new();
    let listener = Crook::listen(&place);
    let mut slave = End::open(place.options(Role::Slave));
    for step in 0..6_u64 {
        let mut crook = Crook::accept(&listener);
        for said in 0..step {
            crook.say(&if said == 0 { hello() } else { Msg::Ack }, &[]);
            crook.hear();
        }
        drop(crook);
        until("it is noticed", || slave.status().ends == step + 1);
        assert!(slave.is_down());
    }
    let mut crook = Crook::accept(&listener);
    crook.be_master();
    until("it is up after all", || slave.is_up());
    drop(crook);
    until("it is down again", || slave.is_down());
}

fn a_slave_that_hangs_up_at_each_step() {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let steps: [fn(&mut Crook); 5] = [
        |_| (),
        |crook| assert!(crook.hear().is_some()),
        |crook| {
            crook.hear();
            crook.agree(&init(), &[]);
        },
        Crook::offer_memory,
        |crook| {
            crook.offer_memory();
            crook.agree(&Msg::AddRing(ring(Direction::ToMaster, 0, 0)), &[&bell()]);
        },
    ];
    for (ends, step) in (1..).zip(steps) {
        let mut crook = Crook::connect(&place);
        step(&mut crook);
        drop(crook);
        until("it is noticed", || master.status().ends == ends);
        assert_eq!(master.last_fault(), Some(Fault::HungUp));
    }
    let mut crook = Crook::connect(&place);
    crook.be_slave();
    until("it is up after all", || master.is_up());
    drop(crook);
    until("it is down again", || master.is_down());
}

fn who_says_nothing_is_sent_away_and_holds_nobody_up() {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let silent: Vec<_> = (0..10).map(|_| Crook::connect(&place)).collect();
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
    let mut silent: Vec<_> = (0..16).map(|_| Crook::connect(&place)).collect();
    silent.iter_mut().for_each(|crook| assert_eq!(crook.hear().map(|msg| msg.word()), Some("HELLO")));
    let mut late = Crook::connect(&place);
    assert!(late.farewell().starts_with("too many peers"));
    until("it is written down", || master.last_fault() == Some(Fault::Crowd));
}

fn a_second_slave_is_sent_away_and_the_first_stays() {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let mut slave = End::open(place.options(Role::Slave));
    until("they are up", || master.is_up() && slave.is_up());
    let mut crook = Crook::connect(&place);
    crook.say(&init(), &[]);
    assert_eq!(crook.farewell(), "id 0 is connected already");
    assert!(master.is_up() && slave.is_up());
}

fn descriptors_that_nobody_asked_for_are_closed() {
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    let mut crook = Crook::connect(&place);
    crook.hear();
    let [ours, theirs] = [0; 2].map(|_| bell());
    let (reader, writer) = std::io::pipe().unwrap();
    let writer = OwnedFd::from(writer);
    crook.agree(&init(), &[&ours, &writer, &theirs, &writer]);
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
    who_says_nothing_is_sent_away_and_holds_nobody_up,
    a_crowd_is_let_in_up_to_its_bound,
    a_second_slave_is_sent_away_and_the_first_stays,
    descriptors_that_nobody_asked_for_are_closed,
];
