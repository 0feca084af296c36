//! The streamer infos of a file, by class.

use std::collections::HashMap;

use femtobarn_rootfile::{ElementKind, StreamerElement, StreamerInfo};

use crate::walk::{ANY_INLINE, OBJECT_INLINE};

/// Streamer infos by class and version.
#[derive(Debug, Default)]
pub struct Infos {
    all: Vec<StreamerInfo>,
    by_class: HashMap<String, Vec<usize>>,
}

impl Infos {
    /// From the streamer infos of a file.
    pub fn new(infos: Vec<StreamerInfo>) -> Self {
        let mut by_class: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, info) in infos.iter().enumerate() {
            by_class.entry(info.name.clone()).or_default().push(at);
        }
        Self {
            all: infos,
            by_class,
        }
    }

    /// All streamer infos in their order.
    #[must_use]
    pub fn all(&self) -> &[StreamerInfo] {
        &self.all
    }

    /// The streamer infos of a class.
    fn of(&self, class: &str) -> impl Iterator<Item = &StreamerInfo> {
        let found = self.by_class.get(class).into_iter().flatten();
        found.filter_map(|&at| self.all.get(at))
    }

    /// Whether an object of a class is a `base`, or contains one other than through a pointer, as far as the file
    /// describes the classes. Classes that are or contain `except` do not count.
    #[must_use]
    pub fn holds(&self, class: &str, base: &str, except: &str) -> bool {
        let mut known = Vec::new();
        let mut left = vec![class];
        while let Some(class) = left.pop() {
            if class == base {
                return true;
            }
            if class == except || known.contains(&class) {
                continue;
            }
            known.push(class);
            left.extend(
                self.of(class)
                    .flat_map(|info| &info.elements)
                    .filter_map(within),
            );
        }
        false
    }

    /// The streamer infos of classes, and of everything that they are or contain, as far as the file describes it.
    #[must_use]
    pub fn describing<'a>(&'a self, classes: &[&'a str]) -> Vec<&'a StreamerInfo> {
        let mut known: Vec<&str> = Vec::new();
        let mut left = classes.to_vec();
        let mut out = Vec::new();
        while let Some(class) = left.pop() {
            if known.contains(&class) {
                continue;
            }
            known.push(class);
            for info in self.of(class) {
                out.push(info);
                left.extend(info.elements.iter().map(|element| match element.kind {
                    ElementKind::Base { .. } => element.name.as_str(),
                    _ => element.type_name.trim_end_matches('*'),
                }));
            }
        }
        out
    }

    /// The newest version of a class.
    pub(crate) fn newest(&self, class: &str) -> Option<&StreamerInfo> {
        self.of(class).max_by_key(|info| info.version)
    }

    pub(crate) fn get(&self, class: &str, version: u16) -> Option<&StreamerInfo> {
        let mut versions = self.of(class);
        versions.find(|info| info.version == i32::from(version))
    }

    pub(crate) fn by_checksum(&self, class: &str, checksum: u32) -> Option<&StreamerInfo> {
        let mut versions = self.of(class);
        versions.find(|info| info.checksum == checksum)
    }
}

/// The class of a base, or of a member that is stored without its class name.
fn within(element: &StreamerElement) -> Option<&str> {
    match element.kind {
        ElementKind::Base { .. } => Some(&element.name),
        ElementKind::Object | ElementKind::ObjectAny => Some(&element.type_name),
        ElementKind::ObjectPointer | ElementKind::ObjectAnyPointer
            if matches!(element.type_code, OBJECT_INLINE | ANY_INLINE) =>
        {
            Some(element.type_name.trim_end_matches('*'))
        }
        _ => None,
    }
}
