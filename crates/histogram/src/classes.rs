//! The classes of ROOT's histograms, for histograms that no file has yet.

use std::sync::{Arc, LazyLock};

use femtobarn_rootfile::{Counter, ElementKind, StreamerElement, StreamerInfo};

use crate::Infos;
use crate::walk::OBJECT_INLINE;

/// The classes, in the format that is described at its beginning.
const CLASSES: &str = include_str!("classes.txt");

/// The streamer infos of all histogram classes.
pub(crate) fn known() -> Arc<Infos> {
    static KNOWN: LazyLock<Arc<Infos>> = LazyLock::new(|| Arc::new(Infos::new(parse(CLASSES))));
    Arc::clone(&KNOWN)
}

fn parse(text: &str) -> Vec<StreamerInfo> {
    let mut infos: Vec<StreamerInfo> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = Words(line.split(' ').filter(|word| !word.is_empty()));
        match (words.text().as_str(), infos.last_mut()) {
            ("class", _) => infos.push(StreamerInfo {
                name: words.text(),
                version: words.number(),
                checksum: words.checksum(),
                title: String::new(),
                elements: Vec::new(),
            }),
            ("", _) | (_, None) => {}
            (kind, Some(info)) => info.elements.push(element(kind, &mut words)),
        }
    }
    infos
}

fn element<'a>(kind: &str, words: &mut Words<impl Iterator<Item = &'a str>>) -> StreamerElement {
    let name = words.text();
    let mut max_index = [0; 5];
    let base = (kind == "base").then(|| (words.number(), words.checksum()));
    let size = if base.is_some() { 0 } else { words.number() };
    let type_code = words.number();
    let kind = match (kind, base) {
        (_, Some((version, checksum))) => {
            max_index[1] = checksum.cast_signed();
            ElementKind::Base { version }
        }
        ("numbers", _) => ElementKind::BasicPointer(Counter {
            name: words.text(),
            class_name: words.text(),
            version: words.number(),
        }),
        ("string", _) => ElementKind::String,
        ("object", _) => ElementKind::Object,
        ("any", _) => ElementKind::ObjectAny,
        ("pointer", _) => ElementKind::ObjectPointer,
        _ => ElementKind::BasicType,
    };
    // comments that begin like this have a meaning for ROOT
    let title = match &kind {
        ElementKind::BasicPointer(counter) => format!("[{}]", counter.name),
        ElementKind::ObjectPointer if type_code == OBJECT_INLINE => "->".to_owned(),
        _ => String::new(),
    };
    let type_name = match &kind {
        ElementKind::Base { .. } => "BASE".to_owned(),
        _ => words.rest(),
    };
    StreamerElement {
        kind,
        name,
        title,
        type_code,
        size,
        array_length: 0,
        array_dim: 0,
        max_index,
        type_name,
    }
}

/// The words of a line.
struct Words<I>(I);

impl<'a, I: Iterator<Item = &'a str>> Words<I> {
    fn text(&mut self) -> String {
        self.0.next().unwrap_or_default().to_owned()
    }

    fn number(&mut self) -> i32 {
        self.text().parse().unwrap_or_default()
    }

    fn checksum(&mut self) -> u32 {
        u32::from_str_radix(&self.text(), 16).unwrap_or_default()
    }

    fn rest(&mut self) -> String {
        let words: Vec<&str> = self.0.by_ref().collect();
        words.join(" ")
    }
}
