//! The client with servers that make it wait, or that violate the protocol.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use femtobarn_xrootd::{Client, File, OpenOptions, Options, XrootdError, XrootdUrl, with_causes};

const DIRLIST: u16 = 3004;
const LOCATE: u16 = 3027;
const LOGIN: u16 = 3007;
const OPEN: u16 = 3010;
const QUERY: u16 = 3001;
const STAT: u16 = 3017;

const OK: u16 = 0;
const ERROR: u16 = 4003;
const REDIRECT: u16 = 4004;
const WAIT: u16 = 4005;
const WAIT_FOR_RESPONSE: u16 = 4006;
const AUTH_MORE: u16 = 4002;

/// A status and a body.
type Answer = (u16, Vec<u8>);

/// Returns the answer to a request; the second argument counts the requests of its kind. None means the usual answer.
type Lie = dyn Fn(u16, usize) -> Option<Answer> + Send + Sync;

fn with_number(number: u32, text: &str) -> Vec<u8> {
    [&number.to_be_bytes()[..], text.as_bytes()].concat()
}

/// A server on its own port, for the lifetime of the process.
fn liar(lie: impl Fn(u16, usize) -> Option<Answer> + Send + Sync + 'static) -> u16 {
    serving(1, lie)
}

/// A redirector with this answer to `locate`.
fn redirector(located: String) -> u16 {
    serving(2, move |kind, _| {
        (kind == LOCATE).then(|| (OK, located.clone().into_bytes()))
    })
}

/// A server with this role.
fn serving(role: u8, lie: impl Fn(u16, usize) -> Option<Answer> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lie: Arc<Lie> = Arc::new(lie);
    let asked: Arc<[AtomicUsize; 64]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (lie, asked) = (lie.clone(), asked.clone());
            // ends with its client
            std::thread::spawn(move || drop(serve(stream, role, &*lie, &*asked)));
        }
    });
    port
}

fn serve(mut stream: TcpStream, role: u8, lie: &Lie, asked: &[AtomicUsize]) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 20])?;
    let protocol = vec![0, 0, 5, 0x11, 0, 0, 0, role];
    stream.write_all(&[0, 0, 0, 0, 0, 0, 0, 8])?;
    stream.write_all(&protocol)?;
    loop {
        let mut head = [0; 24];
        stream.read_exact(&mut head)?;
        let kind = u16::from_be_bytes([head[2], head[3]]);
        let length = u32::from_be_bytes([head[20], head[21], head[22], head[23]]);
        let mut body = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut body)?;
        let number = asked[usize::from(kind - 3000)].fetch_add(1, SeqCst);
        let (status, body) = lie(kind, number).unwrap_or_else(|| {
            let usual = match kind {
                3006 => protocol.clone(),
                LOGIN => vec![0; 16],
                OPEN => [&[0; 12][..], b"1 100000000 48 1700000000\0"].concat(),
                QUERY => b"1024\n2097136\n\0".to_vec(),
                _ => Vec::new(),
            };
            (OK, usual)
        });
        let length = u32::try_from(body.len()).unwrap();
        stream.write_all(&[&head[..2], &status.to_be_bytes(), &length.to_be_bytes()].concat())?;
        stream.write_all(&body)?;
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ended = tokio::time::timeout(Duration::from_secs(60), work).await;
        ended.expect("it never ends")
    })
}

fn hasty() -> Client {
    Client::new(Options {
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(1),
        longest_wait: Duration::from_secs(3),
        ..Options::default()
    })
}

async fn open(client: &Client, port: u16) -> Result<File, XrootdError> {
    let url = XrootdUrl::parse(&format!("root://127.0.0.1:{port}//f")).unwrap();
    File::open(client, url, OpenOptions::Read).await
}

#[test]
fn an_answer_that_is_to_come_much_later_is_not_waited_for() {
    let late = || Some((WAIT_FOR_RESPONSE, with_number(0x7fff_ffff, "")));
    let port = liar(move |kind, _| late().filter(|_| kind == OPEN));
    let error = run(async { open(&hasty(), port).await.unwrap_err() });
    assert!(matches!(error, XrootdError::Wait { .. }), "{error}");
    let error = with_causes(&error);
    assert!(
        error.contains("wait 2147483647 s") && error.contains("longest_wait"),
        "{error}"
    );
    let port = liar(move |kind, _| late().filter(|_| kind == QUERY));
    run(async {
        let file = open(&hasty(), port).await.unwrap();
        // a server that reports no limits has those of the protocol, and is not asked again
        let limits = file.limits().await.unwrap();
        assert_eq!(limits, femtobarn_xrootd::Limits::default());
        let server = &file.url().server;
        let error = hasty()
            .configuration(server, &["version"])
            .await
            .unwrap_err();
        assert!(matches!(error, XrootdError::Wait { .. }), "{error}");
    });
}

