//! A URL, its current redirect target, and the rules for credentials.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use femtobarn_fork::lock;
use femtobarn_xrootd::Token;
use reqwest::Url;

use crate::redirect::{Refused, redirected};
use crate::url::public;
use crate::{IoError, Settings, scheme};

/// Error of a redirect without a valid target.
pub(super) const NOWHERE: &str = "a redirect without a valid target";

/// Advice if a server requires authentication.
const ADVICE: &str = "give a token (setting bearer_token, or variable BEARER_TOKEN; only sent with TLS), or user and \
                      password in the URL";

/// Time that a redirect target is reused: signed URLs are often valid for only some minutes, and the server may prefer
/// another target later.
const REDIRECT_LASTS: Duration = Duration::from_secs(120);

/// The source of tokens if none is given.
pub(super) trait FindToken: Send + Sync {
    /// The token in an environment variable, or in the file that one names.
    fn named(&self) -> Option<Token>;
    /// The token found by the rules of WLCG's profile.
    fn any(&self) -> Option<Token>;
    /// A description of the found token, or of the reason why there is none.
    fn described(&self, is_dav: bool) -> String;
}

/// The environment variables and files of this process.
pub(super) struct Discover;

impl FindToken for Discover {
    fn named(&self) -> Option<Token> {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        // if these are set, nothing else is searched
        let is_named = is_set("BEARER_TOKEN") || is_set("BEARER_TOKEN_FILE");
        is_named.then(Token::discover).flatten()
    }

    fn any(&self) -> Option<Token> {
        Token::discover()
    }

    fn described(&self, is_dav: bool) -> String {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let has_token = if is_dav { self.any() } else { self.named() }.is_some();
        match (
            is_set("BEARER_TOKEN"),
            is_set("BEARER_TOKEN_FILE"),
            has_token,
        ) {
            (true, _, true) => "the token of BEARER_TOKEN was sent and refused",
            (_, true, true) => "the token of the file in BEARER_TOKEN_FILE was sent and refused",
            (_, true, false) => "the file in BEARER_TOKEN_FILE has no token, or cannot be read",
            (_, _, true) => "the token from a directory was sent and refused",
            (_, _, false) => "no token was found",
        }
        .to_owned()
    }
}

/// A URL of a server.
pub(super) struct Target {
    /// The URL for messages, without secrets.
    pub url: String,
    start: Url,
    is_dav: bool,
    given: Option<Token>,
    find: Box<dyn FindToken>,
    /// Whether the server has required a token.
    wants_token: AtomicBool,
    moved: Mutex<Option<(Url, Instant)>>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.url).finish()
    }
}

impl Target {
    pub fn parse(url: &str, settings: &Settings) -> Result<Self, IoError> {
        Self::with(url, settings, Box::new(Discover))
    }

    pub fn with(url: &str, settings: &Settings, find: Box<dyn FindToken>) -> Result<Self, IoError> {
        let shown = public(url);
        let is_dav = is_dav(url);
        let start = parsed(url).map_err(|what| IoError::NoUrl {
            what: format!("{what} (expected https://host[:port]/path)"),
            url: shown.clone(),
        })?;
        Ok(Self {
            url: shown,
            start,
            is_dav,
            given: settings.token()?,
            find,
            wants_token: AtomicBool::new(false),
            moved: Mutex::default(),
        })
    }

    /// Another path on the same server, sharing the knowledge about it.
    pub fn with_path(&self, path: &str) -> Self {
        let mut start = self.start.clone();
        start.set_path(path);
        let mut shown = start.clone();
        shown.set_query(None);
        Self {
            url: public(shown.as_str()),
            start,
            is_dav: self.is_dav,
            given: self.given.clone(),
            find: Box::new(Discover),
            wants_token: AtomicBool::new(self.wants_token.load(Ordering::Relaxed)),
            moved: Mutex::default(),
        }
    }

    /// The path in requests.
    pub fn path(&self) -> &str {
        self.start.path()
    }

