//! The streamer infos of a file, by class.

use std::collections::HashMap;

use femtobarn_rootfile::{ElementKind, StreamerInfo};

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

    /// Whether a class is `base`, or has it among its bases, as far as the file describes them.
    #[must_use]
    pub fn derives(&self, class: &str, base: &str) -> bool {
        let mut known = Vec::new();
        let mut left = vec![class];
        while let Some(class) = left.pop() {
            if class == base {
                return true;
            }
            if known.contains(&class) {
                continue;
            }
            known.push(class);
            let infos = self.by_class.get(class).into_iter().flatten();
            for element in infos.flat_map(|info| &info.elements) {
                if matches!(element.kind, ElementKind::Base { .. }) {
                    left.push(&element.name);
                }
            }
        }
        false
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
