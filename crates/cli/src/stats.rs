//! `--stats`, `--report` and `--record`: what a subcommand reads.

use std::io::Write;
use std::time::{Duration, Instant};

use femtobarn::Error;
use femtobarn::io::{Report, ReportTo, record, report_at_exit};
use rustix::time::{ClockId, clock_gettime};

use crate::args::Cli;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::python::Python;

/// Begins what `--report` and `--record` ask for.
pub fn observe(cli: &Cli) -> Result<(), Failure> {
    if let Some(text) = &cli.report {
        let to = ReportTo::parse(text).flatten().ok_or_else(|| {
            let message =
                format!("invalid --report={text}: expected --report or --report=json:PATH");
            Failure::new(code::USAGE, "usage", message)
        })?;
        report_at_exit(to);
    }
    if let Some(path) = &cli.record {
        record(path).map_err(Error::from)?;
    }
    Ok(())
}

/// Runs the subcommand, then prints its I/O statistics.
pub fn run(
    cli: &Cli,
    python: Option<Python<'_>>,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<i32, Failure> {
    let (start, before) = (Instant::now(), processor());
    let result = crate::dispatch(cli, python, out, err);
    let processor = processor().saturating_sub(before);
    let text = Report::now().summary(start.elapsed(), processor);
    out.flush()?;
    writeln!(err, "{text}")?;
    result
}

/// Processor time of this process so far.
fn processor() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default()
}
