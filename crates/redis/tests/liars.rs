//! The client with simple fake servers that answer as the test says. No Redis is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use femtobarn_redis::{
    Address, Client, Commands, Connection, ConnectionError, Guard, Options, RedisError, Secret,
    slot,
};

type Flow<'a> = femtobarn_redis::Flow<'a, RedisError>;

const NO_CLUSTER: &str = "-ERR This instance has cluster support disabled\r\n";
const OK: &str = "+OK\r\n";

/// The answer to a command; an empty answer closes the connection.
type Lie = dyn Fn(&str) -> String + Send + Sync;

/// A server that answers as the test says, and records the commands.
struct Server {
    address: Address,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(lie: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, lie): (Arc<Mutex<_>>, Arc<Lie>) = (Arc::default(), Arc::new(lie));
        let noted = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, noted, lie) = (stream.unwrap(), noted.clone(), lie.clone());
                thread::spawn(move || serve(&stream, &noted, &*lie));
            }
        });
        let address = Address::parse(&format!("127.0.0.1:{port}")).unwrap();
        Self { address, asked }
    }

    /// The received commands that begin with one of these words.
    fn asked(&self, words: &[&str]) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.retain(|command| words.iter().any(|word| command.starts_with(word)));
        asked
    }
}

fn serve(stream: &TcpStream, noted: &Mutex<Vec<String>>, lie: &Lie) -> Option<()> {
    let mut input = BufReader::new(stream);
    let mut output = stream;
    loop {
        let number = |line: String| line[1..].trim().parse::<usize>().ok();
        let mut line = || {
            let mut line = String::new();
            let n = input.read_line(&mut line).ok()?;
            (n > 0).then_some(line)
        };
        let n_args = number(line()?)?;
        let mut args = Vec::new();
        for _ in 0..n_args {
            number(line()?)?;
            args.push(line()?.trim().to_owned());
        }
        let command = args.join(" ");
        noted.lock().unwrap().push(command.clone());
        let said = lie(&command);
        if said.is_empty() {
            return None;
        }
        output.write_all(said.as_bytes()).ok()?;
    }
}

/// The answer to `CLUSTER SLOTS` of a cluster; each server has the slots up to the given one.
fn slots(masters: &[(&Address, u16)]) -> String {
    let mut text = format!("*{}\r\n", masters.len());
    let mut first = 0;
    for (at, last) in masters {
        let host = at.host.len();
        text += &format!("*3\r\n:{first}\r\n:{last}\r\n");
        text += &format!("*2\r\n${host}\r\n{}\r\n:{}\r\n", at.host, at.port);
        first = last + 1;
    }
    text
}

fn hasty(seeds: &[&Address]) -> Options {
    Options {
        connect_timeout: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        failover: Duration::from_secs(1),
        ..Options::new("redis://liars/", seeds.iter().copied().cloned().collect())
    }
}

fn connect(server: &Server) -> Client {
    Client::connect(hasty(&[&server.address]), Arc::new(())).unwrap()
}

/// Commands of words separated by spaces, each for the slot of its second word.
fn commands(all: &[&str]) -> Commands {
    let mut commands = Commands::default();
    for text in all {
        let words: Vec<_> = text.split(' ').map(str::as_bytes).collect();
        commands.command(slot(words[1]), &words);
    }
    commands
}

/// Runs commands; returns the answers in their order.
fn run(flow: &mut Flow<'_>, all: &[&str], in_order: bool) -> Result<Vec<String>, RedisError> {
    let mut answers = vec![String::new(); all.len()];
    flow.run("try", &commands(all), in_order, &mut |at, reply| {
        assert_eq!(answers[at], "", "{at} is answered twice");
        answers[at] = reply.text();
        Ok(())
    })?;
    Ok(answers)
}

