//! The addresses of the page, and who may ask for them.
//!
//! Any web site can make a browser send requests to this machine, and other users of the machine can send some, too. So an
//! answer with data needs the random token, which only the printed URL has, and every request must name this server as its
//! host: a site whose name is turned to this machine's address (DNS rebinding) names itself. The page loads nothing from
//! elsewhere, and runs no script but its own.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tiny_http::{Header, Method, Request, Response, Server};

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

/// The greatest number of requests that are answered at the same time.
const MOST_AT_ONCE: usize = 16;

/// An answer: status, type and content.
type Answer = (u16, &'static str, String);

struct Page {
    hosts: [String; 2],
    token: String,
    viewed: Viewed,
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
    listener: TcpListener,
    address: SocketAddr,
    token: String,
    viewed: Viewed,
) -> std::io::Result<()> {
    let port = address.port();
    let page = Arc::new(Page {
        hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        token,
        viewed,
    });
    let server = Server::from_listener(listener, None).map_err(std::io::Error::other)?;
    while !is_interrupted() {
        let Some(request) = server.recv_timeout(OFTEN)? else {
            continue;
        };
        // each thread has one of the references
        if Arc::strong_count(&page) > MOST_AT_ONCE {
            send(request, refused(503, "too many requests at once"));
            continue;
        }
        let page = Arc::clone(&page);
        // not joined: a read that still goes on ends when it looks whether the program was interrupted
        thread::spawn(move || {
            let answer = page.answer(&request);
            send(request, answer);
        });
    }
    Ok(())
}

fn send(request: Request, (status, kind, content): Answer) {
    let mut response = Response::from_string(content).with_status_code(status);
    for (name, value) in HEADERS.into_iter().chain([("Content-Type", kind)]) {
        if let Ok(header) = Header::from_bytes(name, value) {
            response.add_header(header);
        }
    }
    // the browser may have gone
    let _ = request.respond(response);
}

fn refused(status: u16, why: &str) -> Answer {
    let document = json!({"error": {"message": why}});
    (status, JSON, document.to_string())
}

impl Page {
    fn answer(&self, request: &Request) -> Answer {
        let header = |name: &'static str| {
            let mut headers = request.headers().iter();
            let found = headers.find(|header| header.field.equiv(name));
            found.map(|header| header.value.as_str())
        };
        let host = header("Host").unwrap_or_default();
        if !self.hosts.iter().any(|known| known == host) {
            return refused(421, "this server has another name");
        }
        // browsers that send it say who asks
        let site = header("Sec-Fetch-Site");
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return refused(403, "requests of other sites are not answered");
        }
        if *request.method() != Method::Get {
            return refused(405, "there is only GET");
        }
        let (path, query) = request.url().split_once('?').unwrap_or((request.url(), ""));
        if let Some((_, kind, content)) = PAGE.iter().find(|(known, ..)| *known == path) {
            return (200, kind, (*content).to_owned());
        }
        if path != "/api" {
            return refused(404, "there is nothing here");
        }
        let given = header("Authorization").and_then(|text| text.strip_prefix("Bearer "));
        if !given.is_some_and(|given| is_same(given.as_bytes(), self.token.as_bytes())) {
            return refused(401, "open the URL that fb view has printed");
        }
        match self.viewed.answer(&Asked(parameters(query))) {
            Ok(found) => (200, JSON, found.to_string()),
            Err(failure) => (400, JSON, failure.document(None).to_string()),
        }
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
