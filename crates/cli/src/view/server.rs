//! The addresses of the page, and who may ask for them.
//!
//! Any web site can make a browser send requests to this machine, and other users of the machine can send some, too. So an
//! answer with data needs the random token, which only the printed URL has, and every request must name this server as its
//! host: a site whose name is turned to this machine's address (DNS rebinding) names itself. The page loads nothing from
//! elsewhere, and runs no script but its own.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{interval, sleep, timeout};

use super::answers::{Asked, Viewed};
use crate::progress::is_interrupted;

/// What browsers must heed, in every answer.
const HEADERS: [(&str, &str); 7] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
];

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const JSON: &str = "application/json";

/// The files of the page. They are the same for every file that is viewed.
const PAGE: [(&str, &str, &str); 5] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/view.js", SCRIPT, include_str!("page/view.js")),
    ("/view.css", STYLE, include_str!("page/view.css")),
    ("/uplot.js", SCRIPT, include_str!("page/uPlot.iife.min.js")),
    ("/uplot.css", STYLE, include_str!("page/uPlot.min.css")),
];

/// How often the server looks whether it should end.
const OFTEN: Duration = Duration::from_millis(100);

/// The greatest number of questions that are answered at the same time, each on its own thread.
const MOST_AT_ONCE: usize = 16;

/// The greatest number of connections. If there are more, the oldest one without work is closed.
const MOST_CONNECTIONS: usize = 256;

/// The greatest size of a request in bytes.
const LARGEST: usize = 64 << 10;