    /// The URL for a `Destination` header, without credentials.
    pub fn destination(&self) -> String {
        let mut out = self.start.clone();
        out.set_query(None);
        // both succeed for every URL with a host
        let _ = out.set_username("").and(out.set_password(None));
        out.into()
    }

    /// Whether the URL is a directory.
    pub fn is_folder(&self) -> bool {
        self.start.path().ends_with('/')
    }

    /// Makes the URL a directory.
    pub fn into_folder(mut self) -> Self {
        if !self.is_folder() {
            let path = format!("{}/", self.start.path());
            self.start.set_path(&path);
        }
        self
    }

    /// The URL to request: the target of recent redirects, or the URL itself.
    pub fn place(&self) -> Url {
        let moved = lock(&self.moved);
        match &*moved {
            Some((place, since)) if since.elapsed() < REDIRECT_LASTS => place.clone(),
            _ => self.start.clone(),
        }
    }

    /// Remembers the target of redirects.
    pub fn remember(&self, place: &Url) {
        let mut moved = lock(&self.moved);
        match &mut *moved {
            _ if *place == self.start => *moved = None,
            Some((known, _)) if known == place => {}
            _ => *moved = Some((place.clone(), Instant::now())),
        }
    }

    /// Forgets the redirect target; returns whether the failed URL was one.
    pub fn forget(&self, place: &Url) -> bool {
        *lock(&self.moved) = None;
        *place != self.start
    }

    /// The target of a redirect. The user and password of the URL stay with its server.
    ///
    /// # Errors
    /// If the target is invalid, or the redirect leaves TLS, even for doors of the grid (`davs`): an attacker on the
    /// network could replace the bytes.
    pub fn next(&self, place: &Url, location: &str) -> Result<Url, &'static str> {
        let mut next = redirected(place, location).map_err(|refused| match refused {
            Refused::Nowhere => NOWHERE,
            Refused::LeavesTls(_) => {
                "a redirect from https to http, which is not followed: use a URL with TLS, or the http URL itself"
            }
        })?;
        if next.origin() == self.start.origin() {
            let (user, password) = (self.start.username(), self.start.password());
            let named = next.set_username(user).and(next.set_password(password));
            named.map_err(|()| NOWHERE)?;
        }
        Ok(next)
    }

    /// The token for a server. It is only sent to the server of the URL, and only over private connections. Unless it
    /// was given explicitly or the URL has a scheme of the grid, it is only sent after the server has required it. So a
    /// token for one site is not sent to every server.
    pub fn token(&self, place: &Url) -> Option<Token> {
        let has_login = !self.start.username().is_empty() || self.start.password().is_some();
        if has_login || place.origin() != self.start.origin() || !is_private(place) {
            return None;
        }
        let found = || match (self.is_dav, self.wants_token.load(Ordering::Relaxed)) {
            (true, _) => self.find.any(),
            (false, true) => self.find.named(),
            (false, false) => None,
        };
        self.given.clone().or_else(found)
    }

    /// The credentials of a refused request, for messages.
    fn asker(&self) -> String {
        if !self.start.username().is_empty() || self.start.password().is_some() {
            return "user and password of the URL were refused".to_owned();
        }
        match (&self.given, is_private(&self.start)) {
            (Some(_), true) => {
                "the token of the setting bearer_token was sent and refused".to_owned()
            }
            (Some(_), false) => "tokens are not sent without TLS".to_owned(),
            (None, true) => self.find.described(self.is_dav),
            (None, false) => "tokens are not searched for without TLS".to_owned(),
        }
    }

    /// Advice for a refused request, with the credentials that were tried.
    pub fn advice(&self) -> String {
        let mut out = format!("{}: {ADVICE}", self.asker());
        // the rest may be a part of a signature and is not shown
        let (_, name) = self
            .start
            .query()
            .unwrap_or_default()
            .rsplit_once(':')
            .unwrap_or_default();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_/.".contains(c);
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(is_name)
        {
            out.push_str("; everything after the question mark was sent to the server: if its last part is a name in \
                          the file, write it before the question mark (…/a.root:NAME?…)");
        }
        out
    }

    /// Records that the server requires a token; returns whether there is one for it.
    pub fn refused(&self, place: &Url) -> bool {
        self.wants_token.store(true, Ordering::Relaxed);
        self.token(place).is_some()
    }
}

