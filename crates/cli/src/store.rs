//! `fb store`: a cluster of Redis servers on this machine for the event store, and the administration of any store.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use femtobarn::events;
use femtobarn::events::{
    DataStore, EventsError, ObjectOptions, connect, connect_to_read, objects_moved,
};
use femtobarn::launcher::{self, LocalNode, LocalOptions, LocalStatus, Role};
use femtobarn::products::Types;
use serde_json::{Value, json};

use crate::args::{StoreAction, StoreForgetClassArgs, StoreMovedArgs, StoreSweepArgs, StoreUpArgs};
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::table::{Table, printable};
use crate::units;
use crate::{store_ls, store_rm, store_verify};
use femtobarn::kinds::kind;

/// Default minimum age in seconds of the objects to delete.
const AGE: f64 = 3600.0;

pub fn run(action: &StoreAction, out: &mut Output<'_>) -> Result<i32, Failure> {
    match action {
        StoreAction::Up(args) => up(args, out),
        StoreAction::Down(args) => down(&args.path, out),
        StoreAction::Status(args) => status(&args.path, out),
        StoreAction::Ls(args) => store_ls::run(args, out),
        StoreAction::Rm(args) => store_rm::run(args, out),
        StoreAction::Verify(args) => store_verify::run(args, out),
        StoreAction::Compact(args) => compact(&args.store, out),
        StoreAction::Sweep(args) => sweep(args, out),
        StoreAction::Moved(args) => moved(args, out),
        StoreAction::ForgetClass(args) => forget_class(args, out),
    }
}

fn up(args: &StoreUpArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let options = LocalOptions {
        nodes: args.nodes,
        replicas: args.replicas,
        memory: args.memory,
        fsync: args.fsync.clone(),
        program: args.server.as_ref().map(PathBuf::from),
    };
    show(&launcher::up(Path::new(&args.path), &options)?, out)
}

fn status(path: &str, out: &mut Output<'_>) -> Result<i32, Failure> {
    show(&launcher::status(Path::new(path))?, out)
}

fn down(path: &str, out: &mut Output<'_>) -> Result<i32, Failure> {
    let ended = launcher::down(Path::new(path))?;
    if out.is_json {
        out.json(&json!({"ended": ended}))?;
    } else {
        let servers = units::plural(ended as u64, "server");
        writeln!(
            out,
            "{servers} stopped; the data in {} are kept for the next `fb store up`",
            printable(path)
        )?;
    }
    Ok(code::FINE)
}

/// Opens a store for changes; does not create one.
pub fn existing(store: &str) -> Result<DataStore, EventsError> {
    DataStore::connect_existing(store, ObjectOptions::default())
}

fn compact(store: &str, out: &mut Output<'_>) -> Result<i32, Failure> {
    let done = events::compact(store)?;
    if out.is_json {
        out.json(&json!({"store": store, "before": done.before, "after": done.after}))?;
    } else {
        let [before, after] = [done.before, done.after].map(units::bytes);
        writeln!(out, "{}: {before} before, {after} now", printable(store))?;
    }
    Ok(code::FINE)
}

fn sweep(args: &StoreSweepArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let store = existing(&args.store)?;
    if store.objects().is_none() && (args.age.is_some() || !args.nameless) {
        let message = format!(
            "{}: this store has no objects of large products",
            store.url()
        );
        return Err(Failure::new(code::USAGE, "usage", message));
    }
    let n_datasets = match args.nameless {
        true => Some(store.sweep_nameless()?),
        false => None,
    };
    if let (Some(n), false) = (n_datasets, out.is_json) {
        let datasets = units::plural(n, "dataset");
        writeln!(
            out,
            "removed the remaining data of {datasets} without a name"
        )?;
    }
    let Some(objects) = store.objects() else {
        if out.is_json {
            out.json(&json!({"nameless_datasets": n_datasets}))?;
        }
        return Ok(code::FINE);
    };
    let age = args.age.unwrap_or(AGE);
    let swept = store.sweep(Duration::from_secs_f64(age))?;
    if out.is_json {
        out.json(&json!({
            "nameless_datasets": n_datasets,
            "objects": objects,
            "used": swept.n_used,
            "deleted": swept.n_deleted,
            "deleted_bytes": swept.n_bytes,
            "young": swept.n_young,
            "strange": swept.n_strange,
        }))?;
        return Ok(code::FINE);
    }
    let deleted = units::plural(swept.n_deleted, "object");
    writeln!(
        out,
        "{deleted} ({}) deleted from {}, {} used",
        units::bytes(swept.n_bytes),
        printable(objects),
        units::count(swept.n_used)
    )?;
    if swept.n_young > 0 {
        let young = units::plural(swept.n_young, "object");
        writeln!(out, "{young} without a product kept, younger than {age} s")?;
    }
    if swept.n_strange > 0 {
        let strange = units::plural(swept.n_strange, "file");
        writeln!(out, "{strange} kept that this store did not write")?;
    }
    Ok(code::FINE)
}

