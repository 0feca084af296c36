//! Files on XRootD servers.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use femtobarn_fork::PerProcess;
use femtobarn_xrootd::{
    Client, Code, DirEntry, File, OpenOptions, Options, Stat, XrootdError, XrootdUrl,
};

use crate::meter::Traffic;
use crate::pace::within;
use crate::runtime::{PerSettings, wait_for};
use crate::url::public;
use crate::{ByteSource, IoError, RemoteEntry, Settings, SourceCost, SourceInfo, SourceMeta};

/// The clients of the process, one per configuration.
static CLIENTS: PerSettings<Options, Client> = PerSettings::new();

/// The client for these settings.
pub(crate) fn client(settings: &Settings) -> Result<Client, IoError> {
    let options = options(settings)?;
    CLIENTS.get(&options, || Ok(Client::new(options.clone())))
}

fn options(settings: &Settings) -> Result<Options, IoError> {
    let (usual, limits) = (Options::from_environment(), settings.limits()?);
    let path = |name| Ok::<_, IoError>(settings.text(name)?.map(PathBuf::from));
    Ok(Options {
        connect_timeout: limits.connect_timeout,
        request_timeout: limits.request_timeout,
        least_rate: limits.least_rate,
        longest_wait: limits.longest_wait,
        most_redirects: limits.most_redirects,
        most_retries: limits.most_retries,
        most_open: settings.number("open_files")?.unwrap_or(usual.most_open),
        user: settings.text("user")?,
        checksums: settings.flag("checksums")?,
        authorities: path("authorities")?.or(usual.authorities),
        sss_keytab: path("sss_keytab")?.or(usual.sss_keytab),
        token: settings.token()?,
    })
}

/// Maximum size of a file that is kept in memory when it was read completely: opening reads both ends, which are all of
/// a small file.
const SMALL: u64 = 320 << 10;

/// A file on an XRootD server (`root://`, `roots://`). A vector read is one `readv` per 1024 ranges. Ranges over 1 MiB
/// are read separately, at the same time. A small file needs only one request.
#[derive(Debug)]
pub struct XrootdSource {
    /// The URL for messages, without secrets.
    url: String,
    target: XrootdUrl,
    /// Its server, if a redirector has told where the file is.
    located: Option<String>,
    settings: Settings,
    total_timeout: Duration,
    file: PerProcess<Arc<File>>,
    meta: SourceMeta,
    /// The content of a small file, once it was read.
    whole: OnceLock<Bytes>,
}

impl XrootdSource {
    /// Opens a file.
    ///
    /// # Errors
    /// If the URL is invalid, the file does not exist or is not readable, or no server answers.
    pub fn open(url: &str, settings: &Settings) -> Result<Arc<Self>, IoError> {
        Self::open_elsewhere(url, settings, &[])
    }

    /// Opens a file, on none of these servers.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if the redirector knows no other server.
    pub fn open_elsewhere(
        url: &str,
        settings: &Settings,
        avoided: &[String],
    ) -> Result<Arc<Self>, IoError> {
        let target = XrootdUrl::parse(url).map_err(|error| failed(url, error))?;
        let is_other = |file: &Arc<File>| {
            let server = file.redirected_to();
            server.is_none_or(|server| !avoided.contains(&server))
        };
        let opened = open(&target, url, settings, avoided);
        let (target, file, located) = match opened.map(|file| (is_other(&file), file)) {
            Ok((true, file)) => (target, file, None),
            // not all redirectors heed which servers are to be avoided, but they may tell where the file is
            found if !avoided.is_empty() => match other_server(&target, url, settings, avoided)? {
                Some(other) => {
                    let name = other.server.to_string();
                    let file = open(&other, url, settings, &[])?;
                    (other, file, Some(name))
                }
                None => return Err(found.err().unwrap_or_else(|| no_other(url, avoided))),
            },
            found => (target, found?.1, None),
        };
        let stat = file.stat();
        if stat.is_folder() || stat.is_other() {
            return Err(IoError::NotAFile {
                url: public(url),
                found: if stat.is_folder() {
                    "a directory"
                } else {
                    "something else"
                },
            });
        }
        Ok(Arc::new(Self {
            url: public(url),
            target,
            located,
            settings: settings.clone(),
            total_timeout: settings.limits()?.total_timeout,
            meta: SourceMeta {
                size: stat.size,
                modified: modified(&file),
                etag: None,
            },
            file: PerProcess::of(file),
            whole: OnceLock::new(),
        }))
    }

