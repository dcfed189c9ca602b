//! A ZooKeeper that demands Kerberos, and its KDC (`tests/lib/realm.sh`). The clients are commands, since the system's library
//! has its settings from the environment.

mod support;

mod needs_kerberos {
    use std::{
        io::{BufRead as _, BufReader},
        net::{Ipv4Addr, SocketAddr},
        process::{Child, Command, Stdio},
        thread::sleep,
        time::Duration,
    };

    use lockkeeper_test_support::{from_environment, proxy::Proxy, real_server::free_ports};
    use rustix::process::{Pid, Signal, kill_process};
    use tokio::runtime::Runtime;

    use crate::support::{Ended, Files, Running, ended, lockkeeper, pid_of, root};

    /// A KDC and a server. Dropping this value ends both.
    struct Realm {
        script: Child,
        files: Files,
        kdc: Pid,
        port: u16,
    }

    impl Realm {
        fn start() -> Self {
            let (files, ports) = (Files::new("realm"), free_ports(2));
            let mut script = Command::new(root().join("tests/lib/realm.sh"))
                .arg(files.path(""))
                .args(ports.iter().map(u16::to_string))
                .arg(from_environment("LOCKKEEPER_TEST_SERVER_CLASSPATH"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let output = script.stdout.as_mut().unwrap();
            BufReader::new(output).read_line(&mut line).unwrap();
            let why = ["kadmin.log", "kdc.log", "zookeeper.log"].map(|name| files.text(name));
            assert!(!line.is_empty(), "{}", why.concat());
            let kdc = pid_of(line.trim());
            Self {
                script,
                files,
                kdc,
                port: ports[1],
            }
        }

        fn servers(&self) -> String {
            format!("localhost:{}", self.port)
        }

        /// `run` with these options, a ticket cache of this name, and no keytab.
        fn run(&self, servers: &str, cache: &str, options: &[&str], script: &str) -> Command {
            let mut run = lockkeeper(&["run", "/a", "--connect", servers]);
            run.args(options).args(["--", "sh", "-c", script]);
            run.env("KRB5_CONFIG", self.files.path("krb5.conf"));
            let cache = format!("FILE:{}", self.files.path(cache));
            run.env("KRB5CCNAME", cache);
            run
        }

        /// The same with the keytab of `client`.
        fn by_keytab(&self, servers: &str, cache: &str, options: &[&str], script: &str) -> Command {
            let mut run = self.run(servers, cache, options, script);
            run.env("KRB5_CLIENT_KTNAME", self.files.path("client.keytab"));
            run
        }
    }

    impl Drop for Realm {
        fn drop(&mut self) {
            drop(self.script.stdin.take());
            let _ = self.script.wait();
        }
    }

    #[test]
    #[ignore = "needs a KDC, Java and a ZooKeeper: tests/run.sh"]
    fn a_ticket_opens_a_server_that_requires_one() {
        let realm = Realm::start();
        let servers = realm.servers();
        let with =
            |options: &[&str]| ended(&mut realm.by_keytab(&servers, "cache", options, "true"));
        with(&["--kerberos", "--acl", "creator"]).ends(0).silently();
        with(&["--kerberos=client@EXAMPLE.TEST"]).ends(0).silently();
        with(&["--try"]).ends(69).says("authenticat");
        let refused = |ended: Ended, why| ended.ends(69).says("no ticket for zookeeper@").says(why);
        refused(with(&["--try", "--kerberos=nobody"]), "nobody");

        // What the cache has is enough. Without cache and keytab there is no ticket.
        let no_keytab =
            |cache| ended(&mut realm.run(&servers, cache, &["--try", "--kerberos"], "true"));
        no_keytab("cache").ends(0).silently();
        refused(no_keytab("none"), "No Kerberos credentials available");

        // A host that the KDC does not know.
        let other = servers.replace("localhost", "127.0.0.1");
        let other = realm.by_keytab(&other, "cache", &["--try", "--kerberos"], "true");
        refused(ended(&mut { other }), "not found in Kerberos database");
    }

    #[test]
    #[ignore = "needs a KDC, Java and a ZooKeeper: tests/run.sh"]
    fn a_lock_outlives_60_reconnects_while_the_kdc_hangs() {
        let realm = Realm::start();
        let runtime = Runtime::new().unwrap();
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, realm.port));
        let proxy = runtime.block_on(Proxy::to(&[server]));
        let servers = format!("localhost:{}", proxy.ports()[0]);
        let options = ["--kerberos", "--session-timeout", "4s"];
        let script = "echo begun; read end; test \"$end\" = now";
        let mut run = realm.by_keytab(&servers, "cache", &options, script);
        let (mut run, stdin) = Running::start_to_write(&mut run);
        assert_eq!(run.line(), "begun");

        kill_process(realm.kdc, Signal::STOP).unwrap();
        for _ in 0..60 {
            proxy.reset();
            sleep(Duration::from_millis(300));
            assert!(run.is_running());
        }
        // Nobody else gets a ticket meanwhile.
        let options = ["--kerberos", "--wait", "2s"];
        ended(&mut realm.by_keytab(&realm.servers(), "other", &options, "true")).ends(75);
        std::io::Write::write_all(&mut { stdin }, b"now\n").unwrap();
        run.end().ends(0);
    }
}
