//! A ZooKeeper that demands Kerberos, and its KDC (`tests/lib/realm.sh`). The clients are processes of their own, since the
//! system's library has its settings from the environment.

mod needs_kerberos {
    use std::{
        borrow::Cow,
        env,
        io::{BufRead as _, BufReader, Write as _},
        net::{Ipv4Addr, SocketAddr},
        path::Path,
        process::{Child, Command, Stdio},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        thread::sleep,
        time::Duration,
    };

    use lockkeeper::{
        Client, Mutex,
        client::{sasl::Kerberos, tls::TlsConfig},
        node::{Acl, Perms},
    };
    use lockkeeper_test_support::{
        certificates::Authority,
        from_environment,
        proxy::{Direction, Proxy, Tap},
        real_server::free_ports,
        secure_server::with_tls,
    };
    use rustix::process::{Pid, Signal, kill_process};
    use tokio::runtime::Runtime;

    use crate::support::{Ended, Files, Running, ended, lockkeeper, pid_of, root, wait_for};

    /// A KDC and a server. Dropping this value ends both.
    struct Realm {
        script: Child,
        files: Files,
        kdc: Pid,
        port: u16,
        secure_port: u16,
    }

    impl Realm {
        fn start() -> Self {
            Self::start_with(|_, _| String::new())
        }

        /// A realm whose server has further lines in its configuration: those for this directory
        /// and this port.
        fn start_with(more: impl FnOnce(&Path, u16) -> String) -> Self {
            let (files, ports) = (Files::new("realm"), free_ports(3));
            files.write("more.cfg", &more(files.path("").as_ref(), ports[2]));
            let mut script = Command::new(root().join("tests/lib/realm.sh"))
                .arg(files.path(""))
                .args(ports[..2].iter().map(u16::to_string))
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
                secure_port: ports[2],
            }
        }

        /// The server behind a proxy, and how many connections it has had whose first ping was answered.
        fn proxy(&self, runtime: &Runtime) -> (Proxy, String, Arc<AtomicUsize>) {
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
            let connections = Arc::new(AtomicUsize::new(0));
            let counted = connections.clone();
            let taps = Arc::new(move |_| Box::new(Pinged(Some(counted.clone()))) as _);
            let proxy = runtime.block_on(Proxy::tapped(&[server], taps));
            let servers = format!("localhost:{}", proxy.ports()[0]);
            (proxy, servers, connections)
        }

        /// A ticket of `client` for this time, in the cache of this name.
        fn kinit(&self, cache: &str, lifetime: &str) {
            let mut kinit = Command::new("kinit");
            let keytab = self.files.path("client.keytab");
            self.in_realm(
                kinit.args(["-l", lifetime, "-k", "-t", &*keytab, "client"]),
                cache,
            );
            assert!(kinit.status().unwrap().success());
        }