    /// How requests are cut.
    pub(crate) fn cost() -> SourceCost {
        SourceCost {
            // a multiple of an element header: elements cost almost nothing
            largest_gap: 512,
            largest_request: 64 << 20,
            most_ranges: 1024,
            concurrency: 8,
            ..SourceCost::default()
        }
    }

    fn file(&self) -> Result<Arc<File>, IoError> {
        // a forked process opens it again
        self.file.get(|| {
            let again = open(&self.target, &self.url, &self.settings, &[])?;
            // a redirector may lead to another replica, with another modification time
            if again.stat().size != self.meta.size {
                let url = self.url.clone();
                return Err(IoError::Changed { url });
            }
            Ok(again)
        })
    }
}

/// Modification time of a file, if its server reports it.
fn modified(file: &File) -> Option<SystemTime> {
    time(file.stat()).filter(|_| file.has_time())
}

fn time(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.modified).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The entries of a directory on a server.
pub(crate) fn list(url: &str, settings: &Settings) -> Result<Vec<RemoteEntry>, IoError> {
    let target = XrootdUrl::parse(url).map_err(|error| failed(url, error))?;
    let client = client(settings)?;
    let partial = settings.flag("partial_lists")?;
    let shown = public(url);
    let listing = within(
        &shown,
        settings.limits()?.total_timeout,
        client.list(&target, partial),
    );
    let found = wait_for(&shown, listing)??;
    let entry = |entry: DirEntry| RemoteEntry {
        is_folder: entry.stat.as_ref().is_some_and(Stat::is_folder),
        size: entry.stat.as_ref().map(|stat| stat.size),
        modified: entry.stat.as_ref().and_then(time),
        name: entry.name,
    };
    let found = found.map_err(|error| failed(url, error))?;
    Ok(found.into_iter().map(entry).collect())
}

fn open(
    target: &XrootdUrl,
    url: &str,
    settings: &Settings,
    avoided: &[String],
) -> Result<Arc<File>, IoError> {
    let client = client(settings)?;
    let opened = File::open_elsewhere(&client, target.clone(), OpenOptions::Read, avoided);
    let (shown, longest) = (public(url), settings.limits()?.total_timeout);
    let file =
        wait_for(&shown, within(&shown, longest, opened))??.map_err(|error| failed(url, error))?;
    Ok(Arc::new(file))
}

/// The URL of the file on another server that its redirector knows.
fn other_server(
    target: &XrootdUrl,
    url: &str,
    settings: &Settings,
    avoided: &[String],
) -> Result<Option<XrootdUrl>, IoError> {
    let (client, shown) = (client(settings)?, public(url));
    let longest = settings.limits()?.total_timeout;
    let found = wait_for(&shown, within(&shown, longest, client.servers_with(target)))??;
    let servers = found.map_err(|error| failed(url, error))?.into_iter();
    let mut others = servers.filter(|server| !avoided.contains(&server.to_string()));
    Ok(others.next().map(|server| XrootdUrl {
        server,
        ..target.clone()
    }))
}

fn no_other(url: &str, avoided: &[String]) -> IoError {
    IoError::Remote {
        url: public(url),
        source: format!("its redirector knows no server but {}", avoided.join(", ")).into(),
    }
}

/// Converts an error of the client.
pub(crate) fn failed(url: &str, error: XrootdError) -> IoError {
    let url = public(url);
    match &error {
        XrootdError::Server { code, .. } if *code == Code::NOT_FOUND => IoError::NotFound { url },
        XrootdError::Server { code, .. } if *code == Code::NOT_AUTHORIZED => {
            let why = error.to_string();
            IoError::Refused { url, why }
        }
        XrootdError::Server { code, .. } if *code == Code::IS_FOLDER => IoError::NotAFile {
            url,
            found: "a directory",
        },
        XrootdError::Changed { .. } => IoError::Changed { url },
        _ => IoError::Remote {
            url,
            source: Box::new(error),
        },
    }
}

