//! Continues a file that is being written after its connection was lost.
//!
//! Writes state their offsets, so a write that may or may not have been done can be repeated. The file is opened on the
//! same server: no other server has the data.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::{File, OpenOptions, Place, Session, open, stat_open};
use crate::backoff::backoff;
use crate::client::Tried;
use crate::connection::Connection;
use crate::protocol::{Request, Stat};
use crate::{Code, Server, XrootdError, XrootdUrl};

impl File {
    /// Opens the file again for writing, and checks that the server has everything it had accepted.
    pub(super) async fn resume(
        &self,
        place: &mut Place,
        tried: &mut Tried,
    ) -> Result<Arc<Session>, XrootdError> {
        let at = XrootdUrl {
            server: place.server.clone(),
            ..self.url.clone()
        };
        let old = place.here.clone();
        let generation = place.generation + 1;
        let (new, stat) = self.open_where_it_is(&at, old, tried, generation).await?;
        let stat = match stat {
            Some(stat) => stat,
            None => stat_open(&new, &self.url).await?,
        };
        self.check_size(&at.server, &stat)?;
        let session = Arc::new(new);
        *place = Place::of(session.clone());
        Ok(session)
    }

    /// Opens the file on a server that may not have noticed the loss of the old connection, and may therefore refuse
    /// another writer.
    async fn open_where_it_is(
        &self,
        at: &XrootdUrl,
        old: Option<Arc<Session>>,
        tried: &mut Tried,
        generation: usize,
    ) -> Result<(Session, Option<Stat>), XrootdError> {
        let most = self.client.options().most_retries;
        let mut tries = 0;
        loop {
            if let Some(old) = &old {
                self.end(&at.server, old, tried).await?;
            }
            let opened = open(&self.client, at, OpenOptions::Update, tried, generation).await;
            match opened {
                Err(error) if error.code() == Some(Code::FILE_LOCKED) && tries < most => {
                    tries += 1;
                    sleep(backoff(tries)).await;
                }
                Err(error) if error.code() == Some(Code::NOT_FOUND) => {
                    return Err(self.gone(&at.server, "no such file".to_owned()));
                }
                opened => return opened,
            }
        }
    }

    /// Makes the server close the old session, so that none of its writes are done later. This is not needed if the
    /// server has closed it already, or cannot be reached.
    async fn end(&self, server: &Server, old: &Session, tried: &Tried) -> Result<(), XrootdError> {
        let limit = self.client.options().connect_timeout;
        let end = async |connection: &Connection, request: Request| {
            let ended = connection.demand(&request, Bytes::new(), 4096, "ending of a session");
            let _ = timeout(limit, ended).await;
        };
        if old.connection.is_alive() {
            end(&old.connection, old.closing()).await;
            return Ok(());
        }
        match self.client.connection(server, "").await {
            Ok(connection) => {
                let session = old.connection.session;
                end(&connection, Request::EndSession { session }).await;
                Ok(())
            }
            // a second timeout of the same length would tell nothing new
            Err(error @ XrootdError::Timeout { .. }) => {
                let doing = format!("open {}", self.url.path);
                Err(self.client.exhausted(&doing, tried, error))
            }
            Err(_) => Ok(()),
        }
    }

    /// Checks that the file has the size that the writes gave it.
    fn check_size(&self, server: &Server, stat: &Stat) -> Result<(), XrootdError> {
        let [least, most] = self.ends.each_ref().map(|end| end.load(Relaxed));
        if (least..=most).contains(&stat.size) {
            return Ok(());
        }
        Err(self.gone(server, format!("{} bytes", stat.size)))
    }

    fn gone(&self, server: &Server, found: String) -> XrootdError {
        let [least, most] = self.ends.each_ref().map(|end| end.load(Relaxed));
        let expected = match least == most {
            true => format!("{least} bytes"),
            false => format!("{least} to {most} bytes"),
        };
        XrootdError::Gone {
            url: self.url.to_string(),
            server: server.to_string(),
            expected,
            found,
        }
    }
}
