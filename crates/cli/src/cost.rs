//! `fb cost`: what an ntuple costs in an object store.

use std::collections::BTreeMap;
use std::io::{self, Write};

use femtobarn::cost::{CostOptions, Costs, LayoutCost, Prices, cost};

use crate::args::{CostArgs, PassArgs};
use crate::failure::{Failure, code};
use crate::layout;
use crate::open::one_file;
use crate::output::Output;
use crate::replay;
use crate::table::{Table, printable};
use crate::units::{bytes, count, plural};

pub fn run(args: &CostArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let target = one_file(&args.target)?;
    let options = options(&args.pass)?;
    let costs = cost(&target, &options).map_err(|error| Failure::from(error).advise(&target))?;
    match out.is_json {
        true => out.json(&costs.to_json())?,
        false => write(&costs, out)?,
    }
    Ok(code::FINE)
}

/// What a pass reads, and prices.
pub fn options(args: &PassArgs) -> Result<CostOptions, Failure> {
    Ok(CostOptions {
        columns: args.columns.clone(),
        trace: args.trace.as_deref().map(replay::read).transpose()?,
        prices: match &args.prices {
            Some(path) => Prices::read(path)?,
            None => Prices::usual()?,
        },
        settings: BTreeMap::new(),
    })
}

fn write(costs: &Costs, out: &mut Output<'_>) -> io::Result<()> {
    let read = match (&costs.columns, costs.recorded) {
        (_, Some(1)) => "a pass is what the trace has read".to_owned(),
        (_, Some(n)) => format!("a pass is what the trace has read, in {n} times opened"),
        (Some(columns), None) => {
            let n = columns.len() as u64;
            format!("a pass reads {}", plural(n, "field"))
        }
        (None, None) => "a pass reads all fields".to_owned(),
    };
    let n_entries = plural(costs.n_entries, "entry");
    let title = format!("{}:{}, {n_entries}; {read}", costs.url, costs.ntuple);
    writeln!(out, "{}", printable(&title))?;
    let prices = &costs.prices;
    let about = format!("{}, {}; {}", prices.name, prices.date, prices.source);
    writeln!(out, "prices: {}\n", printable(&about))?;
    table(costs).write(layout::width(), out)?;
    for note in &costs.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

fn table(costs: &Costs) -> Table {
    let header = [
        "layout", "objects", "stored", "PUT", "write", "write/TB", "month", "GET", "read", "pass",
        "pass/TB", "out",
    ];
    let mut table = Table::new(&header, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], &[]);
    let row = |layout: &LayoutCost| {
        let (money, shown) = (layout.money, |price| costs.prices.shown(price));
        vec![
            layout.granularity.name(),
            count(layout.objects),
            bytes(layout.bytes),
            count(layout.write.puts),
            shown(money.write),
            shown(money.write_per_tb),
            shown(money.month),
            count(layout.pass.all_requests()),
            bytes(layout.pass.all_bytes()),
            shown(money.pass),
            shown(money.pass_per_tb),
            shown(money.transfer_out),
        ]
    };
    for layout in &costs.layouts {
        table.push(row(layout));
    }
    table
}
