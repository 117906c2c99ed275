use super::*;

const FILE: &str = r#"# The office.
forwarding = true

[[interface]]
device = "tap:lan0"       # the LAN
address = "192.0.2.1/24"

# The provider.
[[interface]]
name = "wan"
device = "tap:wan0"
address = [
    "198.51.100.1/24", # static
    "2001:db8::1/64",
]
"#;

fn edited(text: &str, names: &[&str], edits: &[ConfigEdit]) -> Result<String, Wrong> {
    let mut document = Document::parse(text, names.iter().map(|name| (*name).to_owned()).collect())?;
    edits.iter().try_for_each(|edit| document.edit(edit))?;
    Ok(document.text())
}

fn add(interface: &str, address: &str) -> ConfigEdit {
    ConfigEdit::AddAddress { interface: interface.into(), address: address.parse().unwrap() }
}

fn remove(interface: &str, address: &str) -> ConfigEdit {
    ConfigEdit::RemoveAddress { interface: interface.into(), address: address.parse().unwrap() }
}

#[test]
fn comments_stay_and_a_single_address_becomes_a_list() {
    let edits = [add("tap0", "192.0.2.7/24"), remove("wan", "2001:db8::1/64")];
    let text = edited(FILE, &["tap0", "wan"], &edits).unwrap();
    for line in ["# The office.", "device = \"tap:lan0\"       # the LAN", "# The provider.", "# static"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains(r#"address = ["192.0.2.1/24", "192.0.2.7/24"]"#), "{text}");
    assert!(text.contains(r#"name = "tap0""#), "names that were numbers are written: {text}");
    assert!(!text.contains("2001:db8"), "{text}");
}

#[test]
fn interfaces_come_and_go_in_either_notation() {
    let inline = "interface = [ { name = \"lan\", device = \"tap:lan0\" },\n              { name = \"wan\", device = \"tap:wan0\" } ]\n";
    let create = ConfigEdit::Create { interface: "vlan10".into(), device: "vlan:lan,10".into() };
    let destroy = ConfigEdit::Destroy { interface: "wan".into() };
    for (text, names) in [(FILE, ["tap0", "wan"]), (inline, ["lan", "wan"])] {
        let both = edited(text, &names, &[create.clone(), destroy.clone()]).unwrap();
        let table: toml::Table = both.parse().unwrap();
        let named: Vec<&str> = table["interface"]
            .as_array()
            .unwrap()
            .iter()
            .map(|interface| interface["name"].as_str().unwrap())
            .collect();
        assert_eq!(named, [names[0], "vlan10"], "{both}");
    }
}

#[test]
fn replacing_an_address_changes_the_first_of_its_family() {
    let replace = |address: &str| ConfigEdit::ReplaceAddress {
        interface: "wan".into(),
        address: address.parse().unwrap(),
    };
    let text =
        edited(FILE, &["tap0", "wan"], &[replace("198.51.100.9/24"), replace("2001:db8::9/64")]).unwrap();
    assert!(!text.contains("198.51.100.1/") && !text.contains("2001:db8::1/"), "{text}");
    assert!(text.contains("198.51.100.9/24") && text.contains("2001:db8::9/64"), "{text}");
}

#[test]
fn wrong_edits_are_explained() {
    let set = |key: &str, value: &str| ConfigEdit::Set {
        interface: "wan".into(),
        key: key.into(),
        value: value.into(),
    };
    for (edit, message, help) in [
        (add("wn", "192.0.2.7/24"), "no interface `wn`", "did you mean `wan`?"),
        (add("wan", "198.51.100.1/24"), "has the address", ""),
        (remove("wan", "192.0.2.7/24"), "wan has no address 192.0.2.7/24", ""),
        (ConfigEdit::Create { interface: "wan".into(), device: "tap:x".into() }, "already exists", ""),
        (set("mut", "9000"), "unknown key `mut`", "did you mean `mtu`?"),
        (set("mtu", "big"), "bad mtu `big`", "write a number"),
    ] {
        let wrong = edited(FILE, &["tap0", "wan"], &[edit]).unwrap_err();
        assert!(wrong.message.contains(message) && wrong.help.contains(help), "{wrong:?}");
    }
}

#[test]
fn removing_an_address_may_leave_out_its_length() {
    let text =
        edited(FILE, &["tap0", "wan"], &[remove("wan", "198.51.100.1/32"), remove("tap0", "192.0.2.1/32")]);
    assert!(!text.unwrap().contains("192.0.2.1"), "the only one");
}

const BRIDGE: &str = r#"[[interface]]
name = "bridge0"
device = "bridge:lan1,lan2"   # both
stp_port = "lan1 cost 200 edge"
"#;

#[test]
fn lists_of_a_bridge_get_and_lose_elements() {
    let on = |key: &str, value: &str| (key.to_owned(), value.to_owned(), "bridge0".to_owned());
    let insert = |key: &str, value: &str| {
        let (key, value, interface) = on(key, value);
        ConfigEdit::Insert { interface, key, value }
    };
    let remove = |key: &str, value: &str| {
        let (key, value, interface) = on(key, value);
        ConfigEdit::Remove { interface, key, value }
    };
    let edit = |edits: &[ConfigEdit]| edited(BRIDGE, &["bridge0"], edits);
    let mac = "02:00:00:00:00:AB";
    for (edits, has) in [
        (vec![insert("member", "lan3")], r#"device = "bridge:lan1,lan2,lan3""#),
        (vec![insert("private", "lan1"), insert("private", "lan2")], r#"private = ["lan1", "lan2"]"#),
        (
            vec![insert("fdb", &format!("{mac} lan1")), insert("fdb", "02:00:00:00:00:ab lan2")],
            r#"fdb = ["02:00:00:00:00:ab lan2"]"#,
        ),
        (
            vec![insert("stp_port", "lan1 -edge priority 16")],
            r#"stp_port = ["lan1 cost 200 -edge priority 16"]"#,
        ),
        (vec![insert("stp_port", "lan1 cost 5")], r#"stp_port = ["lan1 edge cost 5"]"#),
        (vec![remove("member", "lan1")], r#"device = "bridge:lan2""#),
        (vec![remove("member", "lan1"), remove("member", "lan2")], r#"device = "bridge:""#),
        (
            vec![remove("member", "lan1"), remove("member", "lan2"), insert("member", "lan2")],
            r#"device = "bridge:lan2""#,
        ),
    ] {
        let text = edit(&edits).unwrap();
        assert!(text.contains(has), "{has}: {text}");
        assert!(text.contains("# both") || has.contains("bridge:"), "{text}");
    }
    let text =
        edit(&[insert("fdb", &format!("{mac} lan1")), insert("span", "lan1"), remove("member", "lan1")])
            .unwrap();
    assert!(!text.contains("lan1"), "all that was said of it is gone: {text}");
    let text = edit(&[insert("fdb", &format!("{mac} lan1")), remove("fdb", mac)]).unwrap();
    assert!(!text.contains("fdb"), "{text}");
    for (edits, says) in [
        (vec![insert("member", "lan1")], "is a port of this bridge already"),
        (vec![remove("member", "lan9")], "no port of this bridge"),
        (vec![remove("private", "lan1")], "there is no `lan1` in private"),
        (vec![insert("privat", "lan1")], "unknown list `privat`"),
    ] {
        let wrong = edit(&edits).unwrap_err();
        assert!(wrong.message.contains(says), "{wrong:?}");
    }
}
