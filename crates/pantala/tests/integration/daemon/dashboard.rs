//! The dashboard in a real browser.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;

use dev::sys::process::end_with_parent;
use rustix::process::Signal;

use super::http::{TOKEN, with_token};
use super::lab::{Lab, Wire};
use super::webdriver::Browser;

const URL: &str = "http://127.0.0.1:8080/";
const DESKTOP: [u32; 2] = [1280, 800];
const PHONE: [u32; 2] = [390, 844];

/// A rule whose comment would run if it were read as HTML.
const RULES: &str = "add 100 allow udp from any to any 7 in keep-state
add 200 allow tcp from any to me 7 setup in keep-state // <img src=x onerror=\"document.title='run'\">
add 300 deny udp from any to any 9
add 65000 allow ip from any to any
";

/// Rules as they are met.
const USUAL: &str = "add 100 allow udp from any to any 7 in keep-state // echo
add 200 allow tcp from any to me 7 setup in keep-state // echo
add 300 deny udp from any to any 9 // discard
add 65000 allow ip from any to any
";

fn config(lab: &Lab, rules: &str) -> String {
    let services = "[[service]]\nkind = \"echo\"\nport = 7\n";
    let probe = "[[interface]]\nname = \"probe\"\ndevice = \"tap:probe0\"\nrings = 1\n";
    let firewall = format!("[firewall]\nrules_text = '''\n{rules}'''\n{probe}");
    with_token(lab, "127.0.0.1:8080", &format!("{services}{firewall}"))
}

fn lab(test: &str) -> Option<Lab> {
    let lab = Lab::new(test, Wire::Veth { queues: 1 })?;
    lab.router().netlink().unwrap().set_up("lo", true).unwrap();
    Some(lab)
}

fn the_page_asks_for_the_token_and_shows_the_stack_as_it_is() {
    let Some(lab) = lab("page") else { return };
    let Some(browser) = Browser::start(&lab) else { return };
    lab.write(&config(&lab, RULES));
    let daemon = lab.start();
    browser.emulate(DESKTOP, "light");
    browser.open(URL);
    browser.until("document.documentElement.dataset.state === 'login'");
    // The field has the focus: the keyboard alone is enough.
    browser.press("not-the-token\u{e007}");
    browser.until("document.getElementById('message').innerText.includes('not the token')");
    browser.press(&format!("{TOKEN}\u{e007}"));
    browser.until("Number(document.documentElement.dataset.readings) >= 2");
    for (id, text) in
        [("topology", "192.0.2.1/24"), ("rules", "<img src=x"), ("connections", "no TCP connections")]
    {
        browser.until(&format!("document.getElementById('{id}').textContent.includes('{text}')"));
    }
    assert_eq!(browser.value("document.title"), "pantala", "names are not read as HTML");
    assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
    let foreign = "performance.getEntriesByType('resource').filter((one) => !one.name.startsWith(location.origin)).length";
    assert_eq!(browser.value(foreign), 0, "nothing is loaded from elsewhere");
    // Keys: units, and tables that can be scrolled.
    assert!(
        browser.value("document.getElementById('traffic').textContent").as_str().unwrap().contains("b/s")
    );
    browser.value("document.activeElement.blur()");
    browser.press("b");
    browser.until("document.getElementById('traffic').textContent.includes('B/s')");
    browser.press("b");
    let focused = "document.activeElement.getAttribute('role') === 'region'";
    assert!(
        (0..8).any(|_| {
            browser.press("\u{e004}");
            browser.value(focused) == true
        }),
        "Tab reaches a table"
    );
    // No request was refused but the two without the right token, and no part of the page was.
    let errors: Vec<String> = browser.errors().into_iter().filter(|why| !why.contains("401")).collect();
    assert_eq!(errors, [] as [&str; 0]);
    drop(daemon);
}

