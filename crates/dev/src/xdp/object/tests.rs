use super::*;

const PORTS: &[u8] = include_bytes!("../../../tests/xdp/ports.o");
const TWO: &[u8] = include_bytes!("../../../tests/xdp/two.o");

#[test]
fn a_program_comes_with_its_functions_maps_and_variables() {
    let object = Object::parse(PORTS, None).unwrap();
    assert_eq!((object.program.as_str(), object.frags), ("by_port", false));
    assert_eq!(object.license, "Dual MIT/GPL");
    let map = |name: &str| object.maps.iter().find(|map| map.name == name).unwrap();
    let of = |name| (map(name).kind, map(name).key_size, map(name).value_size, map(name).entries);
    assert_eq!(of("ports"), (1, 4, 8, 1024));
    assert_eq!(of("frames"), (6, 4, 8, 1));
    assert_eq!((map(".rodata").data[..4].to_vec(), map(".rodata").flags), (vec![9, 0, 0, 0], 1 << 7));
    let calls: Vec<usize> = (0..object.insns.len()).filter(|at| object.insns[*at].is_local_call()).collect();
    assert!(!calls.is_empty());
    for at in calls {
        let target = at.checked_add_signed(object.insns[at].immediate() as isize + 1).unwrap();
        assert!(target < object.insns.len(), "a call to {target}");
    }
}

#[test]
fn of_several_programs_one_is_chosen_by_its_name_or_its_section() {
    assert_eq!(Object::parse(TWO, Some("drop")).unwrap().program, "drop");
    let pass = Object::parse(TWO, Some("xdp/pass")).unwrap();
    assert_eq!((pass.program.as_str(), pass.maps[0].pinned), ("pass", true));
    let names = || vec!["pass".to_owned(), "drop".to_owned()];
    let several = Object::parse(TWO, None).unwrap_err();
    assert_eq!(several, ObjectError::Several(names()));
    assert!(several.to_string().contains("prog.o:pass"), "{several}");
    let other = Object::parse(TWO, Some("dorp")).unwrap_err();
    assert_eq!(other, ObjectError::NotFound { wanted: "dorp".to_owned(), there: names() });
}

#[test]
fn a_file_that_is_something_else_is_refused_in_words() {
    assert!(matches!(Object::parse(b"hello", None), Err(ObjectError::NotElf(_))));
    let own = std::fs::read("/proc/self/exe").unwrap();
    assert_eq!(Object::parse(&own, None), Err(ObjectError::NotBpf));
}

#[test]
fn a_damaged_file_is_never_more_than_an_error() {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..20_000 {
        let mut file = if random(2) == 0 { PORTS } else { TWO }.to_vec();
        for _ in 0..=random(4) {
            let at = random(file.len());
            file[at] = u8::try_from(random(256)).unwrap();
        }
        if random(4) == 0 {
            file.truncate(random(PORTS.len()));
        }
        let _ = Object::parse(&file, [None, Some("pass")][random(2)]);
    }
}