        fn in_realm<'a>(&self, command: &'a mut Command, cache: &str) -> &'a mut Command {
            let cache = format!("FILE:{}", self.files.path(cache));
            command
                .env("KRB5_CONFIG", self.files.path("krb5.conf"))
                .env("KRB5CCNAME", cache)
        }

        fn servers(&self) -> String {
            format!("localhost:{}", self.port)
        }

        /// `run` with these options, a ticket cache of this name, and no keytab.
        fn run(&self, servers: &str, cache: &str, options: &[&str], script: &str) -> Command {
            let mut run = lockkeeper(&["run", "/a", "--connect", servers]);
            run.args(options).args(["--", "sh", "-c", script]);
            self.in_realm(&mut run, cache);
            run
        }

        /// `lockkeeper run` with the keytab of `client`.
        fn by_keytab(&self, servers: &str, cache: &str, options: &[&str], script: &str) -> Command {
            let mut run = self.run(servers, cache, options, script);
            run.env("KRB5_CLIENT_KTNAME", self.files.path("client.keytab"));
            run
        }
    }

    /// Counts a connection when the server answers its first ping.
    struct Pinged(Option<Arc<AtomicUsize>>);

    impl Tap for Pinged {
        fn pass<'a>(&mut self, direction: Direction, bytes: &'a [u8]) -> Cow<'a, [u8]> {
            // A reply of 16 bytes to the number -2.
            let reply = [0, 0, 0, 16, 0xff, 0xff, 0xff, 0xfe];
            if direction == Direction::FromServer && bytes.windows(8).any(|part| part == reply) {
                self.0.take().map(|counted| counted.fetch_add(1, SeqCst));
            }
            bytes.into()
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
        with(&["--kerberos", "--acl", "creator"]).ends(0);
        with(&["--kerberos=client@EXAMPLE.TEST"]).ends(0);
        with(&["--try"]).ends(69).says("authenticat");
        let refused = |ended: Ended, why| {
            ended
                .ends(69)
                .says(&format!("no ticket for zookeeper@{why}"));
        };
        let why = "localhost: Can't find client principal nobody@EXAMPLE.TEST";
        refused(with(&["--try", "--kerberos=nobody"]), why);

        // What the cache has is enough. Without cache and keytab there is no ticket.
        let no_keytab =
            |cache| ended(&mut realm.run(&servers, cache, &["--try", "--kerberos"], "true"));
        no_keytab("cache").ends(0).silently();
        refused(
            no_keytab("none"),
            "localhost: No Kerberos credentials available",
        );

        // A host that the KDC does not know.
        let alias = servers.replace("localhost", "127.0.0.1");
        let other = realm.by_keytab(&alias, "cache", &["--try", "--kerberos"], "true");
        let why = "127.0.0.1: Server zookeeper/127.0.0.1@EXAMPLE.TEST not found in Kerberos";
        refused(ended(&mut { other }), why);

        // The same address with the principal of its server.
        let service = ["--kerberos", "--kerberos-service", "zookeeper/localhost"];
        let named = [&service[..], &["--try"]].concat();
        ended(&mut realm.by_keytab(&alias, "cache", &named, "true")).ends(0);
        // The doctor goes to each address of the name, for which the principal has the host.
        for servers in [&servers, &alias] {
            let mut doctor = lockkeeper(&["doctor", "--connect", servers]);
            ended(realm.in_realm(doctor.args(service), "cache")).ends(0);
        }
        let other = ["--try", "--kerberos", "--kerberos-service", "other"];
        let why = "no ticket for other@localhost: Server other/localhost@EXAMPLE.TEST not found";
        let run = ended(&mut realm.by_keytab(&servers, "cache", &other, "true"));
        run.ends(69).says(why);
        let mut doctor = lockkeeper(&["doctor", "--connect", &servers]);
        let doctor = ended(realm.in_realm(doctor.args(&other[1..]), "cache")).ends(69);
        doctor.shows(why).shows("give --kerberos-service");

        let both = realm.files.write("auth", "sasl:alice:hunter2");
        let both = with(&["--kerberos", "--auth-file", &*both]).ends(64);
        both.says("a client has one login by SASL");
    }

    const SERVERS: &str = "LOCKKEEPER_TEST_KERBEROS";
    const CERTIFICATES: &str = "LOCKKEEPER_TEST_KERBEROS_CERTIFICATES";

    /// Takes a lock in a program that is this one, with this test only: it has the settings of the
    /// system's library in its environment. `tls` is a directory with certificates.
    fn takes_a_lock(realm: &Realm, test: &str, servers: &str, tls: Option<&str>) {
        let mut program = Command::new(env::current_exe().unwrap());
        let test = format!("kerberos::needs_kerberos::{test}");
        program.args(["--exact", "--include-ignored", &*test]);
        program.env(SERVERS, servers);
        program.envs(tls.map(|directory| (CERTIFICATES, directory)));
        program.env("KRB5_CLIENT_KTNAME", realm.files.path("client.keytab"));
        ended(realm.in_realm(&mut program, "cache"))
            .ends(0)
            .shows("1 passed");
    }

    /// What that program does. Returns whether it is this one.
    fn is_that_program() -> bool {
        let Ok(servers) = env::var(SERVERS) else {
            return false;
        };
        Runtime::new().unwrap().block_on(async {
            let (login, builder) = (Kerberos::new(), Client::builder(&servers).unwrap());
            let settings = if let Ok(directory) = env::var(CERTIFICATES) {
                let file = |name| Path::new(&directory).join(name);
                let tls = TlsConfig::from_ca_file(file("clients.pem")).unwrap();
                let tls = tls.identity_files(file("me.pem"), file("me.key"));
                login.log_in_over(builder, tls.unwrap().connector())
            } else {
                login.log_in(builder)
            };
            let acl = vec![Acl::new(Perms::ALL, "sasl", "client@EXAMPLE.TEST")];
            let client = settings.default_acl(acl).connect().await.unwrap();
            let guard = Mutex::new(&client, "/a").unwrap().lock().await.unwrap();
            guard.release().await.unwrap();
        });
        true
    }

    #[test]
    #[ignore = "needs a KDC, Java and a ZooKeeper: tests/run.sh"]
    fn a_program_takes_a_lock_with_a_ticket() {
        if is_that_program() {
            return;
        }
        let realm = Realm::start();
        let test = "a_program_takes_a_lock_with_a_ticket";
        takes_a_lock(&realm, test, &realm.servers(), None);
        let with = |who| {
            let options = ["--try", "--kerberos", "--acl", who];
            ended(&mut realm.run(&realm.servers(), "cache", &options, "true"))
        };
        with("sasl:client@EXAMPLE.TEST").ends(0).silently();
        with("sasl:other@EXAMPLE.TEST")
            .ends(64)
            .says("sasl:client@EXAMPLE.TEST");
    }

    /// The server demands a certificate and a ticket.
    #[test]
    #[ignore = "needs a KDC, Java and a ZooKeeper with netty: tests/run.sh"]
    fn a_login_over_tls_needs_a_ticket_and_the_name_in_the_certificate() {
        if is_that_program() {
            return;
        }
        let authority = Authority::new("ours");
        let (server, me) = (authority.issue(&["localhost"]), authority.issue(&["me"]));
        let realm =
            Realm::start_with(|directory, port| with_tls(directory, port, &server, &authority));
        let certificate = realm.files.write("me.pem", &me.certificate);
        let key = realm.files.write("me.key", &me.key);
        let secure = format!("localhost:{}", realm.secure_port);
        let test = "a_login_over_tls_needs_a_ticket_and_the_name_in_the_certificate";
        takes_a_lock(&realm, test, &secure, Some(&*realm.files.path("")));

        let ca = realm.files.path("clients.pem");
        let tls = [
            "--tls-ca",
            &*ca,
            "--tls-cert",
            &*certificate,
            "--tls-key",
            &*key,
            "--try",
        ];
        let with = |servers: &str, cache: &str, options: &[&str]| {
            let options = [&tls, options].concat();
            ended(&mut realm.run(servers, cache, &options, "true"))
        };
        let login = ["--kerberos", "--kerberos-service", "zookeeper/localhost"];
        let creator = [&login[..], &["--acl", "sasl:client@EXAMPLE.TEST"]].concat();
        with(&secure, "cache", &creator).ends(0).silently();
        with(&secure, "cache", &[]).ends(69).says("authenticat");
        let no_ticket = with(&secure, "none", &login).ends(69);
        no_ticket.says("no ticket for zookeeper@localhost: ");
        // The error is that of TLS, whether there is a ticket or not.
        let address = secure.replace("localhost", "127.0.0.1");
        for cache in ["cache", "none"] {
            let other = with(&address, cache, &login).ends(69);
            other.says("the server's certificate is not for 127.0.0.1 (but for ");
        }
    }

    #[test]
    #[ignore = "needs a KDC, Java and a ZooKeeper: tests/run.sh"]
    fn a_lock_outlives_its_ticket_if_the_next_one_comes_in_time() {
        let realm = Realm::start();
        let runtime = Runtime::new().unwrap();
        let (proxy, servers, _) = realm.proxy(&runtime);
        // Long enough for a login on a busy machine, once there is another ticket.
        let timeout = Duration::from_secs(10);
        let options = ["--kerberos", "--session-timeout", "10s"];
        realm.kinit("cache", "4s");
        let script = "echo begun; read end; test \"$end\" = now";
        let mut run = realm.run(&servers, "cache", &options, script);
        let (mut run, mut stdin) = Running::start_to_write(&mut run);
        assert_eq!(run.line(), "begun");

        sleep(Duration::from_secs(5));
        let mut doctor = lockkeeper(&["doctor", "--kerberos", "--timeout", "1s"]);
        doctor.args(["--connect", &*realm.servers()]);
        let doctor = ended(realm.in_realm(&mut doctor, "cache")).ends(69);
        doctor.shows("icket expired").shows("run kinit again");
        // No connection, until there is another ticket.
        proxy.reset();
        sleep(Duration::from_millis(500));
        realm.kinit("cache", "1h");
        sleep(timeout);
        assert!(run.is_running());
        stdin.write_all(b"now\n").unwrap();
        run.end().ends(0);
    }

    #[test]
    #[ignore = "needs a KDC, Java and a ZooKeeper: tests/run.sh"]
    fn locks_outlive_60_reconnects_while_the_kdc_hangs() {
        let realm = Realm::start();
        let runtime = Runtime::new().unwrap();
        let (proxy, servers, connections) = realm.proxy(&runtime);
        let options = ["--kerberos", "--shared", "--session-timeout", "4s"];
        let script = "echo begun; read end; test \"$end\" = now";
        let run = |()| {
            let mut run = realm.by_keytab(&servers, "cache", &options, script);
            let (mut run, stdin) = Running::start_to_write(&mut run);
            assert_eq!(run.line(), "begun");
            (run, stdin)
        };
        let mut runs = Vec::from([(); 3].map(run));

        kill_process(realm.kdc, Signal::STOP).unwrap();
        for count in (0..=60).step_by(runs.len()) {
            wait_for("a ping of each", || {
                if let Some(ended) = runs.iter_mut().position(|(run, _)| !run.is_running()) {
                    runs.swap_remove(ended).0.end().says("nothing: it runs");
                }
                connections.load(SeqCst) == count + runs.len()
            });
            proxy.reset();
        }
        // Nobody else gets a ticket meanwhile.
        let options = ["--kerberos", "--wait", "4s"];
        let mut other = realm.by_keytab(&realm.servers(), "other", &options, "true");
        ended(&mut other)
            .ends(75)
            .says("no answer of any KDC for 2 s");
        for (run, mut stdin) in runs {
            stdin.write_all(b"now\n").unwrap();
            run.end().ends(0);
        }
    }
}
