//! Encodes a histogram by the streamer infos of its class: the reverse of a [walk](crate::walk).

use std::collections::HashMap;

use femtobarn_rootfile::{BYTE_COUNT, ElementKind, StreamerElement};

use crate::Infos;
use crate::numbers::{Kind, put_real};
use crate::splice::put_string;
use crate::walk::{
    ANY, CLASS_MASK, COUNTER, MAP_OFFSET, NEW_CLASS, OBJECT, OBJECT_INLINE, OBJECT_POINTER,
    OFFSET_P, TSTRING,
};

/// The bits of an object in memory, which ROOT stores.
const IN_MEMORY: u32 = 0x0300_0000;

/// Values of members by path, as in [`Layout`](crate::layout::Layout). All others have what ROOT gives to new objects.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub numbers: HashMap<String, f64>,
    pub strings: HashMap<String, String>,
    /// Big-endian numbers of arrays.
    pub arrays: HashMap<String, (Kind, Vec<u8>)>,
    pub labels: HashMap<String, Vec<(u32, String)>>,
}

/// The object, for a record with a key of no length.
pub(crate) fn encode(class: &str, members: &Members, infos: &Infos) -> Vec<u8> {
    let mut encoder = Encoder {
        infos,
        members,
        out: Vec::new(),
        classes: HashMap::new(),
    };
    encoder.object(class, "");
    encoder.out
}

struct Encoder<'a> {
    infos: &'a Infos,
    members: &'a Members,
    out: Vec<u8>,
    /// Tags of the classes named so far.
    classes: HashMap<&'static str, u32>,
}

impl Encoder<'_> {
    fn u32(&mut self, value: u32) {
        self.out.extend(value.to_be_bytes());
    }

    fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).unwrap_or(0));
    }

    fn string(&mut self, text: &str) {
        let _too_long = put_string(&mut self.out, text.as_bytes());
    }

    /// Writes the output of `write` after its size.
    fn counted(&mut self, write: impl FnOnce(&mut Self)) {
        let at = self.out.len();
        self.u32(0);
        write(self);
        let n_bytes = u32::try_from(self.out.len() - at - 4).unwrap_or(0) | BYTE_COUNT;
        if let Some(place) = self.out.get_mut(at..at + 4) {
            place.copy_from_slice(&n_bytes.to_be_bytes());
        }
    }

    fn versioned(&mut self, version: u16, write: impl FnOnce(&mut Self)) {
        self.counted(|this| {
            this.out.extend(version.to_be_bytes());
            write(this);
        });
    }

    /// Writes an object behind a pointer.
    fn tagged(&mut self, class: &'static str, write: impl FnOnce(&mut Self)) {
        self.counted(|this| {
            match this.classes.get(class) {
                Some(&tag) => this.u32(tag),
                None => {
                    let position = u32::try_from(this.out.len() + MAP_OFFSET).unwrap_or(0);
                    this.classes.insert(class, position | CLASS_MASK);
                    this.u32(NEW_CLASS);
                    this.out.extend(class.as_bytes());
                    this.out.push(0);
                }
            }
            write(this);
        });
    }

    /// Writes a TObject.
    fn root_object(&mut self, id: u32) {
        self.out.extend(1u16.to_be_bytes());
        self.u32(id);
        self.u32(IN_MEMORY);
    }

    fn object(&mut self, class: &str, path: &str) {
        match class {
            "TObject" => self.root_object(0),
            "TNamed" => self.versioned(1, |this| {
                this.root_object(0);
                this.text(&format!("{path}fName"));
                this.text(&format!("{path}fTitle"));
            }),
            "TList" => self.list(&[]),
            _ if class.starts_with("TArray") => self.array(&format!("{path}fArray")),
            _ => {
                let Some(info) = self.infos.newest(class) else {
                    return;
                };
                let version = u16::try_from(info.version).unwrap_or(0);
                self.versioned(version, |this| {
                    for element in &info.elements {
                        this.member(element, path);
                    }
                });
            }
        }
    }

    fn member(&mut self, element: &StreamerElement, path: &str) {
        let name = format!("{path}{}", element.name);
        match element.type_code {
            _ if matches!(element.kind, ElementKind::Base { .. }) => {
                self.object(&element.name, path);
            }
            TSTRING => self.text(&name),
            OBJECT | ANY | OBJECT_INLINE => {
                self.object(element.type_name.trim_end_matches('*'), &format!("{name}."));
            }
            OBJECT_POINTER => match self.members.labels.get(&name) {
                Some(labels) => self.tagged("THashList", |this| this.list(labels)),
                None => self.u32(0),
            },
            OFFSET_P..OBJECT => self.out.push(0),
            code => {
                let known = self.members.numbers.get(&name).copied();
                let value = known.unwrap_or_else(|| default_of(path, &element.name));
                self.number(code, value);
            }
        }
    }

    fn text(&mut self, name: &str) {
        let members = self.members;
        self.string(members.strings.get(name).map_or("", String::as_str));
    }

    fn number(&mut self, code: i32, value: f64) {
        let kind = match code {
            1 | 18 => Kind::I8,
            2 | 12 => Kind::I16,
            3 | 13 | COUNTER => Kind::I32,
            5 => Kind::F32,
            _ => Kind::F64,
        };
        let mut bytes = [0; 8];
        put_real(kind, &mut bytes, value);
        self.out
            .extend(bytes.get(..kind.size()).unwrap_or_default());
    }

    fn array(&mut self, name: &str) {
        let members = self.members;
        match members.arrays.get(name) {
            Some((kind, bytes)) => {
                self.count(bytes.len() / kind.size());
                self.out.extend(bytes);
            }
            None => self.u32(0),
        }
    }

    /// Writes a list of labels.
    fn list(&mut self, labels: &[(u32, String)]) {
        self.versioned(5, |this| {
            this.root_object(0);
            this.string("");
            this.count(labels.len());
            for (bin, label) in labels {
                this.tagged("TObjString", |this| {
                    this.versioned(1, |this| {
                        this.root_object(*bin);
                        this.string(label);
                    });
                });
                // no option
                this.out.push(0);
            }
        });
    }
}

/// What ROOT gives to members of new histograms.
fn default_of(path: &str, name: &str) -> f64 {
    match name {
        "fLineColor" => 602.0,
        "fFillStyle" => 1001.0,
        "fLineStyle" | "fLineWidth" | "fMarkerColor" | "fMarkerStyle" | "fMarkerSize"
        | "fAxisColor" | "fLabelColor" | "fTitleColor" | "fScalefactor" => 1.0,
        "fBarWidth" => 1000.0,
        "fMaximum" | "fMinimum" => -1111.0,
        // kNeutral
        "fStatOverflows" => 2.0,
        "fNdivisions" => 510.0,
        "fLabelFont" | "fTitleFont" => 42.0,
        "fLabelOffset" => 0.005,
        "fLabelSize" | "fTitleSize" => 0.035,
        "fTickLength" => 0.03,
        "fTitleOffset" if path != "fYaxis." => 1.0,
        _ => 0.0,
    }
}
