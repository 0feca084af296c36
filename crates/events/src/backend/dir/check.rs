//! Checks all pages of a store and counts its entries.

use super::pages::Damage;
use super::snapshot::Snapshot;
use super::tables::Name;
use super::writing::{COUNTS, Count, Counts};

/// The pages that something uses: each may be used once.
struct Used(Vec<u64>);

impl Used {
    fn take(&mut self, first: u64, n: u64) -> Result<(), Damage> {
        for page in first..first.saturating_add(n) {
            let bit = 1 << (page % 64);
            let word = usize::try_from(page / 64).ok();
            let word = word.and_then(|at| self.0.get_mut(at));
            match word {
                Some(word) if *word & bit == 0 => *word |= bit,
                _ => {
                    let what = "is used twice, or is outside of the file";
                    return Err(Damage { page, what });
                }
            }
        }
        Ok(())
    }
}

/// Damage of the pages of a store, and wrong counts of keys if it stores counts.
pub fn check(snapshot: &Snapshot<'_>, is_counted: bool) -> Vec<String> {
    let n_pages = snapshot.meta.last.saturating_add(1);
    let words = usize::try_from(n_pages.div_ceil(64)).unwrap_or_default();
    let mut used = Used(vec![0; words]);
    let mut wrong = Vec::new();
    let mut tell = |of: &str, result: Result<(), Damage>| {
        if let Err(damage) = result {
            wrong.push(format!("{of}: page {} {}", damage.page, damage.what));
        }
    };
    let main = snapshot.main();
    let main = main.and_then(|main| main.walk(false, |at, n| used.take(at, n), |_, _| Ok(())));
    tell("the list of tables", main);
    let mut found = Counts::default();
    for name in Name::ALL {
        tell(
            name.text(),
            table(snapshot, name, &mut used, found.of(name)),
        );
    }
    tell("the list of free pages", free(snapshot, &mut used));
    if is_counted {
        wrong.extend(compare(snapshot, &mut found));
    }
    wrong
}

fn table(
    snapshot: &Snapshot<'_>,
    name: Name,
    used: &mut Used,
    found: &mut Count,
) -> Result<(), Damage> {
    let take = |first, n| used.take(first, n);
    snapshot.table(name)?.walk(false, take, |key, value| {
        if (name, key) != (Name::Notes, COUNTS) {
            found.add(name, key, value);
        }
        Ok(())
    })
}

/// Reads the lists of free pages: each transaction recorded the pages that it freed.
fn free(snapshot: &Snapshot<'_>, used: &mut Used) -> Result<(), Damage> {
    let mut listed = Vec::new();
    let take = |first, n| used.take(first, n);
    snapshot.free()?.walk(true, take, |_, value| {
        let mut numbers = value.chunks(8).map(|number| {
            let number = number.try_into().map(u64::from_ne_bytes);
            number.unwrap_or(u64::MAX)
        });
        let n = numbers.next().unwrap_or(u64::MAX);
        let before = listed.len() as u64;
        listed.extend(numbers);
        match listed.len() as u64 - before == n {
            true => Ok(()),
            false => Err(Damage {
                page: 0,
                what: "has a list of free pages with a wrong length",
            }),
        }
    })?;
    listed.into_iter().try_for_each(|page| used.take(page, 1))
}

/// Compares the found counts with the stored ones.
fn compare(snapshot: &Snapshot<'_>, found: &mut Counts) -> Vec<String> {
    let noted = snapshot.table(Name::Notes);
    let noted = noted.and_then(|notes| notes.get(COUNTS));
    let Some(mut noted) = noted.ok().flatten().and_then(Counts::parse) else {
        return vec!["its key counts are missing".into()];
    };
    let mut wrong = Vec::new();
    if noted.transaction != snapshot.meta.transaction {
        wrong.push(format!(
            "the newest state is transaction {}, but the counts are of transaction {}",
            snapshot.meta.transaction, noted.transaction
        ));
    }
    for name in Name::ALL {
        let (noted, found) = (*noted.of(name), *found.of(name));
        if noted.n != found.n {
            let (table, noted, found) = (name.text(), noted.n, found.n);
            wrong.push(format!(
                "{table}: {noted} keys were stored, but {found} were found"
            ));
        } else if noted != found {
            wrong.push(format!("{}: keys differ from the stored keys", name.text()));
        }
    }
    wrong
}
