//! Reading ROOT files while their events are written, several at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use femtobarn_events::Uuid;
use femtobarn_fork::lock;
use femtobarn_io::Together;
use femtobarn_rntuple::RNTupleError;

use super::read::{FileReader, Message};
use super::{Done, Ingest, IngestFile, IngestOptions, OnIngest, Warning};
use crate::transfer::TransferError;

/// What a reading thread sends.
type Sent = Result<Result<Message, Done>, TransferError>;

impl Ingest {
    /// Reads some of the files, which are ROOT files, and writes their events in the order of the files.
    ///
    /// # Errors
    /// Those of reading and writing; files that were complete before stay noted.
    pub fn read(&mut self, files: &[usize], tick: OnIngest<'_>) -> Result<(), TransferError> {
        match self.workers().min(files.len()) {
            0 | 1 => files.iter().try_for_each(|at| self.read_one(*at, tick)),
            n => self.read_together(files, n, tick),
        }
    }

    fn read_one(&mut self, at: usize, tick: OnIngest<'_>) -> Result<(), TransferError> {
        let (Some(file), options) = (self.files.get(at).cloned(), self.options.clone()) else {
            return Ok(());
        };
        let (dataset, done, total) = (self.dataset.uuid(), self.done, self.total());
        let mut reader = FileReader {
            file: &file,
            dataset,
            options: &options,
            waiting: &mut || tick(done, total),
            tell: &mut |message| self.take(at, message, tick),
        };
        let done = reader.read()?;
        self.end(at, done, tick)
    }

    /// Takes what was read of a file.
    fn take(
        &mut self,
        at: usize,
        message: Message,
        tick: OnIngest<'_>,
    ) -> Result<(), TransferError> {
        match message {
            Message::Warning(text) => self.warnings.push(Warning::Unreadable(text)),
            Message::Chunk(chunk, part) => {
                let (done, total) = self.progress();
                self.write(at, &chunk, &|_| Ok(Vec::new()), &|| tick(done, total))?;
                let size = self.files.get(at).map_or(0, |file| file.size);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_precision_loss,
                    clippy::cast_sign_loss,
                    reason = "progress that is shown"
                )]
                let own = (size as f64 * part) as u64;
                goes_on(tick(self.done + own, self.total()))?;
            }
        }
        Ok(())
    }

    fn end(&mut self, at: usize, done: Done, tick: OnIngest<'_>) -> Result<(), TransferError> {
        self.finish_file(at, done)?;
        goes_on(tick(self.done, self.total()))
    }

    fn read_together(
        &mut self,
        files: &[usize],
        n: usize,
        tick: OnIngest<'_>,
    ) -> Result<(), TransferError> {
        let options = IngestOptions {
            threads: (self.options.threads / n).max(1),
            // other files are read meanwhile
            prefetch: false,
            ..(*self.options).clone()
        };
        let (senders, receivers): (Vec<_>, Vec<_>) = files.iter().map(|_| sync_channel(1)).unzip();
        let own = files.iter().filter_map(|at| self.files.get(*at).cloned());
        let reading = Reading {
            files: own.collect(),
            senders: senders
                .into_iter()
                .map(|sender| Mutex::new(Some(sender)))
                .collect(),
            next: AtomicUsize::new(0),
            dataset: self.dataset.uuid(),
            options: Arc::new(options),
            together: Together::of_this_thread(),
        };
        std::thread::scope(|scope| {
            for _ in 0..n {
                scope.spawn(|| reading.work());
            }
            let mut pairs = files.iter().zip(receivers);
            let written = pairs.try_for_each(|(at, receiver)| self.receive(*at, &receiver, tick));
            // without receivers the threads end
            drop(pairs);
            reading.together.stop();
            written
        })
    }

    /// Writes what a thread reads of a file.
    fn receive(
        &mut self,
        at: usize,
        receiver: &Receiver<Sent>,
        tick: OnIngest<'_>,
    ) -> Result<(), TransferError> {
        loop {
            match receiver.recv_timeout(Duration::from_millis(50)) {
                Ok(Ok(Ok(message))) => self.take(at, message, tick)?,
                Ok(Ok(Err(done))) => return self.end(at, done, tick),
                Ok(Err(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => goes_on(tick(self.done, self.total()))?,
                Err(RecvTimeoutError::Disconnected) => {
                    let what = "a reading thread has ended".into();
                    return Err(RNTupleError::Internal { what }.into());
                }
            }
        }
    }
}

/// Files that threads read.
struct Reading {
    files: Vec<IngestFile>,
    senders: Vec<Mutex<Option<SyncSender<Sent>>>>,
    next: AtomicUsize,
    dataset: Uuid,
    options: Arc<IngestOptions>,
    together: Together,
}

impl Reading {
    /// Reads one file after another, until none is left or nobody wants more.
    fn work(&self) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let (Some(file), Some(sender)) = (self.files.get(at), self.senders.get(at)) else {
                return;
            };
            let Some(sender) = lock(sender).take() else {
                return;
            };
            let done = self.together.work(|| {
                let mut reader = FileReader {
                    file,
                    dataset: self.dataset,
                    options: &self.options,
                    waiting: &mut || true,
                    tell: &mut |message| {
                        let sent = sender.send(Ok(Ok(message)));
                        sent.map_err(|_| RNTupleError::Interrupted.into())
                    },
                };
                reader.read()
            });
            if sender.send(done.map(Err)).is_err() {
                return;
            }
        }
    }
}

fn goes_on(does: bool) -> Result<(), TransferError> {
    match does {
        true => Ok(()),
        false => Err(RNTupleError::Interrupted.into()),
    }
}
