//! How long a server may make us wait.

use std::time::{Duration, Instant};

use crate::error::said;
use crate::notice::notice;
use crate::{Options, Server, XrootdError};

/// A wait that people should know of.
pub(super) const LONG: Duration = Duration::from_secs(5);

/// How long a server may make us wait for one request, all in all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    started: Instant,
    longest: Duration,
}

impl Patience {
    /// Begins now.
    pub fn of(options: &Options) -> Self {
        Self {
            started: Instant::now(),
            longest: options.longest_wait,
        }
    }

    /// When it ends.
    pub fn end(&self) -> Instant {
        self.started + self.longest
    }

    /// How long to pause if the server wants so much.
    ///
    /// # Errors
    /// If it ends before that.
    pub fn pause(
        &self,
        server: &Server,
        doing: &str,
        asked: Duration,
        message: &str,
    ) -> Result<Duration, XrootdError> {
        // of one that is always asked again at once there would be no end
        let pause = asked.max(Duration::from_secs(1));
        if self.started.elapsed().saturating_add(pause) > self.longest {
            return Err(self.over(server, doing, asked, message));
        }
        self.tell(server, doing, asked, message);
        Ok(pause)
    }

    /// Tells that a server makes us wait, if that is long by now.
    pub fn tell(&self, server: &Server, doing: &str, asked: Duration, message: &str) {
        if self.started.elapsed().saturating_add(asked) >= LONG {
            let (asked, longest) = (asked.as_secs(), self.longest.as_secs());
            let said = said(message);
            let text = format!(
                "{server} asks to wait {asked} s for {doing}{said}: it is waited for, up to {longest} s in all (longest_wait)"
            );
            notice(&server.to_string(), &text);
        }
    }

    /// The error of a server that wants more than there is.
    pub fn over(
        &self,
        server: &Server,
        doing: &str,
        asked: Duration,
        message: &str,
    ) -> XrootdError {
        XrootdError::Wait {
            server: server.to_string(),
            doing: doing.to_owned(),
            asked,
            message: message.to_owned(),
            waited: self.started.elapsed(),
            longest: self.longest,
        }
    }
}
