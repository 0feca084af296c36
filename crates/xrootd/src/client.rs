//! Requests to servers: shared connections, redirects, and retries on other servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::OnceCell;

use crate::backoff::backoff;
use crate::connection::{Answer, Connection, MOST_ANSWER, Trace};
use crate::file::{Kept, Slot};
use crate::notice::notice;
use crate::protocol::{self, DirEntry, QueryKind, Redirect, Request, Stat};
use crate::{Code, Options, Server, XrootdError, XrootdUrl, with_causes};

/// The connections of a process, or of a part of it. Clones are cheap and share the connections.
#[derive(Debug, Clone, Default)]
pub struct Client {
    shared: Arc<Shared>,
    /// Whether to retry if a server accepts no connections.
    is_patient: bool,
}

#[derive(Debug, Default)]
struct Shared {
    options: Arc<Options>,
    /// By server and token of a redirect. The first caller connects, others wait for the result.
    connections: Mutex<HashMap<(Server, String), Arc<Opening>>>,
    /// Files that are open to be read.
    kept: Kept,
}

/// A connection that one caller opens while others wait for it.
type Opening = OnceCell<Arc<Connection>>;

/// Servers that could not be reached or failed, with the reasons.
type Failed = Vec<(Server, XrootdError)>;

/// The servers that failed for one request.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// Hosts that failed, with the reasons in the form that redirectors expect.
    pub hosts: Vec<(String, &'static str)>,
    /// The errors, in the form that users see.
    pub history: Vec<String>,
}

impl Tried {
    /// Records a failure.
    pub fn add(&mut self, server: &Server, error: &XrootdError) {
        if !self.hosts.iter().any(|(host, _)| *host == server.host) {
            self.hosts.push((server.host.clone(), error.tried_reason()));
        }
        self.history.push(with_causes(error));
    }

    /// The failed hosts as opaque data for a redirector.
    fn opaque(&self) -> Vec<String> {
        if self.hosts.is_empty() {
            return Vec::new();
        }
        let hosts: Vec<&str> = self.hosts.iter().map(|(host, _)| host.as_str()).collect();
        let reasons: Vec<&str> = self.hosts.iter().map(|(_, reason)| *reason).collect();
        vec![format!(
            "tried={}&triedrc={}",
            hosts.join(","),
            reasons.join(",")
        )]
    }
}

/// Where a request was answered.
pub(crate) struct Answered {
    pub connection: Arc<Connection>,
    pub body: Bytes,
}

impl Client {
    /// Creates a client with its own limits and settings.
    pub fn new(options: Options) -> Self {
        let shared = Shared {
            options: Arc::new(options),
            ..Shared::default()
        };
        Self {
            shared: Arc::new(shared),
            is_patient: false,
        }
    }

    /// The same client for servers that were reachable before. A server that accepts no connections may be restarting, so
    /// the request is retried as after other failures.
    #[must_use]
    pub fn patient(&self) -> Self {
        Self {
            is_patient: true,
            ..self.clone()
        }
    }

    /// The limits and settings.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Counts a file among those that are kept open; if there are too many, others are closed.
    pub(crate) fn keep(&self, slot: &Slot) {
        self.shared.kept.add(slot, self.shared.options.most_open);
    }

    /// A connection to a server, shared by all callers.
    pub(crate) async fn connection(
        &self,
        server: &Server,
        token: &str,
    ) -> Result<Arc<Connection>, XrootdError> {
        let key = (server.clone(), token.to_owned());
        let cell = {
            let connections = self.shared.connections.lock();
            let mut connections = connections.unwrap_or_else(PoisonError::into_inner);
            // lost connections are replaced
            connections.retain(|_, cell| cell.get().is_none_or(|found| found.is_alive()));
            connections.entry(key).or_default().clone()
        };
        let connect = || async {
            let options = self.shared.options.clone();
            let connection = Arc::new(Connection::open(server, token, options).await?);
            if !connection.protocol.flags.is_manager() {
                // ask for the limits now: they are known when the first file is open, and no read waits for them
                let asked = connection.clone();
                connection
                    .runtime
                    .spawn(async move { asked.limits().await });
            }
            Ok(connection)
        };
        cell.get_or_try_init(connect).await.cloned()
    }

