//! `fb completion`: scripts for shells.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{Cli, CompletionArgs};
use crate::failure::{Failure, code};
use crate::output::Output;

pub fn run(args: &CompletionArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    // written to memory first: clap_complete panics if it cannot write
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fb", &mut script);
    out.write_all(&script)?;
    Ok(code::FINE)
}
