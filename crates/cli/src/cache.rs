//! `fb cache`: shows, checks and clears the cache of remote files.

use std::io::Write as _;
use std::path::Path;

use femtobarn::io::{CacheEntry, CacheFolder, IoError, Settings};
use femtobarn::{Error, Target, matches};
use serde_json::{Value, json};

use crate::args::{CacheAction, CacheFilesArgs, CacheFolderArgs};
use crate::failure::{Failure, code};
use crate::options::usage;
use crate::output::Output;
use crate::table::printable;
use crate::units::bytes;

pub fn run(action: &CacheAction, out: &mut Output<'_>) -> Result<i32, Failure> {
    match action {
        CacheAction::Status(args) => status(&folder(args)?, out),
        CacheAction::Ls(args) => ls(&folder(args)?, out),
        CacheAction::Verify(args) => verify(&folder(args)?, out),
        CacheAction::Pin(args) => {
            let done =
                folder(&args.files.folder)?.pin(&|entry| fits(&args.files, entry), !args.off);
            let word = if args.off { "unpinned" } else { "pinned" };
            told(word, &args.files, &done.map_err(Error::from)?, out)
        }
        CacheAction::Clear(args) => {
            if args.files.is_empty() && !args.all {
                return Err(usage("name the files to remove, or all of them with --all"));
            }
            let (_, urls) = folder(&args.folder)?.clear(&|entry| fits(args, entry));
            told("removed", args, &urls, out)
        }
        CacheAction::Prune(args) => prune(&folder(args)?, out),
    }
}

/// The directory that is named, or that of the settings.
fn folder(args: &CacheFolderArgs) -> Result<CacheFolder, Failure> {
    let mut set = folders_of_settings().map_err(Error::from)?;
    let none =
        || usage("no cache directory is set: name it with --dir DIR, or set FEMTOBARN_CACHE");
    if let Some(dir) = &args.dir {
        // named without a limit, it has that of the settings
        let usual = set.into_iter().find(|usual| usual.path == Path::new(dir));
        return match usual {
            Some(usual) => Ok(usual),
            None => named(dir).map_err(Error::from)?.ok_or_else(none),
        };
    }
    if set.len() > 1 {
        let paths = set.iter().map(|folder| folder.path.to_string_lossy());
        let paths = paths.collect::<Vec<_>>().join(", ");
        let message =
            format!("servers have different cache directories; choose one with --dir: {paths}");
        return Err(usage(&message));
    }
    set.pop().ok_or_else(none)
}

fn named(text: &str) -> Result<Option<CacheFolder>, IoError> {
    CacheFolder::of(&Settings::new(
        "",
        [("cache".to_owned(), text.to_owned())].into(),
    )?)
}

