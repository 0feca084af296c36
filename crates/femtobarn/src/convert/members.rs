//! Builds records from members.

use femtobarn_rntuple::write::FieldModel;

use super::reshape::Piece;

/// Members of a record. Members with dots in their names are grouped in nested records.
#[derive(Default)]
pub(super) struct Members(Vec<(String, Member)>);

pub(super) enum Member {
    Leaf(FieldModel, Piece),
    Inner(Members),
}

impl Members {
    pub fn insert(&mut self, path: &[String], model: FieldModel, piece: Piece) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let known = self.0.iter_mut().find(|(name, _)| name == first);
        match (known, rest.is_empty()) {
            (Some((_, Member::Inner(inner))), false) => inner.insert(rest, model, piece),
            (None, false) => {
                let mut inner = Self::default();
                inner.insert(rest, model, piece);
                self.0.push((first.clone(), Member::Inner(inner)));
            }
            (None, true) => self.0.push((first.clone(), Member::Leaf(model, piece))),
            // if names collide, nothing is lost
            (Some(_), _) => {
                let name = format!("{}_{}", path.join("_"), self.0.len());
                self.0.push((name, Member::Leaf(model, piece)));
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn finish(self) -> (Vec<FieldModel>, Vec<(String, Piece)>) {
        self.each(&|model| model)
    }

    /// The members of the items of a collection: the models are lists.
    pub fn items(self) -> (Vec<FieldModel>, Vec<(String, Piece)>) {
        self.each(&|model| model.subfields().first().cloned().unwrap_or(model))
    }

    fn each(
        self,
        inner: &dyn Fn(FieldModel) -> FieldModel,
    ) -> (Vec<FieldModel>, Vec<(String, Piece)>) {
        let mut models = Vec::new();
        let mut pieces = Vec::new();
        for (name, member) in self.0 {
            let (model, piece) = match member {
                Member::Leaf(model, piece) => (inner(model), piece),
                Member::Inner(members) => {
                    let (models, pieces) = members.each(inner);
                    (FieldModel::record("", "", models), Piece::Record(pieces))
                }
            };
            models.push(model.named(name.as_str()));
            pieces.push((name, piece));
        }
        (models, pieces)
    }
}
