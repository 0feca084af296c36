//! The time that a server may make a request wait.

use std::time::{Duration, Instant};

use crate::error::said;
use crate::notice::notice;
use crate::{Options, Server, XrootdError};

/// A wait of this length is reported to the user.
pub(super) const LONG: Duration = Duration::from_secs(5);

/// The total time that a server may make one request wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    started: Instant,
    longest: Duration,
}

impl Patience {
    /// Starts now.
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

    /// How long to pause if the server asks for this wait.
    ///
    /// # Errors
    /// If the time ends before that.
    pub fn pause(
        &self,
        server: &Server,
        doing: &str,
        asked: Duration,
        message: &str,
    ) -> Result<Duration, XrootdError> {
        // a server that asks for no wait each time would be asked in an endless loop
        let pause = asked.max(Duration::from_secs(1));
        if self.started.elapsed().saturating_add(pause) > self.longest {
            return Err(self.over(server, doing, asked, message));
        }
        self.tell(server, doing, asked, message);
        Ok(pause)
    }

    /// Sends a notice that a server makes the request wait, if the total wait is long.
    pub fn tell(&self, server: &Server, doing: &str, asked: Duration, message: &str) {
        if self.started.elapsed().saturating_add(asked) >= LONG {
            let (asked, longest) = (asked.as_secs(), self.longest.as_secs());
            let said = said(message);
            let text = format!(
                "{server} asks to wait {asked} s for {doing}{said}: waiting for up to {longest} s in total (longest_wait)"
            );
            notice(&server.to_string(), &text);
        }
    }

    /// The error for a server that asks for more time than is left.
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
