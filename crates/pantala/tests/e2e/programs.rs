//! `pantala run`: programs of the system, unchanged, on pantala, with Linux as their peer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dev::sys::process::end_with_parent;

use crate::lab::{Attach, Family, Host, Lab, Link, at};
use crate::need;
use crate::pantala::{Folder, PROGRAM, Said};
use crate::wait::{PATIENCE, until};

/// A child that is killed with its value.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(end_with_parent(command).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A lab with a TAP whose pantala serves programs at `app.sock` in the folder; `None` if it cannot be had.
pub(crate) fn lab(test: &str, folder: &Folder, more: &str) -> Option<Lab> {
    for program in ["curl", "python3"] {
        if !need::program(program) {
            return None;
        }
    }
    std::fs::write(folder.file("page"), page()).unwrap();
    lab_of(test, folder, &[Link::new(Attach::Tap)], more)
}

/// As [`lab`], with these links.
pub(crate) fn lab_of(test: &str, folder: &Folder, links: &[Link], more: &str) -> Option<Lab> {
    build_the_library();
    let socket = folder.file("app.sock");
    let section = format!("[programs]\nsocket = \"{}\"\nmode = \"0666\"\n{more}", socket.display());
    Lab::start_with(test, links, &section)
}

/// The library stands beside the program.
pub(crate) fn build_the_library() {
    let profile = Path::new(PROGRAM).parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "-q", "-p", "preload", "--target-dir"]).arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success());
    assert!(profile.join("libpantala_preload.so").is_file());
}

/// More than all buffers on the way hold together, and repeats nowhere.
pub(crate) fn page() -> Vec<u8> {
    (0_u64..400_000).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

/// A program on pantala, in the kernel's network of the test: there is no other way to the lab. Without one, the caller adds it.
pub(crate) fn on_pantala(folder: &Folder, program: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg("--app-socket").arg(folder.file("app.sock"));
    if !program.is_empty() {
        command.arg("--").args(program);
    }
    command.current_dir(folder.path());
    command
}

/// Python's web server, of the folder.
pub(crate) fn server(family: Family, port: u16) -> Vec<String> {
    let any = family.any().to_string();
    ["python3", "-m", "http.server", &port.to_string(), "--bind", &any].map(str::to_owned).to_vec()
}

pub(crate) fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

fn connect(host: &Host, family: Family, port: u16) -> Option<TcpStream> {
    let to = at(host.router(family), port);
    let stream = host.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Some(stream)
}

fn curl_and_python_s_web_server_run_unmodified_on_pantala() {
    let test = "programs::curl_and_python_s_web_server_run_unmodified_on_pantala";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        // curl on pantala, the server with the kernel.
        let far = server(family, 8080);
        let mut command = Command::new(&far[0]);
        command.args(&far[1..]).current_dir(folder.path());
        let _far = Running::start(host.netns.put(&mut command).unwrap());
        let to = at(host.addr(family), 8080);
        until("the server listens", || host.netns.run(|| TcpStream::connect(to)).unwrap().ok());
        let url = format!("http://{to}/page");
        let got = on_pantala(&folder, &["curl", "-sS", "-m", "20", &url]).output().unwrap();
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert!(got.stdout == page(), "{} bytes of {}", got.stdout.len(), page().len());
        // A port where none listens: the program learns why.
        let url = format!("http://{}/", at(host.addr(family), 8));
        let refused: Said = on_pantala(&folder, &["curl", "-sS", "-m", "20", &url]).output().unwrap().into();
        assert_eq!(refused.code, Some(7), "{refused:?}");
        assert!(refused.err.to_lowercase().contains("connect to"), "{refused:?}");

        // The server on pantala, curl with the kernel.
        let near = server(family, 8081);
        let _near = Running::start(&mut on_pantala(&folder, &words(&near)));
        until("the server listens", || connect(host, family, 8081));
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-m", "20"]).arg(format!("http://{}/page", at(host.router(family), 8081)));
        let got = host.netns.put(&mut curl).unwrap().output().unwrap();
        assert!(got.stdout == page(), "{}", String::from_utf8_lossy(&got.stderr));
    });
}

fn a_program_that_is_killed_leaves_nothing_and_harms_no_other() {
    let test = "programs::a_program_that_is_killed_leaves_nothing_and_harms_no_other";
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    lab.both(|family| {
        let [one, other] = [8081, 8082].map(|port| server(family, port));
        let mut one = Running::start(&mut on_pantala(&folder, &words(&one)));
        let _other = Running::start(&mut on_pantala(&folder, &words(&other)));
        let mut stream = until("the server listens", || connect(host, family, 8081));
        until("the other listens", || connect(host, family, 8082));
        // What is no request ends the connection that says it.
        let mut garbage = UnixStream::connect(folder.file("app.sock")).unwrap();
        let said = garbage.write_all(&[0xa5; 4096]);
        let mut answer = Vec::new();
        let ended = said.and_then(|()| garbage.read_to_end(&mut answer));
        assert!(answer.is_empty(), "{ended:?}: {answer:?}");
        // Kill -9.
        one.0.kill().unwrap();
        one.0.wait().unwrap();
        let end = stream.read(&mut [0; 16]);
        assert!(end.as_ref().map_or(true, |count| *count == 0), "{end:?}");
        until("the port is closed", || connect(host, family, 8081).is_none().then_some(()));
        assert!(connect(host, family, 8082).is_some());
        // The port is free again.
        let again = server(family, 8081);
        let _again = Running::start(&mut on_pantala(&folder, &words(&again)));
        until("the next server listens", || connect(host, family, 8081));
    });
}

fn a_user_that_may_not_is_told_so_before_the_program_starts() {
    let test = "programs::a_user_that_may_not_is_told_so_before_the_program_starts";
    let folder = Folder::new();
    let Some(_lab) = lab(test, &folder, "users = [\"12345\"]\n") else { return };
    let said = |uid| -> Said { on_pantala(&folder, &["/bin/true"]).uid(uid).output().unwrap().into() };
    let refused = said(12346);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("user 12346 may not use pantala (EACCES)"), "{refused:?}");
    assert_eq!(said(0).code, Some(0));
}

harness::tests![
    curl_and_python_s_web_server_run_unmodified_on_pantala,
    a_program_that_is_killed_leaves_nothing_and_harms_no_other,
    a_user_that_may_not_is_told_so_before_the_program_starts,
];