fn moved(args: &StoreMovedArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    connect_to_read(&args.store)?;
    let backend = connect(&args.store)?;
    let before = objects_moved(&*backend, &args.objects)?;
    backend.flush()?;
    let store = DataStore::with_objects(backend, ObjectOptions::default())?;
    let now = store.objects().unwrap_or_default();
    if out.is_json {
        out.json(&json!({"before": before, "objects": now}))?;
    } else {
        let [before, now] = [&before, now].map(printable);
        writeln!(out, "objects of {before} are now read from {now}")?;
    }
    Ok(code::FINE)
}

fn forget_class(args: &StoreForgetClassArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let store = existing(&args.store)?;
    Types::new(&store).forget(&args.class)?;
    store.flush()?;
    if out.is_json {
        out.json(&json!({"store": store.url(), "forgotten": args.class}))?;
    } else {
        let class = printable(&args.class);
        writeln!(
            out,
            "{class} forgotten; it can now be stored with other members"
        )?;
    }
    Ok(code::FINE)
}

fn show(status: &LocalStatus, out: &mut Output<'_>) -> Result<i32, Failure> {
    let config = status.config.display().to_string();
    if out.is_json {
        let nodes: Vec<Value> = status.nodes.iter().map(document).collect();
        out.json(&json!({
            "config": config,
            "up": status.is_up,
            "served": status.is_served,
            "nodes": nodes,
        }))?;
    } else {
        let mut table = Table::new(&["server", "role", "process", "memory"], &[2, 3], &[]);
        for node in &status.nodes {
            table.push(vec![
                node.address.clone(),
                role(node)
                    .unwrap_or(match node.process {
                        Some(_) => "no answer",
                        None => "not running",
                    })
                    .to_owned(),
                node.process
                    .map(|process| process.to_string())
                    .unwrap_or_default(),
                node.memory.map(units::bytes).unwrap_or_default(),
            ]);
        }
        table.write(None, out)?;
        let missing = status.nodes.iter().filter(|node| node.role.is_none());
        let missing = units::plural(missing.count() as u64, "server");
        let folder = status.config.parent().unwrap_or(Path::new(""));
        let folder = printable(&folder.display().to_string()).into_owned();
        match (status.is_up, status.is_served) {
            (true, _) => writeln!(out, "\nconnect with {}", printable(&config))?,
            (false, true) => writeln!(
                out,
                "\nNOT up: {missing} missing, but the other servers have all data; start the missing servers with \
                 `fb store up {folder}`"
            )?,
            (false, false) => writeln!(
                out,
                "\nNOT up: part of the store is not served; start the missing servers with `fb store up {folder}`"
            )?,
        }
    }
    Ok(if status.is_up {
        code::FINE
    } else {
        code::DAMAGED
    })
}

fn role(node: &LocalNode) -> Option<&'static str> {
    node.role.map(|role| match role {
        Role::Master => "master",
        Role::Replica => "replica",
    })
}

fn document(node: &LocalNode) -> Value {
    json!({
        "address": node.address,
        "role": role(node),
        "process": node.process,
        "memory": node.memory,
    })
}

impl From<EventsError> for Failure {
    fn from(error: EventsError) -> Self {
        let message = femtobarn::io::with_causes(&error);
        Self::new(kind(error.kind()).exit, error.kind(), message)
    }
}
