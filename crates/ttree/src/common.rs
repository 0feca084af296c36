//! What trees with the same branches share.

use std::collections::HashMap;
use std::sync::Arc;

use femtobarn_rntuple::read::{Known, KnownHeader};
use femtobarn_rntuple::schema::FieldId;

use crate::descriptor::{Described, describe, descriptor};
use crate::model::{Filling, TreeModel};
use crate::object::Infos;

/// The common parts of trees with the same branches.
#[derive(Debug)]
pub(crate) struct Common {
    pub infos: Arc<Infos>,
    pub model: TreeModel,
    pub described: Described,
    pub aliases: Arc<HashMap<String, FieldId>>,
    pub header: KnownHeader,
}

/// The common parts of open files.
pub(crate) static COMMON: Known<Common> = Known::new();

impl Common {
    /// The common parts of a tree written by `writer`. If an open file has the same, they are
    /// shared.
    pub fn of(model: TreeModel, infos: Arc<Infos>, writer: &str, filling: &Filling) -> Arc<Self> {
        let is_same = |known: &Self, model: &TreeModel| {
            Arc::ptr_eq(&known.infos, &infos)
                && known.described.schema.writer == writer
                && known.model == *model
        };
        if let Some(known) = COMMON.find(|known| is_same(known, &model)) {
            return known;
        }
        let mut described = describe(&model, &infos, writer.to_owned());
        let aliases = Arc::new(std::mem::take(&mut described.aliases));
        let header = KnownHeader::none(&descriptor(described.schema.clone(), filling));
        let made = Arc::new(Self {
            infos: infos.clone(),
            model,
            described,
            aliases,
            header,
        });
        COMMON.add(made.clone(), |known| is_same(known, &made.model))
    }
}