#[test]
fn servers_that_want_to_be_asked_again_say_how_long_they_want() {
    let port = liar(|kind, _| (kind == OPEN).then(|| (WAIT, with_number(4000, "hold on"))));
    let error = run(async { open(&hasty(), port).await.unwrap_err() });
    let error = with_causes(&error);
    let wanted = format!("127.0.0.1:{port} asks to wait 4000 s for open /f (hold on)");
    assert!(error.contains(&wanted), "{error}");
    assert!(error.contains("longest_wait (3 s)"), "{error}");
}

#[test]
fn logins_wait_where_a_server_is_busy() {
    let busy = |seconds| (WAIT, with_number(seconds, "busy"));
    let port = liar(move |kind, number| (kind == LOGIN && number == 0).then(|| busy(1)));
    run(async { open(&hasty(), port).await.unwrap() });
    let port = liar(move |kind, _| (kind == LOGIN).then(|| busy(1)));
    let error = run(async { open(&hasty(), port).await.unwrap_err() });
    let error = with_causes(&error);
    assert!(
        error.contains("wait 1 s for login (busy)") && error.contains("longest_wait"),
        "{error}"
    );
}

#[test]
fn what_no_login_answers_is_told_by_its_name() {
    for (status, name) in [(REDIRECT, "Redirect"), (AUTH_MORE, "AuthMore")] {
        let answer = move || Some((status, with_number(1094, "127.0.0.1")));
        let port = liar(move |kind, _| answer().filter(|_| kind == LOGIN));
        let error = run(async { open(&hasty(), port).await.unwrap_err() });
        assert!(matches!(error, XrootdError::Malformed { .. }), "{error}");
        let error = with_causes(&error);
        assert!(error.contains(&format!("found {name}")), "{error}");
        assert!(error.contains("answer to login"), "{error}");
    }
}

#[test]
fn what_a_server_says_is_told_and_nothing_that_is_secret() {
    let echo = "not for you: /f?authz=SECRET\0";
    let port = liar(move |kind, _| (kind == OPEN).then(|| (ERROR, with_number(3010, echo))));
    let url = XrootdUrl::parse(&format!("root://127.0.0.1:{port}//f?authz=SECRET")).unwrap();
    let error = run(async {
        File::open(&hasty(), url, OpenOptions::Read)
            .await
            .unwrap_err()
    });
    let error = with_causes(&error);
    assert!(
        error.contains("not for you") && error.contains("NotAuthorized 3010"),
        "{error}"
    );
    assert!(!error.contains("SECRET"), "{error}");
}

/// A redirect could send the token to any server that it named.
#[test]
fn a_token_goes_to_no_server_that_only_a_redirect_names() {
    let asks_for_it = |kind: u16, _| {
        let login = [&[0; 16][..], b"&P=ztn,0:4096:\0"].concat();
        (kind == LOGIN).then_some((OK, login))
    };
    let thief = liar(asks_for_it);
    let tell = with_number(u32::from(thief), "127.0.0.1");
    let redirects = liar(move |kind, _| (kind == OPEN).then(|| (REDIRECT, tell.clone())));
    let error = run(async { open(&hasty(), redirects).await.unwrap_err() });
    let error = with_causes(&error);
    assert!(
        error.contains("only a redirect names this server"),
        "{error}"
    );
    assert!(error.contains("open its own URL"), "{error}");
    // nor to a server that a redirector lists
    let port = redirector(format!("Sr127.0.0.1:{thief}"));
    let url = XrootdUrl::parse(&format!("root://127.0.0.1:{port}//d/")).unwrap();
    let error = run(async { hasty().list(&url, false).await.unwrap_err() });
    let error = with_causes(&error);
    assert!(
        error.contains("only a redirect names this server"),
        "{error}"
    );
    // the server of the URL would get it, if it had TLS
    let error = run(async { open(&hasty(), thief).await.unwrap_err() });
    let error = with_causes(&error);
    assert!(error.contains("under TLS only"), "{error}");
}

