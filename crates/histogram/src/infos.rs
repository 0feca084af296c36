//! The streamer infos of a file, by class.

use std::collections::HashMap;

use femtobarn_rootfile::StreamerInfo;

/// Streamer infos by class and version.
#[derive(Debug, Default)]
pub struct Infos {
    by_class: HashMap<String, Vec<StreamerInfo>>,
}

impl Infos {
    /// Those of a file.
    pub fn new(infos: Vec<StreamerInfo>) -> Self {
        let mut by_class: HashMap<String, Vec<StreamerInfo>> = HashMap::new();
        for info in infos {
            by_class.entry(info.name.clone()).or_default().push(info);
        }
        Self { by_class }
    }

    pub(crate) fn get(&self, class: &str, version: u16) -> Option<&StreamerInfo> {
        let mut versions = self.by_class.get(class)?.iter();
        versions.find(|info| info.version == i32::from(version))
    }

    pub(crate) fn by_checksum(&self, class: &str, checksum: u32) -> Option<&StreamerInfo> {
        let mut versions = self.by_class.get(class)?.iter();
        versions.find(|info| info.checksum == checksum)
    }
}
