//! `pantala run`: servers of Debian that fork for their connections, and a measuring program, with clients in the kernel.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Signal, kill_process};

use crate::lab::{Host, at};
use crate::need;
use crate::pantala::{Folder, Said};
use crate::programs::{Running, lab, on_pantala, page};
use crate::server_programs::{HELLO, REQUEST, bracketed, loaded, process, reload, says, write};
use crate::wait::until;

/// Runs a program of the host to its end.
fn on_host(host: &Host, program: &[&str]) -> Said {
    let mut command = Command::new(program[0]);
    host.netns.put(command.args(&program[1..])).unwrap().output().unwrap().into()
}

fn apache_forks_for_its_connections_and_restarts_under_load() {
    let test = "forking_programs::apache_forks_for_its_connections_and_restarts_under_load";
    if !need::program("apache2") {
        return;
    }
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    let path = folder.path().display();
    std::fs::create_dir(folder.file("www")).unwrap();
    std::fs::write(folder.file("www/index.html"), HELLO).unwrap();
    std::fs::write(folder.file("www/page"), page()).unwrap();
    let modules: String = ["mpm_prefork", "authz_core", "dir"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    lab.both(|family| {
        let own = bracketed(host, family);
        // Children end after some connections, so that others come all the time.
        let text = format!(
            "{modules}ServerName office\nServerRoot {path}\nDefaultRuntimeDir {path}\nPidFile {path}/apache.pid\n\
             ErrorLog {path}/apache.log\nListen {own}:8100\nUser nobody\nDocumentRoot {path}/www\n\
             DirectoryIndex index.html\nStartServers 2\nMaxRequestWorkers 8\nMaxConnectionsPerChild 40\n"
        );
        let config = write(&folder, "apache.conf", &text);
        let mut apache = on_pantala(&folder, &["apache2", "-f", &config, "-D", "FOREGROUND"]);
        // It passes signals on to its group.
        let _apache = Running::start(apache.process_group(0));
        let to = at(host.router(family), 8100);
        until("Apache answers", || says(host, to, REQUEST, HELLO));
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-m", "20", &format!("http://{to}/page")]);
        let got = host.netns.put(&mut curl).unwrap().output().unwrap();
        assert!(got.stdout == page(), "{}", String::from_utf8_lossy(&got.stderr));
        let pid = folder.file("apache.pid");
        let count = loaded(host, to, || reload(&pid, Signal::USR1, host, to));
        assert!(count > 20, "{count} requests");
        kill_process(process(&pid).unwrap(), Signal::TERM).unwrap();
        until("Apache is gone", || (!pid.exists()).then_some(()));
    });
}

/// The folder of PostgreSQL's own programs.
fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin")).find(|bin| bin.join("pgbench").exists());
    if found.is_none() {
        harness::skip("PostgreSQL is not installed");
    }
    found
}

fn postgresql_serves_pgbench_with_kept_and_with_short_connections() {
    let test = "forking_programs::postgresql_serves_pgbench_with_kept_and_with_short_connections";
    let Some(bin) = postgres() else { return };
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    let program = |name: &str| bin.join(name).display().to_string();
    // It does not run as root.
    let number = |option| -> u32 {
        let shown = Command::new("id").args([option, "postgres"]).output().unwrap();
        String::from_utf8(shown.stdout).unwrap().trim().parse().unwrap()
    };
    let (uid, gid) = (number("-u"), number("-g"));
    let data = folder.file("data");
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::chown(&data, Some(uid), Some(gid)).unwrap();
    let mut made = Command::new(program("initdb"));
    made.args(["-A", "trust", "-U", "postgres", "-N", "-D"]).arg(&data).current_dir("/").uid(uid).gid(gid);
    assert!(made.output().unwrap().status.success());
    let trust = "host all all 0.0.0.0/0 trust\nhost all all ::/0 trust\n";
    std::fs::write(data.join("pg_hba.conf"), trust).unwrap();
    let data = data.display().to_string();
    lab.both(|family| {
        let own = host.router(family).to_string();
        let (server, bench) = (program("postgres"), program("pgbench"));
        let settings = ["-c", "fsync=off", "-c", "unix_socket_directories=", "-c", "max_connections=20"];
        let line = [&[&*server, "-D", &data, "-h", &own, "-p", "5433"][..], &settings].concat();
        let mut running = Running::start(on_pantala(&folder, &line).uid(uid).gid(gid));
        let asks = |options: &[&str]| {
            let line = [&[&*bench, "-h", &own, "-p", "5433", "-U", "postgres"][..], options, &["postgres"]];
            on_host(host, &line.concat())
        };
        until("PostgreSQL serves", || (asks(&["-i", "-q"]).code == Some(0)).then_some(()));
        // With a connection for each client, and with one for each transaction.
        for options in [&["-c", "4", "-t", "100"][..], &["-c", "4", "-t", "10", "-C"]] {
            let said = asks(options);
            assert_eq!(said.code, Some(0), "{said:?}");
            assert!(said.out.contains("number of failed transactions: 0 "), "{said:?}");
        }
        let pid = rustix::process::Pid::from_raw(running.0.id().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        until("PostgreSQL is gone", || running.0.try_wait().unwrap());
    });
}

fn sockperf_plays_ping_pong_over_udp_and_tcp() {
    let test = "forking_programs::sockperf_plays_ping_pong_over_udp_and_tcp";
    if !need::program("sockperf") {
        return;
    }
    let folder = Folder::new();
    let Some(lab) = lab(test, &folder, "") else { return };
    let host = &lab.hosts[0];
    // It has no IPv6.
    let own = host.router(crate::lab::Family::V4).to_string();
    let far = host.addr(crate::lab::Family::V4).to_string();
    for more in [&[][..], &["--tcp"]] {
        // The server on pantala, then the client.
        let line = |what, ip| [&["sockperf", what, "-i", ip, "-p", "7010"][..], more].concat();
        let plays = |said: Said| {
            let is_whole = said.out.contains("dropped messages = 0; # duplicated messages = 0");
            (said.code == Some(0) && is_whole).then_some(said)
        };
        let client = |ip| [&line("ping-pong", ip)[..], &["-t", "1"]].concat();
        let near = Running::start(&mut on_pantala(&folder, &line("server", &own)));
        until("the client has its messages back", || plays(on_host(host, &client(&own))));
        drop(near);
        let mut server = Command::new("sockperf");
        server.args(&line("server", &far)[1..]);
        let _far = Running::start(host.netns.put(&mut server).unwrap());
        until("the client on pantala has its messages back", || {
            plays(on_pantala(&folder, &client(&far)).output().unwrap().into())
        });
    }
}

harness::tests![
    apache_forks_for_its_connections_and_restarts_under_load,
    postgresql_serves_pgbench_with_kept_and_with_short_connections,
    sockperf_plays_ping_pong_over_udp_and_tcp,
];