#[test]
fn what_a_server_says_of_an_error_is_no_more_than_an_error() {
    for status in [ERROR, REDIRECT, WAIT] {
        let long = "x".repeat(100 << 10);
        let port = liar(move |kind, _| (kind == OPEN).then(|| (status, with_number(3010, &long))));
        let error = run(async { open(&hasty(), port).await.unwrap_err() });
        let error = with_causes(&error);
        assert!(error.contains("at most 65536 bytes"), "{}", error.len());
        assert!(error.len() < 1000, "{}", error.len());
    }
}

#[test]
fn each_try_is_told_once_and_a_short_answer_is_no_changed_file() {
    let stat = b"1 100000000 48 1700000000\0";
    let port = liar(move |kind, _| (kind == STAT).then(|| (OK, stat.to_vec())));
    let error = run(async {
        let file = open(&hasty(), port).await.unwrap();
        file.read_ranges(std::slice::from_ref(&(7..107)))
            .await
            .unwrap_err()
    });
    let error = with_causes(&error);
    let told = error.matches("with 0 of 100 bytes").count();
    // the first attempt, and the allowed retries
    assert_eq!(told, 1 + Options::default().most_retries, "{error}");
    assert!(error.contains("all servers failed"), "{error}");
    assert!(!error.contains("changed"), "{error}");
    // a file that was truncated has changed
    let stat = b"1 50 48 1700000000\0";
    let port = liar(move |kind, _| (kind == STAT).then(|| (OK, stat.to_vec())));
    let error = run(async {
        let file = open(&hasty(), port).await.unwrap();
        file.read_ranges(std::slice::from_ref(&(7..107)))
            .await
            .unwrap_err()
    });
    assert!(matches!(error, XrootdError::Changed { .. }), "{error}");
}

/// A redirector had two servers, one of which was gone: every listing and every glob failed.
#[test]
fn a_list_tells_what_it_lacks() {
    static TOLD: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    femtobarn_xrootd::tell_notices_by(|text| TOLD.lock().unwrap().push(text.to_owned()));
    let dead = femtobarn_testkit::free_port();
    let living = liar(|kind, _| (kind == DIRLIST).then(|| (OK, b"a.root\nb.root\0".to_vec())));
    let located = format!("Sr[::127.0.0.1]:{dead} Sr[::127.0.0.1]:{living}\0");
    let redirector = redirector(located);
    let list = async |partial| {
        let url = format!("root://127.0.0.1:{redirector}//folder");
        hasty()
            .list(&XrootdUrl::parse(&url).unwrap(), partial)
            .await
    };
    run(async {
        // a merge of listed files must not miss any of them without the user's consent
        let error = list(false).await.unwrap_err().to_string();
        assert!(error.contains("partial_lists"), "{error}");
        let found = list(true).await.unwrap();
        let names: Vec<&str> = found.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a.root", "b.root"]);
        // the same notice is not sent again at once
        list(true).await.unwrap();
    });
    let told = TOLD.lock().unwrap();
    let about = |port: u16| {
        told.iter()
            .filter(move |text| text.contains(&port.to_string()))
    };
    assert_eq!(about(dead).count(), 1, "{told:?}");
    let expected = format!(
        "the listing of /folder on 127.0.0.1:{redirector} is incomplete: 127.0.0.1:{dead} failed"
    );
    assert!(about(dead).all(|text| text.contains(&expected)), "{told:?}");
    drop(told);

    // a server that makes the client wait for long
    let busy = liar(|kind, number| {
        (kind == OPEN && number == 0).then(|| (WAIT, with_number(5, "staging")))
    });
    let patient = Client::new(Options::default());
    run(async { open(&patient, busy).await.unwrap() });
    let told = TOLD.lock().unwrap();
    let expected = format!("127.0.0.1:{busy} asks to wait 5 s for open /f (staging)");
    assert!(
        told.iter().any(|text| text.starts_with(&expected)),
        "{told:?}"
    );
}

#[test]
fn a_web_server_is_told_as_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n")
                .unwrap();
            // until the client closes the connection
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let error = run(async { open(&hasty(), port).await.unwrap_err() });
    let error = with_causes(&error);
    assert!(error.contains("this is a web server"), "{error}");
}