/// How long a client may take to send a request, or receive nothing of its answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer: status, type and content.
type Answer = (StatusCode, &'static str, Bytes);

struct Page {
    hosts: [String; 2],
    token: String,
    viewed: Viewed,
    free: Arc<Semaphore>,
}

/// What a connection does.
#[derive(PartialEq)]
enum Stage {
    Waiting,
    Working,
    Sending,
}

/// The content of an answer. The stage is set anew for each piece that is taken.
struct Content {
    rest: Bytes,
    stage: watch::Sender<Stage>,
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.stage.send_replace(Stage::Sending);
        let length = self.rest.len().min(LARGEST);
        let piece = self.rest.split_to(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// The URL of the page. What follows `#` is not sent, so it is in no log and in no `Referer`.
pub fn page_url(address: SocketAddr, token: &str, name: &str) -> String {
    let name: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    match name.is_empty() {
        true => format!("http://{address}/#token={token}"),
        false => format!("http://{address}/#token={token}&name={name}"),
    }
}

/// Answers until the program is interrupted.
pub fn serve(
    listener: std::net::TcpListener,
    address: SocketAddr,
    token: String,
    viewed: Viewed,
) -> std::io::Result<()> {
    let port = address.port();
    let page = Arc::new(Page {
        hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        token,
        viewed,
        free: Arc::new(Semaphore::new(MOST_AT_ONCE)),
    });
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(MOST_AT_ONCE)
        .enable_all()
        .build()?;
    let served = runtime.block_on(accept(listener, page));
    // not joined: a read that still goes on ends when it looks whether the program was interrupted
    runtime.shutdown_background();
    served
}

async fn accept(listener: std::net::TcpListener, page: Arc<Page>) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut connections: VecDeque<(AbortHandle, watch::Receiver<Stage>)> = VecDeque::new();
    let mut often = interval(OFTEN);
    while !is_interrupted() {
        let accepted = tokio::select! {
            _ = often.tick() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // the client has gone, or the process has no file descriptors left
            sleep(OFTEN).await;
            continue;
        };
        connections.retain(|(task, _)| !task.is_finished());
        if connections.len() >= MOST_CONNECTIONS {
            let mut stages = connections.iter().map(|(_, stage)| stage.borrow());
            let oldest = stages.position(|stage| *stage != Stage::Working);
            if let Some((task, _)) = oldest.and_then(|oldest| connections.remove(oldest)) {
                task.abort();
            }
        }
        let (stage, seen) = watch::channel(Stage::Waiting);
        let task = tokio::spawn(converse(stream, Arc::clone(&page), stage));
        connections.push_back((task.abort_handle(), seen));
    }
    Ok(())
}

/// Answers one request, and closes the connection. The body of a request is not read.
async fn converse(stream: TcpStream, page: Arc<Page>, stage: watch::Sender<Stage>) {
    let mut seen = stage.subscribe();
    let (page, stage) = (&page, &stage);
    let service = service_fn(move |request| async move {
        let answer = page.answer(&request, stage).await;
        stage.send_replace(Stage::Sending);
        Ok::<_, Infallible>(response(answer, stage.clone()))
    });
    let conversation = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(LARGEST)
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    let stalled = async {
        let _ = seen.wait_for(|stage| *stage == Stage::Sending).await;
        while let Ok(Ok(())) = timeout(PATIENCE, seen.changed()).await {}
    };
    tokio::select! {
        // the browser may have gone
        _ = conversation => {}
        () = stalled => {}
    }
}

fn response((status, kind, rest): Answer, stage: watch::Sender<Stage>) -> Response<Content> {
    let mut response = Response::new(Content { rest, stage });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in HEADERS.into_iter().chain([("Content-Type", kind)]) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refused(status: StatusCode, why: &str) -> Answer {
    let document = json!({"error": {"message": why}});
    (status, JSON, document.to_string().into())
}

impl Page {
    async fn answer(
        self: &Arc<Self>,
        request: &Request<Incoming>,
        stage: &watch::Sender<Stage>,
    ) -> Answer {
        let header = |name: &'static str| request.headers().get(name)?.to_str().ok();
        let host = header("Host").unwrap_or_default();
        if !self.hosts.iter().any(|known| known == host) {
            return refused(
                StatusCode::MISDIRECTED_REQUEST,
                "this server has another name",
            );
        }
        // a browser says in this header which page asks
        let site = header("Sec-Fetch-Site");
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return refused(
                StatusCode::FORBIDDEN,
                "requests of other sites are not answered",
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "there is only GET and HEAD");
        }
        let path = request.uri().path();
        if let Some((_, kind, content)) = PAGE.iter().find(|(known, ..)| *known == path) {
            return (StatusCode::OK, kind, Bytes::from_static(content.as_bytes()));
        }
        if path != "/api" {
            return refused(StatusCode::NOT_FOUND, "there is nothing here");
        }
        let given = header("Authorization").and_then(|text| text.strip_prefix("Bearer "));
        if !given.is_some_and(|given| is_same(given.as_bytes(), self.token.as_bytes())) {
            return refused(
                StatusCode::UNAUTHORIZED,
                "open the URL that fb view has printed",
            );
        }
        let Ok(place) = Arc::clone(&self.free).try_acquire_owned() else {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once");
        };
        stage.send_replace(Stage::Working);
        let asked = Asked(parameters(request.uri().query().unwrap_or_default()));
        let page = Arc::clone(self);
        let work = spawn_blocking(move || {
            // kept until the work is done, even if the browser has gone
            let _place = place;
            match page.viewed.answer(&asked) {
                Ok(found) => (StatusCode::OK, JSON, found.to_string().into()),
                Err(failure) => {
                    let document = failure.document(None).to_string();
                    (StatusCode::BAD_REQUEST, JSON, document.into())
                }
            }
        });
        let failed = |_| refused(StatusCode::INTERNAL_SERVER_ERROR, "the answer failed");
        work.await.unwrap_or_else(failed)
    }
}

/// The parameters of a query, as browsers encode them.
fn parameters(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let is_code = byte == b'%' && code.is_some();
        out.push(match code {
            Some(code) if is_code => code,
            _ if byte == b'+' => b' ',
            _ => byte,
        });
        rest = after.get(if is_code { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether two secrets are equal, in a time that does not depend on where they differ.
fn is_same(one: &[u8], two: &[u8]) -> bool {
    let differ = one.iter().zip(two).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == two.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let found = parameters("of=histogram&where=n%3E%3D2+%26%26+a&name=%C3%A9&odd=%zz%");
        let expected = [
            ("of", "histogram"),
            ("where", "n>=2 && a"),
            ("name", "é"),
            ("odd", "%zz%"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, HashMap::from(expected));
    }

    #[test]
    fn secrets_are_equal_or_not() {
        assert!(is_same(b"abc", b"abc"));
        assert!(!is_same(b"abc", b"abd") && !is_same(b"abc", b"ab") && !is_same(b"", b"a"));
    }
}