    /// Sends a request to the server of a URL, or to servers that it redirects to, until one answers. `request` makes the
    /// request from a path with opaque data. `tried` has the servers that failed before; new failures are added to it.
    pub(crate) async fn ask(
        &self,
        url: &XrootdUrl,
        doing: &str,
        tried: &mut Tried,
        request: impl Fn(String) -> Request,
    ) -> Result<Answered, XrootdError> {
        let options = &self.shared.options;
        // a server that was reachable before may be restarting
        let is_known = self.is_patient || !tried.history.is_empty();
        let mut is_away = false;
        for attempt in 0..=options.most_retries {
            // the first retry needs no delay: the server may just have closed an idle connection
            let tries = if is_away {
                Some(attempt + 1)
            } else {
                attempt.checked_sub(2)
            };
            if let Some(tries) = tries {
                tokio::time::sleep(backoff(tries)).await;
            }
            let mut asked = url.server.clone();
            match self.follow(url, doing, tried, &mut asked, &request).await {
                Ok(answered) => return Ok(answered),
                Err(error) => {
                    // there is no other server if the first one was asked directly
                    let others = asked != url.server;
                    is_away = is_known && matches!(error, XrootdError::Connect { .. });
                    let again = others || is_away || matches!(error, XrootdError::Lost { .. });
                    if !error.is_of_the_server() || !again || attempt == options.most_retries {
                        return Err(self.exhausted(doing, tried, error));
                    }
                    if others {
                        tried.add(&asked, &error);
                    } else {
                        tried.history.push(with_causes(&error));
                    }
                }
            }
        }
        Err(XrootdError::Usage {
            what: format!("{doing}: no attempt was allowed (most_retries)"),
        })
    }

    /// Adds the history of failures to an error.
    pub(crate) fn exhausted(&self, doing: &str, tried: &Tried, error: XrootdError) -> XrootdError {
        if tried.history.is_empty() {
            return error;
        }
        let mut history = tried.history.clone();
        history.push(with_causes(&error));
        XrootdError::Exhausted {
            doing: doing.to_owned(),
            history: history.join("; then "),
            last: Box::new(error),
        }
    }

    /// Sends a request and follows redirects. `asked` becomes the last server asked.
    async fn follow(
        &self,
        url: &XrootdUrl,
        doing: &str,
        tried: &Tried,
        asked: &mut Server,
        request: &impl Fn(String) -> Request,
    ) -> Result<Answered, XrootdError> {
        let most = self.shared.options.most_redirects;
        let mut target = url.clone();
        let (mut opaque, mut token) = (tried.opaque(), String::new());
        let mut servers = vec![target.server.to_string()];
        loop {
            asked.clone_from(&target.server);
            let connection = self.connection(&target.server, &token).await?;
            let path = target.with_opaque(&opaque);
            let secret = path.split_once('?').map(|(_, secret)| secret.to_owned());
            let request = request(path);
            let answer = connection.ask(&request, Bytes::new(), MOST_ANSWER, doing);
            match answer.await? {
                Answer::Ok(body) => return Ok(Answered { connection, body }),
                Answer::Error(code, message) => {
                    // some servers repeat the request, which may contain secrets, in their message
                    let message = match secret {
                        Some(secret) if !secret.is_empty() => message.replace(&secret, "…"),
                        _ => message,
                    };
                    return Err(connection.refused(doing, code, message));
                }
                Answer::Redirect(to) => {
                    token.clone_from(&to.token);
                    let next = redirected(&target, to, &mut opaque)?;
                    target = XrootdUrl {
                        server: next.server.named_by(&connection, &url.server),
                        ..next
                    };
                    servers.push(target.server.to_string());
                    if servers.len() > most + 1 {
                        return Err(XrootdError::Redirects {
                            doing: doing.to_owned(),
                            most,
                            servers: servers.join(", "),
                        });
                    }
                }
            }
        }
    }

    /// Returns the status of a path.
    ///
    /// # Errors
    /// If it does not exist, or no server answers.
    pub async fn stat(&self, url: &XrootdUrl) -> Result<Stat, XrootdError> {
        let doing = format!("stat {}", url.path);
        let answered = self
            .simple(url, &doing, |path| Request::Stat { path })
            .await?;
        let found = protocol::stat(&answered.body);
        found.map_err(|source| answered.connection.malformed(&doing, source))
    }

