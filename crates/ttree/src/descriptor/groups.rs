//! Branches that only contain other branches, as records that project their columns.

use femtobarn_rntuple::schema::FieldId;
use femtobarn_rntuple::spec::{FieldRecord, Role};

use super::Builder;
use crate::model::BranchId;

impl Builder<'_> {
    /// Adds a record for each branch that only contains branches. It is not among the fields, but
    /// can be requested by name.
    pub(super) fn groups(&mut self, is_group: &dyn Fn(BranchId) -> bool) {
        for id in 0..self.model.branches.len() {
            let path = self.model.path(id);
            if !is_group(id) || self.aliases.contains_key(&path) {
                continue;
            }
            let field = self.group(id, None, is_group);
            let own = self.own_name(id, &path);
            if let Some(group) = self.fields.get_mut(field as usize) {
                group.record.name = own;
            }
            self.aliases.insert(format!("/{path}"), field);
            self.aliases.insert(path, field);
            if let Some(branch) = self.model.branch(id) {
                self.aliases.entry(branch.name.to_string()).or_insert(field);
            }
        }
    }

    fn group(
        &mut self,
        id: BranchId,
        parent: Option<FieldId>,
        is_group: &dyn Fn(BranchId) -> bool,
    ) -> FieldId {
        let (name, class, children) = match self.model.branch(id) {
            Some(branch) => (
                branch.name.to_string(),
                branch.object_class.to_string(),
                branch.children.clone(),
            ),
            None => Default::default(),
        };
        let field = self.add(parent, &name, Role::Record, class, None);
        for child in children {
            if is_group(child) {
                self.group(child, Some(field), is_group);
                continue;
            }
            let own = self
                .data
                .get(child)
                .and_then(Option::as_ref)
                .map(|data| data.field);
            let name = self
                .model
                .branch(child)
                .map_or_else(String::new, |b| b.name.to_string());
            if let Some(own) = own {
                self.copy(own, field, &name);
            }
        }
        field
    }

    /// Adds a projected field, with the columns of another.
    pub(super) fn copy(&mut self, source: FieldId, parent: FieldId, name: &str) -> FieldId {
        let Some(own) = self.fields.get(source as usize) else {
            return parent;
        };
        let (record, children) = (own.record.clone(), own.children.clone());
        let id = self.add(
            Some(parent),
            name,
            record.role,
            String::new(),
            record.array_size,
        );
        if let Some(field) = self.fields.get_mut(id as usize) {
            field.record = FieldRecord {
                parent_id: parent,
                name: name.to_owned(),
                source_id: Some(record.source_id.unwrap_or(source)),
                ..record
            };
        }
        if self.tstrings.contains(&source) {
            self.tstrings.insert(id);
        }
        for child in children {
            let name = match self.fields.get(child as usize) {
                Some(field) => field.record.name.clone(),
                None => continue,
            };
            self.copy(child, id, &name);
        }
        id
    }
}
