//! All events of a dataset, run or subrun as one sequence.

use std::collections::VecDeque;

use crate::{
    ABSENT, Container, DataStore, Descriptor, EventsError, ItemType, Parent, Passed, Scan,
};

/// Maximum number of children of one container per request.
const PAGE: usize = 4096;
/// Maximum number of containers per request.
const WIDTH: usize = 16;

/// Consecutive events of one subrun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventChunk {
    /// The subrun.
    pub parent: Parent,
    /// The numbers of the events.
    pub events: Vec<u64>,
}

/// Iterates over the events of a container in the order of run, subrun and event, in chunks.
///
/// Each request covers up to 16 containers, so many small subruns cost no more requests than a few large ones.
/// Containers that are created meanwhile may or may not be included. If the container, or a run or subrun found in it,
/// is deleted meanwhile, the last item is the error of [`Passed::check_left`].
#[derive(Debug)]
pub struct EventChunks {
    passed: Passed,
    /// The target whose events are returned; `None` for all.
    target: Option<usize>,
    /// The next steps: containers to visit, followed by the contents of subruns.
    next: VecDeque<Step>,
    /// Whether this continues after an event whose subrun has not been looked up yet.
    continues: bool,
    /// Whether the final check was made.
    has_looked: bool,
}

#[derive(Debug)]
enum Step {
    Look(Scan),
    Give(EventChunk),
}

impl EventChunks {
    /// The events of a container.
    pub fn new(store: DataStore, container: Descriptor) -> Self {
        let parent = container.placed_by();
        let first = match container.item_type() {
            ItemType::Event => Step::Give(EventChunk {
                parent,
                events: vec![container.event],
            }),
            _ => Step::Look(Scan {
                parent,
                from: 0,
                limit: PAGE,
            }),
        };
        Self {
            passed: Passed::new(Container::new(store, container)),
            target: None,
            next: VecDeque::from([first]),
            continues: false,
            has_looked: false,
        }
    }

    /// Limits the events to one target of the store; other targets are not asked.
    pub fn of_target(mut self, target: usize) -> Self {
        self.target = Some(target);
        self
    }

    /// Leaves the final check to a caller that continues to read; see [`Passed::check_left`].
    pub(crate) fn checked_by_caller(mut self) -> Self {
        self.has_looked = true;
        self
    }

    /// The runs and subruns listed so far; the result is updated as the iteration continues.
    pub fn passed(&self) -> Passed {
        self.passed.clone()
    }

    /// The container of the events.
    pub fn container(&self) -> &Container {
        self.passed.container()
    }

    fn store(&self) -> &DataStore {
        self.container().datastore()
    }

    /// Whether the contents of a subrun are returned.
    fn takes(&self, parent: &Parent) -> bool {
        let is_wanted = |target| self.store().backend().target(parent) == target;
        parent.item_type() != ItemType::SubRun || self.target.is_none_or(is_wanted)
    }

    /// Continues after an event of a container. Fails if the run or subrun of the event does not exist any more.
    pub fn after(store: DataStore, container: Descriptor, seen: Descriptor) -> Self {
        let passed = Passed::new(Container::new(store, container));
        let mut next = VecDeque::new();
        let mut look = |parent: Parent, number: u64| {
            let from = number.saturating_add(1);
            if from < ABSENT {
                next.push_back(Step::Look(Scan {
                    parent,
                    from,
                    limit: PAGE,
                }));
            }
        };
        let level = container.item_type();
        let subrun = seen.placed_by();
        look(subrun, seen.event);
        if level <= ItemType::Run {
            passed.add(&subrun.descriptor());
            look(Parent::run(seen.dataset, seen.run), seen.subrun);
        }
        if level == ItemType::DataSet {
            let run = Parent::run(seen.dataset, seen.run);
            passed.add(&run.descriptor());
            look(Parent::dataset(seen.dataset), seen.run);
        }
        if level == ItemType::Event {
            next.clear();
        }
        Self {
            passed,
            target: None,
            next,
            continues: true,
            has_looked: false,
        }
    }

    /// Visits the next containers, with one request per level.
    fn look(&mut self) -> Result<(), EventsError> {
        if self.continues {
            self.passed.check_left()?;
            self.continues = false;
        }
        let mut scans: Vec<Scan> = Vec::new();
        while let Some(Step::Look(scan)) = self.next.front() {
            if !self.takes(&scan.parent) {
                self.next.pop_front();
                continue;
            }
            let kind = scan.parent.item_type();
            let fits = |first: &Scan| first.parent.item_type() == kind;
            if scans.len() == WIDTH || !scans.first().is_none_or(fits) {
                break;
            }
            scans.push(*scan);
            self.next.pop_front();
        }
        let datasets = scans.iter().map(|scan| scan.parent.dataset);
        let is_there = self.store().check_not_deleted(datasets);
        let found = match is_there.and_then(|()| self.store().backend().numbers(&scans)) {
            Ok(found) => found,
            Err(error) => {
                // So a retry continues here.
                let again = scans.into_iter().map(Step::Look).rev();
                again.for_each(|step| self.next.push_front(step));
                return Err(error);
            }
        };
        for (scan, numbers) in scans.iter().zip(found).rev() {
            let last = numbers.last().filter(|_| numbers.len() == scan.limit);
            if let Some(from) = last.and_then(|last| last.checked_add(1)) {
                self.next.push_front(Step::Look(Scan { from, ..*scan }));
            }
            if scan.parent.item_type() == ItemType::SubRun {
                if !numbers.is_empty() {
                    self.next.push_front(Step::Give(EventChunk {
                        parent: scan.parent,
                        events: numbers,
                    }));
                }
                continue;
            }
            for number in numbers.into_iter().rev() {
                let child = scan.parent.child(number);
                self.passed.add(&child);
                self.next.push_front(Step::Look(Scan {
                    parent: child.placed_by(),
                    from: 0,
                    limit: PAGE,
                }));
            }
        }
        Ok(())
    }
}

impl Iterator for EventChunks {
    type Item = Result<EventChunk, EventsError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let outcome = match self.next.pop_front() {
                Some(Step::Give(chunk)) => return Some(Ok(chunk)),
                Some(look) => {
                    self.next.push_front(look);
                    self.look()
                }
                None if self.has_looked => return None,
                None => {
                    let left = self.passed.check_left();
                    self.has_looked = left.is_ok();
                    left
                }
            };
            if let Err(error) = outcome {
                // Deleted containers do not reappear; other errors may pass.
                if let EventsError::NotFound { .. } = error {
                    self.next.clear();
                    self.has_looked = true;
                }
                return Some(Err(error));
            }
        }
    }
}
