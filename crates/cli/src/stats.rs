//! `--stats`: I/O statistics of a subcommand.

use std::io::Write;
use std::time::{Duration, Instant};

use femtobarn::io::{summary, watch_all, watched};
use rustix::time::{ClockId, clock_gettime};

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::Output;
use crate::python::Python;

/// Runs the subcommand, then prints its I/O statistics.
pub fn run(
    cli: &Cli,
    python: Option<Python<'_>>,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<i32, Failure> {
    watch_all();
    let (start, before) = (Instant::now(), processor());
    let result = crate::dispatch(cli, python, out, err);
    let text = summary(
        &watched(),
        start.elapsed(),
        processor().saturating_sub(before),
    );
    out.flush()?;
    writeln!(err, "{text}")?;
    result
}

/// Processor time of this process so far.
fn processor() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default()
}