/// Whether a URL has a scheme of the grid.
pub(super) fn is_dav(url: &str) -> bool {
    scheme(url).is_some_and(|scheme| scheme.starts_with("dav"))
}

/// Parses a URL; the error is a message.
fn parsed(url: &str) -> Result<Url, String> {
    let with_http = with_http(url).ok_or("the scheme is not supported")?;
    let rest = with_http.split_once("://").map_or("", |(_, rest)| rest);
    // the URL parser would take the next name for the server
    if rest.is_empty() || rest.starts_with(['/', '?', '#']) {
        return Err("the server is missing".to_owned());
    }
    let found = Url::parse(&with_http).map_err(|error| error.to_string())?;
    if found.fragment().is_some() {
        return Err(
            "it contains '#', which is not sent to servers: write %23 if it belongs to a name"
                .to_owned(),
        );
    }
    Ok(found)
}

/// A URL with the scheme http or https.
fn with_http(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let scheme = match scheme(url)?.as_str() {
        "http" | "dav" => "http",
        "https" | "davs" => "https",
        _ => return None,
    };
    Some(format!("{scheme}://{rest}"))
}

/// Whether the connection is private: by TLS, or because it stays on this machine.
fn is_private(place: &Url) -> bool {
    let host = place.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    place.scheme() == "https"
        || host == "localhost"
        || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl FindToken for Fixed {
        fn named(&self) -> Option<Token> {
            Token::of("named")
        }

        fn any(&self) -> Option<Token> {
            Token::of("any")
        }

        fn described(&self, _: bool) -> String {
            "the token that was found was refused".to_owned()
        }
    }

    fn target(url: &str, given: Option<&str>) -> Target {
        let given: Vec<_> = given
            .map(|token| ("bearer_token", token))
            .into_iter()
            .collect();
        let settings = Settings::with(url, &given).unwrap();
        Target::with(url, &settings, Box::new(Fixed)).unwrap()
    }

    #[test]
    fn tokens_go_only_where_they_may() {
        // the URL, the given token, the requested server, whether a token is sent at once, and whether after a refusal
        for (url, given, place, at_once, refused) in [
            ("davs://h/f", None, "https://h/f", Some("any"), Some("any")),
            ("https://h/f", None, "https://h/f", None, Some("named")),
            (
                "https://h/f",
                Some("mine"),
                "https://h/f",
                Some("mine"),
                Some("mine"),
            ),
            ("https://h/f", Some("mine"), "https://h:444/f", None, None),
            ("davs://h/f", Some("mine"), "https://other/f", None, None),
            ("davs://h/f", Some("mine"), "http://h/f", None, None),
            ("http://h/f", Some("mine"), "http://h/f", None, None),
            ("dav://h/f", None, "http://h/f", None, None),
            (
                "dav://127.0.0.1:8/f",
                None,
                "http://127.0.0.1:8/f",
                Some("any"),
                Some("any"),
            ),
            (
                "http://[::1]:8/f",
                None,
                "http://[::1]:8/f",
                None,
                Some("named"),
            ),
            ("https://me:pw@h/f", Some("mine"), "https://h/f", None, None),
        ] {
            let target = target(url, given);
            let place = Url::parse(place).unwrap();
            let sent = || target.token(&place).map(|token| token.secret().to_owned());
            assert_eq!(sent().as_deref(), at_once, "{url} at {place}");
            assert_eq!(target.refused(&place), refused.is_some(), "{url}");
            assert_eq!(sent().as_deref(), refused, "{url} at {place}");
        }
    }

    /// Doors of `davs` could redirect to servers without TLS.
    #[test]
    fn no_redirect_leads_out_of_tls() {
        for url in ["davs://h/f", "https://h/f"] {
            let target = target(url, None);
            let place = Url::parse("https://h/f").unwrap();
            for to in ["http://h/f", "http://pool:2880/f?signed=x"] {
                let error = target.next(&place, to).unwrap_err();
                assert!(error.contains("from https to http"), "{error}");
            }
            assert!(target.next(&place, "https://pool:2880/f").is_ok());
        }
        let plain = target("dav://h/f", None);
        let place = Url::parse("http://h/f").unwrap();
        assert!(plain.next(&place, "http://pool/f").is_ok());
    }

    #[test]
    fn what_is_no_url_is_told() {
        let settings = Settings::default();
        for (url, said) in [
            ("http://", "the server is missing"),
            ("http:///x", "the server is missing"),
            ("https://h:abc/x", "port"),
            // regression: the part after `#` was dropped, and another file was read
            ("http://h/a#b.root", "%23"),
        ] {
            let error = Target::parse(url, &settings).unwrap_err();
            assert_eq!(error.kind(), "usage");
            let error = error.to_string();
            assert!(
                error.contains("invalid URL") && error.contains(said),
                "{error}"
            );
        }
        for token in ["a\nb", "a b", ""] {
            let settings = Settings::with("http://h/f", &[("bearer_token", token)]).unwrap();
            let error = Target::parse("http://h/f", &settings).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains("bearer_token") && !error.contains("a b"),
                "{error}"
            );
        }
    }

    #[test]
    fn who_was_refused_hears_what_was_tried_and_what_may_be_meant() {
        for (url, given, said) in [
            (
                "https://h/f",
                Some("mine"),
                "setting bearer_token was sent and refused",
            ),
            (
                "http://h/f",
                Some("mine"),
                "tokens are not sent without TLS",
            ),
            (
                "http://h/f",
                None,
                "tokens are not searched for without TLS",
            ),
            ("https://h/f", None, "the token that was found was refused"),
            (
                "https://me:pw@h/f",
                None,
                "user and password of the URL were refused",
            ),
            (
                "http://h/f?sig=ab:Events",
                None,
                "write it before the question mark",
            ),
        ] {
            let advice = target(url, given).advice();
            assert!(advice.contains(said), "{url}: {advice}");
            assert!(
                !advice.contains("mine") && !advice.contains("Events"),
                "{advice}"
            );
        }
        let advice = target("http://h/f?sig=ab:c%3D", None).advice();
        assert!(!advice.contains("colon"), "{advice}");
    }

    #[test]
    fn logins_stay_with_their_server() {
        let target = target("https://me:pw@h/a/f?sig=a%2Fb+c%3D", None);
        let start = target.place();
        assert_eq!(start.query(), Some("sig=a%2Fb+c%3D"));
        for (location, next) in [
            ("g?x=%2F", Some("https://me:pw@h/a/g?x=%2F")),
            ("https://h/z#part", Some("https://me:pw@h/z")),
            ("https://who:what@other/z", Some("https://other/z")),
            ("http://h/z", None),
            ("ftp://h/z", None),
            ("https://", None),
        ] {
            let found = target.next(&start, location).ok();
            assert_eq!(found.as_ref().map(Url::as_str), next, "{location}");
        }
        assert!(!format!("{target:?}").contains("pw"));
    }

    #[test]
    fn the_place_of_a_redirect_is_used_until_it_fails() {
        let target = target("http://h/f", None);
        let moved = Url::parse("http://g/f?signed").unwrap();
        target.remember(&moved);
        assert_eq!(target.place(), moved);
        assert!(target.forget(&moved));
        assert_eq!(target.place(), target.start);
        assert!(!target.forget(&target.place()));
    }
}