#[test]
fn what_is_no_redis_or_does_not_answer_is_said_in_time() {
    let fails = |seeds: &[&Address], words: &[&str]| {
        let started = Instant::now();
        let error = Client::connect(hasty(seeds), Arc::new(())).unwrap_err();
        assert!(matches!(error, RedisError::Unreachable { .. }), "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{error} has no {word:?}");
        }
        assert!(started.elapsed() < Duration::from_secs(8));
    };
    let dead = femtobarn_testkit::free_port();
    let [one, two] =
        ["127.0.0.1", "localhost"].map(|host| Address::parse(&format!("{host}:{dead}")).unwrap());
    fails(&[&one, &two], &["127.0.0.1", "localhost", "refused"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let silent = Address::parse(&silent).unwrap();
    fails(&[&silent], &["no answer"]);
    let answers = thread::spawn(move || {
        // the first connection was left without an answer
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    fails(&[&silent], &["not a Redis server", "HTTP/1.1 400"]);
    answers.join().unwrap();
}

#[test]
fn a_server_is_told_who_asks_and_errors_do_not_show_the_password() {
    let server = Server::start(|command| match command {
        "AUTH me right" => OK.into(),
        command if command.starts_with("AUTH") => "-WRONGPASS no\r\n".into(),
        _ => NO_CLUSTER.into(),
    });
    let options = |password: Option<&str>| Options {
        user: Some("me".into()),
        password: password.map(|password| Secret(password.into())),
        ..hasty(&[&server.address])
    };
    let client = Client::connect(options(Some("right")), Arc::new(())).unwrap();
    assert_eq!(*client.topology().masters[0], server.address);
    assert!(!format!("{client:?}").contains("right"));
    for (password, word) in [(Some("hidden"), "WRONGPASS"), (None, "NOAUTH")] {
        let error = Client::connect(options(password), Arc::new(())).unwrap_err();
        let RedisError::Refused { node, said, .. } = &error else {
            panic!("{error}");
        };
        assert!(*node == server.address && said.starts_with(word), "{error}");
        assert!(!format!("{error} {error:?}").contains("hidden"));
    }
    let asked = Connection::open(&server.address, &options(Some("right"))).and_then(|mut one| {
        let until = Instant::now() + Duration::from_secs(5);
        one.ask(&[b"PING"], until, |reply| reply.text())
    });
    assert_eq!(asked.unwrap(), NO_CLUSTER[1..].trim());
}

#[test]
fn a_slot_that_has_moved_is_asked_for_where_it_is() {
    static CLUSTER: OnceLock<[Address; 2]> = OnceLock::new();
    static HAS_MOVED: AtomicUsize = AtomicUsize::new(0);
    // all slots are on the first server, then on the second
    let topology = || {
        let at = &CLUSTER.get().unwrap()[HAS_MOVED.load(SeqCst)];
        slots(&[(at, 16383)])
    };
    let first = Server::start(move |command| match command {
        "CLUSTER SLOTS" => topology(),
        "GET a" if HAS_MOVED.load(SeqCst) == 1 => {
            format!("-MOVED {} {}\r\n", slot(b"a"), CLUSTER.get().unwrap()[1])
        }
        _ => "$5\r\nfirst\r\n".into(),
    });
    let second = Server::start(move |command| match command {
        "CLUSTER SLOTS" => topology(),
        _ => "$6\r\nsecond\r\n".into(),
    });
    let both = [first.address.clone(), second.address.clone()];
    CLUSTER.set(both).unwrap();
    let client = connect(&first);
    let mut flow = Flow::new(&client);
    assert_eq!(run(&mut flow, &["GET a"], false).unwrap(), ["first"]);
    HAS_MOVED.store(1, SeqCst);
    assert_eq!(run(&mut flow, &["GET a"], false).unwrap(), ["second"]);
    let topology = client.topology();
    assert_eq!(
        topology.master(slot(b"a")).unwrap().port,
        second.address.port
    );
    assert!(!flow.has_repeated && !flow.has_lost);
}

#[test]
fn a_key_that_is_moving_is_asked_for_once_elsewhere() {
    let other = Server::start(|command| match command {
        "ASKING" => OK.into(),
        _ => "$2\r\nit\r\n".into(),
    });
    static HERE: OnceLock<Address> = OnceLock::new();
    let there = other.address.clone();
    let server = Server::start(move |command| match command {
        "CLUSTER SLOTS" => slots(&[(HERE.get().unwrap(), 16383)]),
        "GET moved" => format!("-ASK 1 {there}\r\n"),
        _ => "$4\r\nhere\r\n".into(),
    });
    HERE.set(server.address.clone()).unwrap();
    let client = connect(&server);
    let mut flow = Flow::new(&client);
    let answers = run(&mut flow, &["GET moved", "GET other"], false).unwrap();
    assert_eq!(answers, ["it", "here"]);
    assert_eq!(other.asked(&[""]), ["ASKING", "GET moved"]);
    assert_eq!(*client.topology().masters[0], server.address);
}

#[test]
fn what_is_sent_again_keeps_its_order_within_a_slot() {
    static N: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start(|command| match command {
        "CLUSTER SLOTS" => NO_CLUSTER.into(),
        "SET a 1" if N.fetch_add(1, SeqCst) == 0 => "-TRYAGAIN later\r\n".into(),
        _ => OK.into(),
    });
    let client = connect(&server);
    let mut flow = Flow::new(&client);
    let all = commands(&["SET a 1", "SET b 1", "SET a 2"]);
    let mut n_answers = [0; 3];
    flow.run("try", &all, true, &mut |at, _| {
        n_answers[at] += 1;
        Ok(())
    })
    .unwrap();
    assert!(flow.has_repeated && !flow.has_lost);
    // the second command of "a" was done before the first, so it is done again after it
    assert_eq!(n_answers, [1, 1, 2]);
    let asked = server.asked(&["SET a"]);
    assert_eq!(asked, ["SET a 1", "SET a 2", "SET a 1", "SET a 2"]);
}

#[test]
fn a_connection_that_breaks_is_made_anew_and_a_server_that_is_gone_is_named() {
    static N: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start(|command| match command {
        "CLUSTER SLOTS" => NO_CLUSTER.into(),
        "GET b" => String::new(),
        _ if N.fetch_add(1, SeqCst) == 0 => String::new(),
        _ => "$1\r\nx\r\n".into(),
    });
    let client = connect(&server);
    let mut flow = Flow::new(&client);
    assert_eq!(run(&mut flow, &["GET a"], false).unwrap(), ["x"]);
    assert!(flow.has_lost && flow.has_repeated);
    let started = Instant::now();
    let error = run(&mut flow, &["GET b"], false).unwrap_err();
    assert!(matches!(error, RedisError::Unreachable { .. }), "{error}");
    let named = format!("{}: the server closed the connection", server.address);
    assert!(error.to_string().contains(&named), "{error}");
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[test]
fn a_full_server_says_how_full_it_is() {
    let info = "used_memory_human:5M\r\nmaxmemory_human:4M\r\n";
    let info = format!("${}\r\n{info}\r\n", info.len());
    let server = Server::start(move |command| match command {
        "CLUSTER SLOTS" => NO_CLUSTER.into(),
        "INFO memory" => info.clone(),
        _ => "-OOM no\r\n".into(),
    });
    let client = connect(&server);
    let error = run(&mut Flow::new(&client), &["SET a 1"], true).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "redis://liars/: cannot try: {} answered \"OOM no (5M used, maxmemory is 4M)\"",
            server.address
        )
    );
}

#[test]
fn the_first_error_of_who_takes_replies_ends_the_run() {
    #[derive(Debug, PartialEq)]
    enum Failed {
        Redis,
        Enough,
    }
    impl From<RedisError> for Failed {
        fn from(_: RedisError) -> Self {
            Self::Redis
        }
    }
    let server = Server::start(|command| match command {
        "CLUSTER SLOTS" => NO_CLUSTER.into(),
        "GET no" => "-ERR no\r\n".into(),
        _ => OK.into(),
    });
    let client = connect(&server);
    let run = |all: &[&str], stop: usize| {
        let mut n = 0;
        let mut flow = femtobarn_redis::Flow::<Failed>::new(&client);
        let done = flow.run("try", &commands(all), false, &mut |_, _| {
            n += 1;
            if n == stop {
                Err(Failed::Enough)
            } else {
                Ok(())
            }
        });
        (done, n)
    };
    assert_eq!(
        run(&["GET a", "GET b", "GET c"], 2),
        (Err(Failed::Enough), 2)
    );
    assert_eq!(run(&["GET no"], 2), (Err(Failed::Redis), 0));
    assert_eq!(run(&["GET a"], 2), (Ok(()), 1));
}

/// Counts calls.
#[derive(Default)]
struct Counting {
    opened: AtomicUsize,
    checked: AtomicUsize,
    written: AtomicUsize,
    lacking: AtomicUsize,
    refuses: AtomicUsize,
}

impl Guard for Counting {
    fn opened(
        &self,
        _: &Arc<Address>,
        connection: &mut Connection,
        until: Instant,
    ) -> Result<(), ConnectionError> {
        self.opened.fetch_add(1, SeqCst);
        let said = connection.ask(&[b"PING"], until, |reply| reply.text())?;
        match self.refuses.load(SeqCst) {
            0 => Ok(()),
            _ => Err(ConnectionError::Refused(format!("NOT {said}"))),
        }
    }

    fn checked(
        &self,
        _: &Arc<Address>,
        _: &mut Connection,
        _: Instant,
    ) -> Result<bool, ConnectionError> {
        Ok(self.checked.fetch_add(1, SeqCst) > 0)
    }

    fn written(&self, _: &Address) {
        self.written.fetch_add(1, SeqCst);
    }

    fn lacking(&self, wanted: usize, nodes: &[Arc<Address>], _: Duration) {
        assert_eq!((wanted, nodes.len()), (2, 1));
        self.lacking.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_guard_is_asked_before_servers_are_used_and_told_of_replicas() {
    let server = Server::start(|command| match command {
        "CLUSTER SLOTS" => NO_CLUSTER.into(),
        command if command.starts_with("WAIT") => ":1\r\n".into(),
        _ => OK.into(),
    });
    let guard = Arc::new(Counting::default());
    let counts = || {
        let all = [
            &guard.opened,
            &guard.checked,
            &guard.written,
            &guard.lacking,
        ];
        all.map(|count| count.load(SeqCst))
    };
    let options = Options {
        failover: Duration::from_secs(3),
        timeout: Duration::from_secs(3),
        ..hasty(&[&server.address])
    };
    let client = Client::connect(options, guard.clone()).unwrap();
    assert_eq!(counts(), [1, 0, 0, 0]);
    // it fails the first time, so it is called once more, and then no more
    for checked in [1, 2, 2] {
        run(&mut Flow::new(&client), &["GET a"], false).unwrap();
        assert_eq!(counts(), [1, checked, 0, 0]);
    }
    let mut flow = Flow::new(&client);
    run(&mut flow, &["SET a 1"], true).unwrap();
    assert_eq!(flow.wait_for_replicas(2).unwrap(), Some(1));
    assert_eq!(flow.lacking.len(), 1);
    assert_eq!(counts(), [1, 2, 1, 1]);
    assert_eq!(server.asked(&["WAIT"]), ["WAIT 2 1000", "WAIT 2 2000"]);
    // after a failure, the client does not wait long again
    assert_eq!(flow.wait_for_replicas(2).unwrap(), Some(1));
    assert_eq!(counts(), [1, 2, 1, 1]);
    // connections that others hold are opened again, and may be refused
    guard.refuses.store(1, SeqCst);
    let error = run(&mut Flow::new(&client), &["GET a"], false).unwrap_err();
    let said = error.to_string();
    assert!(said.ends_with("answered \"NOT OK\""), "{said}");
}
