//! The end of an upload: the remaining parts are sent, and the object appears.

use std::collections::BTreeMap;
use std::mem;

use object_store::multipart::PartId;
use object_store::{Error, GetOptions, GetResult, PutMode, PutOptions, PutPayload};

use super::{MAKER, OF_ANOTHER, ObjectSink, Part, generic};
use crate::object::Reached;
use crate::runtime::process;
use crate::{IoError, object};

impl ObjectSink {
    /// Makes the object appear.
    pub(super) fn finish(&self) -> Result<(), IoError> {
        if self.owner != process() {
            return Err(self.refused(0, 0, OF_ANOTHER));
        }
        let (held, size) = {
            let mut state = self.lock();
            if mem::replace(&mut state.is_closed, true) {
                return Err(self.refused(0, 0, "the object was committed"));
            }
            (mem::take(&mut state.held), state.size)
        };
        self.check_failure()?;
        match self.upload.get() {
            None if size <= self.layout.range(0).end => self.put_whole(held, size)?,
            _ => self.put_parts(held, size)?,
        }
        self.lock().is_there = true;
        self.wait(self.check_size(size))
    }

    fn check_failure(&self) -> Result<(), IoError> {
        let failure = {
            let mut state = self.lock();
            state.note_sent();
            state.failure()
        };
        match failure {
            Some(error) => Err(object::created(&self.address, error)),
            None => Ok(()),
        }
    }

    /// Sends an object that fits into one part with one request.
    fn put_whole(&self, mut held: BTreeMap<u64, Part>, size: u64) -> Result<(), IoError> {
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        let bytes = held.remove(&0).map(|part| part.into_bytes(length));
        let payload = PutPayload::from(bytes.unwrap_or_default());
        let reached = Reached::default();
        let options = PutOptions {
            mode: match self.replaces {
                true => PutMode::Overwrite,
                false => PutMode::Create,
            },
            attributes: self.made_here(),
            extensions: reached.by(),
            ..PutOptions::default()
        };
        self.wait(async {
            let put = self
                .store
                .objects
                .put_opts(&self.address.key, payload, options);
            match put.await {
                Ok(_) => Ok(()),
                Err(error) if !reached.is_so() => Err(error),
                Err(error) => self.settle(error).await,
            }
        })
    }

    /// Sends the rest, with zeros for gaps, and completes the upload.
    fn put_parts(&self, mut held: BTreeMap<u64, Part>, size: u64) -> Result<(), IoError> {
        let last = self
            .layout
            .index(size.saturating_sub(1))
            .unwrap_or_default();
        for index in 0..=last {
            if self.lock().sent.contains_key(&index) {
                continue;
            }
            let range = self.layout.range(index);
            let length = range.end.min(size) - range.start;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let part = held.remove(&index).unwrap_or_else(|| Part::new(length));
            self.lock().sent.insert(index, None);
            self.send(index, part.into_bytes(length))?;
        }
        let mut on_the_way = mem::take(&mut self.lock().on_the_way);
        self.wait(async {
            while let Some(done) = on_the_way.join_next().await {
                self.lock().note(done);
            }
            Ok(())
        })?;
        self.check_failure()?;
        let sent = mem::take(&mut self.lock().sent);
        let parts: Option<Vec<PartId>> = sent.into_values().collect();
        self.wait(async { self.complete(parts).await })
    }

    async fn complete(&self, parts: Option<Vec<PartId>>) -> Result<(), Error> {
        let (Some(parts), Some(id)) = (parts, self.upload.get()) else {
            return Err(generic("a part of the upload is missing".to_owned()));
        };
        // no condition prevents another client from creating it in between: not all stores support conditions here
        self.check_free().await?;
        let key = &self.address.key;
        match self.store.parts.complete_multipart(key, id, parts).await {
            Ok(_) => Ok(()),
            Err(error) => self.settle(error).await,
        }
    }

    /// Handles a failed request that may have been executed: its answer may be lost, and the retry then finds the
    /// object that it has created itself.
    async fn settle(&self, error: Error) -> Result<(), Error> {
        let is_sure = match &error {
            // a completed upload does not exist on the server any more
            Error::NotFound { .. } => self.upload.get().is_none(),
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => true,
            _ => false,
        };
        if is_sure {
            return Err(error);
        }
        match self.head().await {
            Ok(found) if self.is_own(&found) == Some(true) => Ok(()),
            Ok(_) | Err(Error::NotFound { .. }) => Err(error),
            Err(_) => Err(generic(format!(
                "unknown whether the object was written: {error}"
            ))),
        }
    }

    async fn head(&self) -> Result<GetResult, Error> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        self.store
            .objects
            .get_opts(&self.address.key, options)
            .await
    }

    /// Whether an object was made by this sink, if its creator is recorded.
    fn is_own(&self, found: &GetResult) -> Option<bool> {
        let maker = found.attributes.get(&MAKER)?;
        Some(maker.as_ref() == self.maker)
    }

    /// Checks that everything was sent.
    async fn check_size(&self, size: u64) -> Result<(), Error> {
        match self.head().await {
            Ok(found) if found.meta.size == size => Ok(()),
            // another client has replaced it meanwhile
            Ok(found) if self.is_own(&found) == Some(false) => Ok(()),
            Ok(found) => Err(generic(format!(
                "expected an object of {size} bytes, found {}",
                found.meta.size
            ))),
            // a user with only write permission relies on the store for the size
            Err(Error::PermissionDenied { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
