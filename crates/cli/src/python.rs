//! The subcommands that read HDF5 files, which only Python can: `ingest` if one of the files is HDF5, and `hdf5-schema`.
//! Their code is in `python/femtobarn/_cli_verbs.py`.

use femtobarn::choice::Choice;
use femtobarn::documents::extended;
use serde_json::{Value, json};

use crate::args::{ChoiceArgs, Hdf5SchemaArgs, IngestArgs};
use crate::failure::{Failure, code};
use crate::output::Output;

/// Runs a subcommand in Python. Takes its name and its arguments in JSON; returns the result in JSON: `text`,
/// `document` and `code`, or an `error` with `kind`, `message`, `next` and `code`.
pub type Python<'a> = &'a dyn Fn(&str, &str) -> Result<String, String>;

pub fn ingest(
    args: &IngestArgs,
    python: Option<Python<'_>>,
    out: &mut Output<'_>,
) -> Result<i32, Failure> {
    let given = json!({
        "files": args.files,
        "into": args.into,
        "dataset": args.dataset,
        "tree": args.tree,
        "run": args.run,
        "subrun": args.subrun,
        "event": args.event,
        "collections": args.collections,
        "workers": args.workers,
        "on_conflict": args.on_conflict.name(),
        "again": args.again,
    });
    run("ingest", &with(given, &args.choice), python, out)
}

pub fn hdf5_schema(
    args: &Hdf5SchemaArgs,
    python: Option<Python<'_>>,
    out: &mut Output<'_>,
) -> Result<i32, Failure> {
    let given = json!({
        "files": args.files,
        "cpp": args.cpp,
        "run": args.run,
        "subrun": args.subrun,
        "event": args.event,
    });
    run("hdf5-schema", &with(given, &args.choice), python, out)
}

fn with(given: Value, choice: &ChoiceArgs) -> Value {
    let choice = json!({
        "groups": choice.groups,
        "fields": choice.fields,
        "drop": choice.drop,
        "namespace": choice.namespace,
    });
    extended(given, choice)
}

fn run(
    verb: &str,
    given: &Value,
    python: Option<Python<'_>>,
    out: &mut Output<'_>,
) -> Result<i32, Failure> {
    let Some(python) = python else {
        let message =
            format!("fb {verb} needs Python for HDF5 files, and this fb was built without it");
        let next = "install an fb with Python: pip install 'femtobarn[hdf5]'".to_owned();
        return Err(Failure {
            next: Some(next),
            ..Failure::new(code::USAGE, "usage", message)
        });
    };
    let answer = python(verb, &given.to_string());
    let answer = answer.map_err(|message| Failure::new(code::CORRUPT, "internal", message))?;
    let answer: Value = serde_json::from_str(&answer)
        .map_err(|error| Failure::new(code::CORRUPT, "internal", error.to_string()))?;
    let number = |of: &Value, usual: i32| {
        let code = of.get("code").and_then(Value::as_i64);
        code.and_then(|code| i32::try_from(code).ok())
            .unwrap_or(usual)
    };
    if let Some(error) = answer.get("error") {
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = text("kind").unwrap_or_else(|| "error".into());
        let message = text("message").unwrap_or_default();
        return Err(Failure {
            next: text("next"),
            ..Failure::new(number(error, code::CORRUPT), kind, message)
        });
    }
    if out.is_json {
        out.json(answer.get("document").unwrap_or(&Value::Null))?;
    } else {
        let text = answer
            .get("text")
            .and_then(Value::as_str)
            .unwrap_or_default();
        out.lines(text)?;
    }
    Ok(number(&answer, code::FINE))
}
