//! Going on with a file that is written, once its connection is lost.
//!
//! Writes say where their bytes belong, so one that may or may not have been done is simply made again. The file is opened
//! where it is, as it is: another server has none of it.

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
    /// Opens it once more to write, and insists that all is there that the server has taken.
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

    /// Opens it on a server that may not know yet that the old connection is lost, and so not let anybody else write.
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

    /// Has the server close what it has open for the old connection, so that nothing of that is written any more. One that
    /// has closed it, or cannot be reached, needs nothing.
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
            // to wait as long again for the same silence would tell nothing new
            Err(error @ XrootdError::Timeout { .. }) => {
                let doing = format!("open {}", self.url.path);
                Err(self.client.exhausted(&doing, tried, error))
            }
            Err(_) => Ok(()),
        }
    }

    /// Insists that the file is as long as what was written makes it.
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