    /// Lists a directory with the status of each entry, sorted by name. For a redirector, the result joins the listings
    /// of all its servers. With `partial`, servers that fail while others answer are skipped with a notice that the
    /// listing is incomplete.
    ///
    /// # Errors
    /// If there is no such directory, or no server answers; without `partial`, also if a single server fails.
    pub async fn list(&self, url: &XrootdUrl, partial: bool) -> Result<Vec<DirEntry>, XrootdError> {
        let mut found: Vec<DirEntry> = Vec::new();
        let (mut is_there, mut missing) = (false, None);
        let (servers, mut silent) = self.servers_of(url).await?;
        for server in servers {
            match self.list_on(url, &server).await {
                Ok(entries) => {
                    is_there = true;
                    found.extend(entries);
                }
                // not every server has every directory
                Err(error) if error.code() == Some(Code::NOT_FOUND) => missing = Some(error),
                Err(error) => silent.push((server, error)),
            }
        }
        for (server, error) in silent {
            if !is_there {
                return Err(error);
            }
            let lacks = XrootdError::Incomplete {
                folder: url.path.clone(),
                redirector: url.server.to_string(),
                server: server.to_string(),
                source: Box::new(error),
            };
            if !partial {
                return Err(lacks);
            }
            notice(&server.to_string(), &with_causes(&lacks));
        }
        if let Some(error) = missing.filter(|_| !is_there) {
            return Err(error);
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.dedup_by(|a, b| a.name == b.name);
        Ok(found)
    }

    /// Lists a directory of one server.
    async fn list_on(
        &self,
        url: &XrootdUrl,
        server: &Server,
    ) -> Result<Vec<DirEntry>, XrootdError> {
        let doing = format!("dirlist {}", url.path);
        let at = XrootdUrl {
            server: server.clone(),
            ..url.clone()
        };
        let request = |path| Request::DirList { path };
        let answered = self.simple(&at, &doing, request).await?;
        let entries = protocol::dir_entries(&answered.body);
        entries.map_err(|source| answered.connection.malformed(&doing, source))
    }

    /// The servers that may have a directory: the server of the URL or, if it is a redirector, all its servers, also
    /// those of further redirectors; and the servers that could not be asked. A redirector only knows which servers have
    /// the directory if they answer it in time.
    async fn servers_of(&self, url: &XrootdUrl) -> Result<(Vec<Server>, Failed), XrootdError> {
        let (mut servers, mut seen, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        let mut to_ask = vec![url.server.clone()];
        while let Some(server) = to_ask.pop() {
            if seen.contains(&server) {
                continue;
            }
            seen.push(server.clone());
            match self.servers_below(url, &server).await {
                Ok(None) => servers.push(server),
                Ok(Some(below)) => to_ask.extend(below),
                Err(error) if server == url.server => return Err(error),
                Err(error) => failed.push((server, error)),
            }
        }
        Ok((servers, failed))
    }

    /// The servers of a redirector; empty for a server that holds files itself.
    async fn servers_below(
        &self,
        url: &XrootdUrl,
        server: &Server,
    ) -> Result<Option<Vec<Server>>, XrootdError> {
        let connection = self.connection(server, "").await?;
        if !connection.protocol.flags.is_manager() {
            return Ok(None);
        }
        let all = XrootdUrl {
            path: format!("*{}", url.path),
            server: server.clone(),
            ..url.clone()
        };
        let addresses = self.locate(&all, false).await?;
        let below = addresses.iter().filter_map(|address| {
            let below = Server::parse(address, url.server.tls).ok()?;
            let user = url.server.user.clone();
            Some(Server { user, ..below }.named_by(&connection, server))
        });
        Ok(Some(below.collect()))
    }

    /// Returns the addresses of servers that have a file or directory.
    ///
    /// # Errors
    /// If no server has it, or none answers.
    pub async fn locate(&self, url: &XrootdUrl, refresh: bool) -> Result<Vec<String>, XrootdError> {
        let doing = format!("locate {}", url.path);
        let request = |path| Request::Locate { path, refresh };
        let answered = self.simple(url, &doing, request).await?;
        Ok(protocol::locations(&answered.body))
    }

    /// Returns the server's checksum of a file: the algorithm and the digits.
    ///
    /// # Errors
    /// If the server has no checksum, or does not answer.
    pub async fn checksum(&self, url: &XrootdUrl) -> Result<(String, String), XrootdError> {
        let doing = format!("query checksum {}", url.path);
        let request = |argument| Request::Query {
            kind: QueryKind::Checksum,
            argument,
        };
        let answered = self.simple(url, &doing, request).await?;
        let text = String::from_utf8_lossy(&answered.body);
        let text = text.trim_end_matches('\0').trim();
        let (kind, digits) = text.split_once(' ').unwrap_or((text, ""));
        Ok((kind.to_owned(), digits.to_owned()))
    }

    /// Opens a new connection to a server, for diagnosis. Returns how far it came, and the error that ended it.
    pub async fn probe(&self, server: &Server) -> (Trace, Option<XrootdError>) {
        let (options, mut trace) = (self.shared.options.clone(), Trace::default());
        let opened = Connection::open_traced(server, "", options, &mut trace).await;
        (trace, opened.err())
    }

    /// Returns configuration values of a server: one line per name, which is the name itself if the server does not know
    /// it.
    ///
    /// # Errors
    /// If no server answers.
    pub async fn configuration(
        &self,
        server: &Server,
        names: &[&str],
    ) -> Result<Vec<String>, XrootdError> {
        let connection = self.connection(server, "").await?;
        connection.configuration(names).await
    }

    /// Renames a file or directory on its server.
    ///
    /// # Errors
    /// If it does not exist, or the server refuses.
    pub async fn rename(&self, url: &XrootdUrl, to: &str) -> Result<(), XrootdError> {
        let doing = format!("mv {} {to}", url.path);
        let request = |from: String| Request::Mv {
            from,
            to: to.to_owned(),
        };
        self.simple(url, &doing, request).await.map(drop)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// If it does not exist, or the server refuses.
    pub async fn remove(&self, url: &XrootdUrl) -> Result<(), XrootdError> {
        let doing = format!("rm {}", url.path);
        self.simple(url, &doing, |path| Request::Rm { path })
            .await
            .map(drop)
    }

    async fn simple(
        &self,
        url: &XrootdUrl,
        doing: &str,
        request: impl Fn(String) -> Request,
    ) -> Result<Answered, XrootdError> {
        self.ask(url, doing, &mut Tried::default(), request).await
    }
}

impl Server {
    /// This server, named by another server only. It gets the token only if the server that names it has the token as
    /// well: then no server gets a token from us that it could not have got otherwise.
    fn named_by(self, connection: &Connection, first: &Server) -> Self {
        let is_first = (&self.host, self.port) == (&first.host, first.port);
        Self {
            may_have_token: connection.has_token || (is_first && first.may_have_token),
            ..self
        }
    }
}

/// The target of a redirect. Additions to the path are added to `opaque`.
fn redirected(
    from: &XrootdUrl,
    to: Redirect,
    opaque: &mut Vec<String>,
) -> Result<XrootdUrl, XrootdError> {
    if to.port < 0 {
        let url = XrootdUrl::parse(&to.host)?;
        return Ok(XrootdUrl {
            // a redirect without a path names only the server
            path: if url.path == "/" {
                from.path.clone()
            } else {
                url.path
            },
            opaque: if url.opaque.is_empty() {
                from.opaque.clone()
            } else {
                url.opaque
            },
            server: Server {
                user: url.server.user.or_else(|| from.server.user.clone()),
                tls: url.server.tls || from.server.tls,
                ..url.server
            },
        });
    }
    if !to.opaque.is_empty() {
        opaque.push(to.opaque);
    }
    let port = match to.port {
        0 => from.server.port,
        port => u16::try_from(port).map_err(|_| XrootdError::Url {
            url: to.host.clone(),
            what: format!("a redirect names the port {port}"),
        })?,
    };
    let host = to
        .host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    Ok(XrootdUrl {
        server: Server {
            host,
            port,
            ..from.server.clone()
        },
        ..from.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(host: &str, port: i32, opaque: &str) -> Redirect {
        Redirect {
            host: host.to_owned(),
            port,
            opaque: opaque.to_owned(),
            token: String::new(),
        }
    }

    #[test]
    fn redirects_keep_who_asks_and_what_is_asked_for() {
        let from = XrootdUrl::parse("roots://me@redirector:1//store/f?authz=x").unwrap();
        let mut opaque = Vec::new();
        let found = redirected(&from, to("[::1]", 1095, "cgi=1"), &mut opaque).unwrap();
        assert_eq!(
            (found.server.to_string().as_str(), found.server.tls),
            ("[::1]:1095", true)
        );
        assert_eq!(found.server.user.as_deref(), Some("me"));
        assert_eq!(found.with_opaque(&opaque), "/store/f?authz=x&cgi=1");
        let found =
            redirected(&from, to("root://other//else?a=b", -1, ""), &mut Vec::new()).unwrap();
        assert_eq!(
            (found.path.as_str(), found.opaque.as_str()),
            ("/else", "a=b")
        );
        assert!(redirected(&from, to("h", 99999, ""), &mut Vec::new()).is_err());
    }

    #[test]
    fn redirectors_are_told_who_was_tried_and_why() {
        let mut tried = Tried::default();
        assert_eq!(tried.opaque(), Vec::<String>::new());
        let server = Server::parse("ds1:1094", false).unwrap();
        let error = XrootdError::Lost {
            server: server.to_string(),
            doing: "open".to_owned(),
            why: "reset".to_owned(),
        };
        tried.add(&server, &error);
        tried.add(&server, &error);
        let other = Server::parse("ds2", false).unwrap();
        let missing = XrootdError::Server {
            server: other.to_string(),
            doing: "open".to_owned(),
            code: Code::NOT_FOUND,
            message: String::new(),
        };
        tried.add(&other, &missing);
        assert_eq!(tried.opaque(), ["tried=ds1,ds2&triedrc=srverr,enoent"]);
        assert_eq!(tried.history.len(), 3);
    }
}