impl ByteSource for XrootdSource {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo::new(&self.url, &self.meta, Self::cost())
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        None
    }

    fn n_requests(&self, ranges: &[Range<u64>]) -> u64 {
        if self.whole.get().is_some() {
            return 0;
        }
        let file = self.file();
        file.map_or(0, |file| file.n_requests(ranges) as u64)
    }

    fn traffic(&self) -> Option<Traffic> {
        let file = self.file.known();
        let (requests, retries) = file.map(|file| file.asked()).unwrap_or_default();
        Some(Traffic { requests, retries })
    }

    fn server(&self) -> Option<String> {
        let file = self.file().ok()?;
        wait_for(&self.url, async move { file.server().await }).ok()
    }

    fn progress(&self) -> Option<u64> {
        self.file.known()?.progress()
    }

    fn chosen_server(&self) -> Option<String> {
        let file = self.file.known();
        let chosen = file.and_then(|file| file.redirected_to());
        chosen.or_else(|| self.located.clone())
    }

    fn peek(&self, range: &Range<u64>) -> Option<Bytes> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let (start, end) = (place(range.start), place(range.end));
        let whole = self.whole.get()?;
        (start <= end && end <= whole.len()).then(|| whole.slice(start..end))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        for range in ranges {
            self.meta.check(&self.url, range)?;
        }
        if let Some(held) = ranges.iter().map(|range| self.peek(range)).collect() {
            return Ok(held);
        }
        let file = self.file()?;
        let reading = within(&self.url, self.total_timeout, file.read_ranges(ranges));
        let found = wait_for(&self.url, reading)??;
        let found = found.map_err(|error| failed(&self.url, error))?;
        if let ([range], [bytes]) = (ranges, found.as_slice())
            && (range.start, range.end) == (0, self.meta.size)
            && self.meta.size <= SMALL
        {
            self.whole.get_or_init(|| bytes.clone());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use femtobarn_testkit::{Servers, can_start, content};

    use super::*;
    use crate::HeldSource;

    #[test]
    fn files_of_servers_are_sources() {
        if !can_start() {
            return;
        }
        let server = Servers::start("xrootd");
        let number = AtomicUsize::new(0);
        crate::tests::conformance::check(&|content| {
            let name = format!("f{}", number.fetch_add(1, Ordering::Relaxed));
            server.put(&name, &content);
            XrootdSource::open(&server.url(&name), &Settings::default()).unwrap()
        });
    }

    #[test]
    fn a_small_file_is_asked_for_once() {
        if !can_start() {
            return;
        }
        let server = Servers::start("xrootd");
        for (size, again) in [(86_000, 0), (400_000, 1)] {
            let whole = content(size);
            server.put("f", &whole);
            let source = XrootdSource::open(&server.url("f"), &Settings::default()).unwrap();
            let requests = || source.traffic().unwrap().requests;
            // in the way in which files are opened
            HeldSource::with_ends(source.clone(), 64 << 10, 256 << 10).unwrap();
            let before = requests();
            let ranges = [70_000..80_000, 5..5, 1..2];
            assert_eq!(source.n_requests(&ranges), again);
            let found = source.read_ranges(&ranges).unwrap();
            assert_eq!(found, [&whole[70_000..80_000], &[], &whole[1..2]]);
            assert_eq!(requests() - before, again);
        }
    }

    #[test]
    fn who_is_refused_hears_why() {
        let error = failed(
            "root://h//f?authz=x",
            XrootdError::Server {
                server: "h:1094".to_owned(),
                doing: "open /f".to_owned(),
                code: Code::NOT_AUTHORIZED,
                message: "your token has expired".to_owned(),
            },
        );
        assert_eq!(error.kind(), "permission-denied");
        let error = error.to_string();
        assert!(error.contains("your token has expired"), "{error}");
        assert!(!error.contains("authz"), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_told_as_of_other_files() {
        if !can_start() {
            return;
        }
        let server = Servers::start("xrootd");
        std::fs::create_dir(server.data[0].join("folder")).unwrap();
        for (name, kind) in [
            ("none?authz=secret", "file-not-found"),
            ("folder", "not-a-file"),
        ] {
            let error = XrootdSource::open(&server.url(name), &Settings::default()).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