fn the_page_follows_traffic_and_a_daemon_that_ends_and_comes_back() {
    let Some(lab) = lab("live") else { return };
    let Some(browser) = Browser::start(&lab) else { return };
    lab.write(&config(&lab, USUAL));
    let daemon = lab.start();
    lab.router().netlink().unwrap().set_up("probe0", true).unwrap();
    browser.emulate(DESKTOP, "light");
    browser.open(&format!("{URL}#token={TOKEN}"));
    browser.until("document.documentElement.dataset.state === 'live'");
    assert_eq!(browser.value("location.href"), URL, "the token has left the address");
    browser.until("document.getElementById('latency').textContent.includes('no interface measures')");
    browser.picture("empty");
    daemon.shows("ifconfig probe monitor");
    let mac = daemon.interface_named("probe")["mac"].as_str().unwrap().to_owned();
    let mut frames = measured_frames(&lab, &mac);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| load(&lab, &is_over));
        for (id, text) in [
            ("connections", "192.0.2.2:"),
            ("connections", " ms"),
            ("flows", "udp"),
            ("drops", "firewall_deny"),
        ] {
            browser.until(&format!("document.getElementById('{id}').textContent.includes('{text}')"));
        }
        browser.until("document.querySelectorAll('#connections svg path').length >= 2");
        browser.until("document.querySelectorAll('#lost svg path').length >= 1");
        browser.until("document.querySelectorAll('#latency rect.heat').length >= 3");
        browser.until("document.getElementById('latency').textContent.includes('probe: ')");
        if std::env::var_os("PANTALA_SCREENSHOTS").is_some() {
            thread::sleep(Duration::from_secs(45));
        }
        let fits = "document.documentElement.scrollWidth <= window.innerWidth";
        let page = "getComputedStyle(document.body).backgroundColor";
        let mut colours = Vec::new();
        for (size, scheme, name) in
            [(DESKTOP, "light", "loaded"), (DESKTOP, "dark", "dark"), (PHONE, "light", "narrow")]
        {
            browser.emulate(size, scheme);
            thread::sleep(Duration::from_millis(300));
            assert_eq!(browser.value(fits), true, "{name}: nothing is wider than the screen");
            colours.push(browser.value(page));
            browser.picture(name);
        }
        assert!(colours[0] != colours[1] && colours[0] == colours[2], "{colours:?}");
        is_over.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    frames.kill().unwrap();
    frames.wait().unwrap();
    assert_eq!(browser.errors(), [] as [&str; 0]);
    assert!(daemon.end(Signal::TERM));
    browser.until("document.documentElement.dataset.state === 'gone'");
    browser.until("document.getElementById('message').innerText.includes('Trying again')");
    let _daemon = lab.start();
    browser.until("document.documentElement.dataset.state === 'live'");
}

/// `pantala pktgen`, which sends frames that the interface `probe` measures.
fn measured_frames(lab: &Lab, mac: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
    command.args(["pktgen", "-i", "af_xdp:probe0,mode=generic", "--dst-mac", mac, "--rate", "500pps"]);
    command.args(["--src", "198.18.0.2", "--dst", "198.18.1.2", "--time", "600s"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    lab.router().put(&mut command).unwrap();
    end_with_parent(&mut command);
    command.spawn().unwrap()
}

/// Datagrams and a connection to the echo service, and datagrams that a rule denies, about 2000 packets a second.
fn load(lab: &Lab, is_over: &AtomicBool) {
    let (socket, mut stream) = lab
        .host()
        .run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            (socket, TcpStream::connect(("192.0.2.1", 7)).unwrap())
        })
        .unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut bytes = [7; 1200];
    let mut round = 0_usize;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        // Rates that change, so that plots have a shape.
        for _ in 0..1 + (round / 200) % 8 {
            let _ = socket.send_to(&bytes, "192.0.2.1:7");
        }
        if round.is_multiple_of(10) {
            let _ = socket.send_to(b"denied", "192.0.2.1:9");
        }
        stream.write_all(&bytes[..600]).unwrap();
        stream.read_exact(&mut bytes[..600]).unwrap();
        while socket.recv(&mut bytes).is_ok() {}
        thread::sleep(Duration::from_millis(5));
    }
}

harness::tests![
    the_page_asks_for_the_token_and_shows_the_stack_as_it_is,
    the_page_follows_traffic_and_a_daemon_that_ends_and_comes_back,
];