/// The directory for all servers, or else those that the settings file has for some.
fn folders_of_settings() -> Result<Vec<CacheFolder>, IoError> {
    if let Some(folder) = CacheFolder::of(&Settings::of(""))? {
        return Ok(vec![folder]);
    }
    let mut found = Vec::new();
    for text in Settings::of_servers("cache")? {
        found.extend(named(&text)?);
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    Ok(found)
}

fn fits(args: &CacheFilesArgs, entry: &CacheEntry) -> bool {
    let is_it =
        |text: &str| entry.fits(text) || matches(text, &entry.url) || matches(text, &entry.key);
    // the name of an ntuple may follow
    let fits =
        |text: &String| is_it(text) || Target::parse(text).is_ok_and(|target| is_it(&target.file));
    args.all || args.files.iter().any(fits)
}

fn status(folder: &CacheFolder, out: &mut Output<'_>) -> Result<i32, Failure> {
    let found = folder.status();
    let path = folder.path.to_string_lossy();
    if out.is_json {
        out.json(&json!({
            "directory": path,
            "limit": folder.limit,
            "bytes": found.bytes,
            "granted": found.granted,
            "pinned": found.pinned,
            "files": found.files,
            "segments": found.segments,
        }))?;
        return Ok(code::FINE);
    }
    writeln!(out, "{}", printable(&path))?;
    writeln!(
        out,
        "{} of {} used, {} of it pinned",
        bytes(found.bytes),
        bytes(folder.limit),
        bytes(found.pinned)
    )?;
    writeln!(out, "{} files in {} segments", found.files, found.segments)?;
    if !folder.path.exists() {
        writeln!(out, "the directory does not exist yet")?;
    }
    Ok(code::FINE)
}

fn ls(folder: &CacheFolder, out: &mut Output<'_>) -> Result<i32, Failure> {
    let found = folder.list();
    if out.is_json {
        let files: Vec<Value> = found.iter().map(document).collect();
        out.json(&json!({ "files": files }))?;
        return Ok(code::FINE);
    }
    for entry in &found {
        let pinned = if entry.is_pinned { ", pinned" } else { "" };
        writeln!(
            out,
            "{}: {} of {} in {} ranges{pinned}",
            printable(&entry.url),
            bytes(entry.bytes),
            bytes(entry.meta.size),
            entry.ranges
        )?;
    }
    if found.is_empty() {
        writeln!(out, "no cached files")?;
    }
    Ok(code::FINE)
}

fn document(entry: &CacheEntry) -> Value {
    json!({
        "url": entry.url,
        "key": entry.key,
        "size": entry.meta.size,
        "etag": entry.meta.etag,
        "bytes": entry.bytes,
        "ranges": entry.ranges,
        "segments": entry.segments,
        "pinned": entry.is_pinned,
        "since": entry.since / 1_000_000_000,
    })
}

fn verify(folder: &CacheFolder, out: &mut Output<'_>) -> Result<i32, Failure> {
    let found = folder.verify();
    let is_fine = found.bad.is_empty();
    if out.is_json {
        let bad = found.bad.iter().map(|(path, range)| {
            json!({"segment": path.to_string_lossy(), "start": range.start, "stop": range.end})
        });
        let torn = found.torn.iter().map(|path| path.to_string_lossy());
        out.json(&json!({
            "ok": is_fine,
            "ranges": found.ranges,
            "bytes": found.bytes,
            "bad": bad.collect::<Vec<Value>>(),
            "voided": found.voided,
            "torn": torn.collect::<Vec<_>>(),
        }))?;
    } else {
        for (path, range) in &found.bad {
            let path = path.to_string_lossy();
            writeln!(
                out,
                "bad: bytes {} to {} in {}",
                range.start,
                range.end,
                printable(&path)
            )?;
        }
        for path in &found.torn {
            writeln!(
                out,
                "incomplete, and not used: {}",
                printable(&path.to_string_lossy())
            )?;
        }
        writeln!(
            out,
            "{} ranges with {} are right, {} are bad",
            found.ranges,
            bytes(found.bytes),
            found.bad.len()
        )?;
    }
    Ok(if is_fine { code::FINE } else { code::DAMAGED })
}

fn told(
    word: &str,
    args: &CacheFilesArgs,
    urls: &[String],
    out: &mut Output<'_>,
) -> Result<i32, Failure> {
    if urls.is_empty() && !args.all {
        let named = args.files.join(", ");
        let message = format!(
            "no cached file fits {}; fb cache ls lists them",
            printable(&named)
        );
        return Err(Failure::new(code::NOT_THERE, "file-not-found", message));
    }
    if out.is_json {
        out.json(&json!({ word: urls }))?;
        return Ok(code::FINE);
    }
    for url in urls {
        writeln!(out, "{word} {}", printable(url))?;
    }
    Ok(code::FINE)
}

fn prune(folder: &CacheFolder, out: &mut Output<'_>) -> Result<i32, Failure> {
    let done = folder.prune();
    if out.is_json {
        out.json(&json!({
            "merged": done.merged,
            "bytes_before": done.bytes_before,
            "bytes": done.bytes,
        }))?;
        return Ok(code::FINE);
    }
    writeln!(
        out,
        "{} segments merged; {} before, {} after",
        done.merged,
        bytes(done.bytes_before),
        bytes(done.bytes)
    )?;
    Ok(code::FINE)
}
