//! The streamer infos of a file, by class.

use std::collections::HashMap;

use femtobarn_rootfile::{ElementKind, StreamerInfo};

/// Maximum number of base classes in which a member is searched.
const MOST_BASES: usize = 1000;

/// Streamer infos by class.
#[derive(Debug, Default)]
pub(crate) struct Infos {
    /// Hash of the bytes that they were read from.
    pub hash: u64,
    by_class: HashMap<String, Vec<StreamerInfo>>,
}

impl Infos {
    pub fn new(infos: Vec<StreamerInfo>, hash: u64) -> Self {
        let mut by_class: HashMap<String, Vec<StreamerInfo>> = HashMap::new();
        for info in infos {
            by_class.entry(squeezed(&info.name)).or_default().push(info);
        }
        for versions in by_class.values_mut() {
            versions.sort_by_key(|info| info.version);
        }
        Self { hash, by_class }
    }

    fn all(&self, class: &str) -> &[StreamerInfo] {
        let found = self
            .by_class
            .get(class)
            .or_else(|| self.by_class.get(&squeezed(class)));
        found.map_or(&[], Vec::as_slice)
    }

    pub fn versions(&self, class: &str) -> impl Iterator<Item = &StreamerInfo> {
        self.all(class).iter()
    }

    /// The description of a class version.
    pub fn get(&self, class: &str, version: i32) -> Option<&StreamerInfo> {
        self.versions(class).find(|info| info.version == version)
    }

    /// The description with this checksum.
    pub fn by_checksum(&self, class: &str, checksum: u32) -> Option<&StreamerInfo> {
        self.versions(class).find(|info| info.checksum == checksum)
    }

    /// The class of a member, which may be a member of a base class.
    pub fn member_class(&self, class: &str, name: &str) -> Option<String> {
        let mut pending = vec![class];
        // a class may not be its own base, but files can say so
        for _ in 0..MOST_BASES {
            let elements = self.newest(pending.pop()?).map(|info| &info.elements);
            for element in elements.into_iter().flatten() {
                match element.kind {
                    ElementKind::Base { .. } => pending.push(&element.name),
                    _ if element.name == name => return Some(element.type_name.clone()),
                    _ => {}
                }
            }
        }
        None
    }

    /// The newest description of a class.
    pub fn newest(&self, class: &str) -> Option<&StreamerInfo> {
        self.all(class).last()
    }
}

/// A class name without the spaces that only some versions of ROOT write.
pub(crate) fn squeezed(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut letters = name.chars().peekable();
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    while let Some(letter) = letters.next() {
        if letter != ' ' {
            out.push(letter);
            continue;
        }
        // a space between two words is significant ("unsigned int")
        let before = out.chars().last().is_some_and(is_word);
        let after = letters.peek().copied().is_some_and(is_word);
        if before && after {
            out.push(letter);
        }
    }
    if out.contains("std::") {
        out = out.replace("std::", "");
    }
    out
}
