//! A headless Chromium, driven by chromedriver in a network namespace (W3C WebDriver).

use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::lab::Lab;

/// A port of a namespace that nothing else uses.
const PORT: u16 = 9515;
const PATIENCE: Duration = Duration::from_secs(40);

/// A browser with one tab; ended with the value.
pub(crate) struct Browser<'l> {
    lab: &'l Lab,
    driver: Child,
    session: String,
}

impl<'l> Browser<'l> {
    /// Starts a browser in the daemon's namespace; `None`, loudly, where there is none.
    pub(crate) fn start(lab: &'l Lab) -> Option<Self> {
        if ["chromedriver", "chromium"].iter().any(|program| !is_installed(program)) {
            harness::skip("chromium and chromium-driver are not installed");
            return None;
        }
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={PORT}")).stdout(Stdio::piped()).stderr(Stdio::null());
        lab.router().put(&mut command).unwrap();
        let mut driver = command.spawn().unwrap();
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        assert!(
            said.any(|line| line.unwrap().contains("started successfully")),
            "chromedriver does not start"
        );
        // What it says later is thrown away.
        std::thread::spawn(move || said.for_each(drop));
        let mut browser = Self { lab, driver, session: String::new() };
        let profile = lab.folder().join("chromium");
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            format!("--user-data-dir={}", profile.display()),
        ]);
        let capabilities = json!({
            "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": arguments},
        });
        let made = browser.ask("POST", "/session", &json!({"capabilities": {"alwaysMatch": capabilities}}));
        browser.session = made["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" || method == "DELETE" { String::new() } else { body.to_string() };
        let mut stream = self.lab.router().run(|| TcpStream::connect(("127.0.0.1", PORT))).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let len = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {len}\r\n\r\n{body}"
        )
        .unwrap();
        let mut stream = BufReader::new(stream);
        let (mut head, mut len) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let begin = head.len();
            stream.read_line(&mut head).unwrap();
            let field = head[begin..].to_ascii_lowercase();
            len = field.strip_prefix("content-length:").map_or(len, |value| value.trim().parse().unwrap());
        }
        let mut body = vec![0; len];
        stream.read_exact(&mut body).unwrap();
        let text = String::from_utf8(body).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {head}{text}");
        serde_json::from_str::<Value>(&text).unwrap()["value"].take()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.post("/execute/sync", &json!({"script": format!("return {expression};"), "args": []}))
    }

    /// Waits until an expression in the page is true.
    pub(crate) fn until(&self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != true {
            let text =
                || self.value("document.documentElement.dataset.state + ': ' + document.body.innerText");
            assert!(begun.elapsed() < PATIENCE, "not `{expression}`, but {}", text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses keys in the page; what has the focus gets them. `\u{e004}` is Tab, `\u{e007}` is Enter.
    pub(crate) fn press(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()})))
            .collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]}));
    }

    /// Shows the page as a screen of this size with this colour scheme does.
    pub(crate) fn emulate(&self, [width, height]: [u32; 2], scheme: &str) {
        let run = |command: &str, params: Value| {
            self.post("/goog/cdp/execute", &json!({"cmd": command, "params": params}));
        };
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        run("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        run("Emulation.setEmulatedMedia", json!({"features": features}));
        self.value("window.dispatchEvent(new Event('resize'))");
    }

    /// Errors that the page or its policy has caused since the last call.
    pub(crate) fn errors(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        let entries = log.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["level"] == "SEVERE")
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Writes the whole page as a picture into the folder of the variable `PANTALA_SCREENSHOTS`, if it is set.
    pub(crate) fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("PANTALA_SCREENSHOTS") else { return };
        let params = json!({"format": "png", "captureBeyondViewport": true});
        let shot =
            self.post("/goog/cdp/execute", &json!({"cmd": "Page.captureScreenshot", "params": params}));
        let file = std::path::Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(file, base64(shot["data"].as_str().unwrap())).unwrap();
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// The bytes of a text in base64 (RFC 4648 §4).
fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut held, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|c| DIGITS.iter().position(|digit| *digit == c)) {
        (held, count) = (held << 6 | u32::try_from(digit).unwrap(), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(held >> count & 0xff).unwrap());
        }
    }
    bytes
}
