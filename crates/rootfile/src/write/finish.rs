//! Completes a file: streamer infos, key lists, free segments, and the records that make them part of the file.

use super::encode::{self, BIG, Encoder, is_wide};
use super::folder::{DIRECTORY, Folder};
use super::{FileWriter, ROOT_VERSION, streamer};
use crate::{FreeSegment, RootFileError};

/// Upper limit for the size of the last records: key lists, streamer infos, free segments.
const MARGIN: u64 = 100_000_000;

impl FileWriter {
    /// Writes the streamer infos, the lists of keys and the header, and makes the file appear.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> Result<u64, RootFileError> {
        self.check()?;
        self.check_folders()?;
        self.write_infos()?;
        for at in (0..self.folders.len()).rev() {
            self.write_keys(at)?;
        }
        self.write_free()?;
        self.write_gap()?;
        // all new records must be on disk before anything refers to them
        self.sink.sync()?;
        self.old_size = None;
        for folder in self.folders.iter().skip(1).filter(|folder| folder.changed) {
            self.sink
                .write_at(folder.offset(), &folder.bytes(self.header.uuid))?;
        }
        self.write_head()?;
        self.sink.commit()?;
        Ok(self.end)
    }

    /// Checks that all directory records that are overwritten have room for 64-bit positions, if they need them. Files of
    /// versions before ROOT 4 have no room.
    fn check_folders(&self) -> Result<(), RootFileError> {
        let is_old = self.header.version % 1_000_000 < 40_000;
        let is_full = |folder: &&Folder| {
            is_old && matches!(folder.old, Some((_, false))) && self.end + MARGIN > BIG
        };
        match self.folders.iter().filter(|f| f.changed).find(is_full) {
            Some(folder) => Err(RootFileError::TooLarge {
                url: self.sink.url().to_owned(),
                name: folder.name.clone(),
                expected: BIG,
                found: self.end,
            }),
            None => Ok(()),
        }
    }

    fn write_infos(&mut self) -> Result<(), RootFileError> {
        let title = "Doubly linked list";
        let names = ("TList", "StreamerInfo", title);
        let key_len = self.key(names, self.header.begin, (0, 0), 1)?.key_len;
        let at = self.header.seek_info;
        let (title, object) = match self.old_infos.take() {
            Some(_) if self.new_infos.is_empty() => return Ok(()),
            // class tags count from the beginning of the record, so the length of the key must not change: its title,
            // which is not used, is cut or padded
            Some((old, old_len)) => {
                let room = usize::from(old_len) + title.len();
                let wanted = room.checked_sub(usize::from(key_len));
                let title = wanted.filter(|&n| n < 255).map(|wanted| {
                    let filled = title.chars().chain(std::iter::repeat(' '));
                    filled.take(wanted).collect()
                });
                (title, streamer::extended(old, &self.new_infos, old_len))
            }
            None => (
                Some(title.to_owned()),
                streamer::list(&self.new_infos, key_len),
            ),
        };
        let (title, object): (String, _) =
            title.zip(object).ok_or_else(|| RootFileError::Corrupt {
                url: self.sink.url().to_owned(),
                what: "list of streamer infos",
                offset: at,
                expected: "a TList of version 5, which can be extended".to_owned(),
                found: "another structure".to_owned(),
            })?;
        let names = ("TList", "StreamerInfo", title.as_str());
        let key = self.append_object(names, self.header.begin, &object, 101, (1, false))?;
        (self.header.seek_info, self.header.n_bytes_info) = (key.seek_key, key.n_bytes);
        Ok(())
    }

    fn write_keys(&mut self, at: usize) -> Result<(), RootFileError> {
        let Some(folder) = self.folders.get(at).filter(|folder| folder.changed) else {
            return Ok(());
        };
        let mut list = Encoder::default();
        list.u32(u32::try_from(folder.keys.len()).unwrap_or(u32::MAX));
        let keys = folder.keys.iter();
        keys.for_each(|key| list.0.extend(encode::key(key)));
        let class = if at == 0 { "TFile" } else { DIRECTORY };
        let names = (class, folder.name.as_str(), folder.title.as_str());
        let size = (list.0.len(), list.0.len());
        let key = self.key(names, folder.record.seek_dir, size, 1)?;
        self.append(&key, &list.0)?;
        let now = self.now;
        if let Some(folder) = self.folders.get_mut(at) {
            folder.record.seek_keys = key.seek_key;
            folder.record.n_bytes_keys = key.n_bytes;
            folder.record.modified = now;
        }
        Ok(())
    }

    /// The last free segment: the space after the end of the file. Its record is the last one, so its size determines the
    /// end.
    fn write_free(&mut self) -> Result<(), RootFileError> {
        let segment = |end: u64| {
            let last = if end < BIG { BIG } else { end + 1_000_000_000 };
            encode::free_segment(FreeSegment { first: end, last })
        };
        let root = self.folders.first();
        let names = root.map_or(("", ""), |root| (&root.name, &root.title));
        let mut bytes = segment(self.end);
        let key = loop {
            let size = (bytes.len(), bytes.len());
            let key = self.key(("TFile", names.0, names.1), self.header.begin, size, 1)?;
            bytes = segment(self.end + u64::from(key.n_bytes));
            if bytes.len() == size.0 {
                break key;
            }
        };
        self.append(&key, &bytes)?;
        (self.header.seek_free, self.header.n_bytes_free) = (key.seek_key, key.n_bytes);
        self.header.n_free = 1;
        Ok(())
    }

    /// Writes the header, then the root directory's record, which makes all new records part of the file. In between, the
    /// header has the new end already, and the keys are still the old ones.
    fn write_head(&mut self) -> Result<(), RootFileError> {
        let Some(root) = self.folders.first() else {
            return Ok(());
        };
        let wide = is_wide(&[self.end, self.header.seek_free, self.header.seek_info]);
        let version = ROOT_VERSION.max(self.header.version % 1_000_000);
        self.header.version = version + if wide { 1_000_000 } else { 0 };
        self.header.units = if wide { 8 } else { 4 };
        self.header.end = self.end;
        let mut header = encode::header(&self.header);
        // headers of early versions have no room for the UUID, which is last
        header.truncate(usize::try_from(self.header.begin).unwrap_or(usize::MAX));
        let root = root
            .changed
            .then(|| (root.offset(), root.bytes(self.header.uuid)));
        self.write_at(0, &header)?;
        match root {
            Some((offset, record)) => self.write_at(offset, &record),
            None => Ok(()),
        }
    }
}

impl Drop for FileWriter {
    /// Removes records that were appended to an existing file, if nothing refers to them yet.
    fn drop(&mut self) {
        if let Some(size) = self.old_size {
            // an error cannot be reported here
            let _ = self.sink.truncate(size);
        }
    }
}
