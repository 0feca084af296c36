//! Branches that hold objects of split classes: as records, and as collections of records, whose members project the
//! columns of the branches below.

use std::collections::HashSet;

use femtobarn_rntuple::schema::FieldId;
use femtobarn_rntuple::spec::{ColumnType, Role};
use femtobarn_rootfile::ElementKind;

use super::{Builder, Owner};
use crate::interp::{Shapes, collection_type, element};
use crate::model::{Branch, BranchId};
use crate::object::Infos;

/// The end of the name of an object's field: `Jets/` has the objects of branch `Jets`.
const END: char = '/';

/// A member of an object.
enum Member {
    /// A field that a branch has already.
    Field(FieldId),
    Record(Record),
    /// The objects of a split collection or TClonesArray, whose number is in the branch.
    List {
        type_name: String,
        counter: BranchId,
        item: Record,
    },
}

struct Record {
    class: String,
    members: Vec<(String, Member)>,
}

impl Builder<'_> {
    /// Adds a field for the objects of each branch whose class is split. It is not among the fields, but can be requested
    /// by its name, which is that of the branch and a slash.
    pub(super) fn objects(&mut self, infos: &Infos) {
        for id in 0..self.model.branches.len() {
            let is_split = |branch: &Branch| {
                !branch.children.is_empty() && branch.class_name == "TBranchElement"
            };
            if !self.model.branch(id).is_some_and(is_split) {
                continue;
            }
            let Some(name) = self.name_of_objects(id) else {
                continue;
            };
            let Some(member) = self.member(id, infos) else {
                continue;
            };
            let field = self.add_member(None, &name, member);
            self.aliases.insert(name, field);
            self.objects.push((id, field));
        }
    }

    fn name_of_objects(&mut self, id: BranchId) -> Option<String> {
        let own = self.data.get(id).and_then(Option::as_ref);
        let own = own.map(|data| data.field);
        let own = own.or_else(|| self.aliases.get(&self.model.path(id)).copied())?;
        let mut name = self.fields.get(own as usize)?.record.name.clone();
        name.push(END);
        // branch names need not be unique
        self.names.insert(name.clone()).then_some(name)
    }

    /// What a branch has; none if a branch below it cannot be read, or if members have equal names.
    fn member(&self, id: BranchId, infos: &Infos) -> Option<Member> {
        let branch = self.model.branch(id)?;
        if branch.children.is_empty() {
            return Some(Member::Field(self.data.get(id)?.as_ref()?.field));
        }
        let class = match branch.parent {
            None => branch.object_class.to_string(),
            Some(_) => {
                let own = element(branch, infos)?;
                match own.kind {
                    ElementKind::Base { .. } => own.name.clone(),
                    _ => own.type_name.clone(),
                }
            }
        };
        if class.contains('*') {
            return None;
        }
        if !branch.is_collection() {
            let members = self.members_of(branch, &class, false, infos)?;
            return Some(Member::Record(Record { class, members }));
        }
        let item_class = branch.item_class.to_string();
        let mut members = self.members_of(branch, &item_class, true, infos)?;
        let type_name = match class.as_str() {
            "TClonesArray" => class,
            _ => collection_type(&mut Shapes::new(infos), &class, &item_class)?,
        };
        let mut item = item_class;
        if type_name.contains("map<") {
            let pair = type_name.split_once('<')?.1;
            item = format!("std::pair<{pair}");
            for (name, _) in &mut members {
                *name = match name.as_str() {
                    "first" => "_0".into(),
                    _ => "_1".into(),
                };
            }
        }
        Some(Member::List {
            type_name,
            counter: id,
            item: Record {
                class: item,
                members,
            },
        })
    }

    /// The members of a class that are below a branch, including those of its bases.
    fn members_of(
        &self,
        branch: &Branch,
        class: &str,
        are_items: bool,
        infos: &Infos,
    ) -> Option<Vec<(String, Member)>> {
        let mut record = Record {
            class: class.to_owned(),
            members: Vec::new(),
        };
        for &child in &branch.children {
            let own = self.model.branch(child)?;
            let mut member = self.member(child, infos)?;
            if let (true, Member::Field(list)) = (are_items, &member) {
                let &[item] = self.fields.get(*list as usize)?.children.as_slice() else {
                    return None;
                };
                member = Member::Field(item);
            }
            let is_base = element(own, infos)
                .is_some_and(|element| matches!(element.kind, ElementKind::Base { .. }));
            match member {
                Member::Record(base) if is_base => record.members.extend(base.members),
                Member::Field(base) if is_base => {
                    for &id in &self.fields.get(base as usize)?.children {
                        let name = self.fields.get(id as usize)?.record.name.clone();
                        record.members.push((name, Member::Field(id)));
                    }
                }
                member => {
                    let path = self.model.name_below(child);
                    let path: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
                    record.insert(&path, member, infos)?;
                }
            }
        }
        let mut names = HashSet::new();
        let are_unique = (record.members.iter()).all(|(name, _)| names.insert(name.as_str()));
        are_unique.then_some(record.members)
    }

    fn add_member(&mut self, parent: Option<FieldId>, name: &str, member: Member) -> FieldId {
        match member {
            Member::Field(source) => match parent {
                Some(parent) => self.copy(source, parent, name),
                None => source,
            },
            Member::Record(Record { class, members }) => {
                let field = self.add(parent, name, Role::Record, class, None);
                for (name, member) in members {
                    self.add_member(Some(field), &name, member);
                }
                field
            }
            Member::List {
                type_name,
                counter,
                item,
            } => {
                let field = self.add(parent, name, Role::Collection, type_name, None);
                self.count(field, counter);
                self.add_member(Some(field), "_0", Member::Record(item));
                field
            }
        }
    }

    /// Gives a collection the offsets that follow from a counter, which all collections with this counter share.
    pub(super) fn count(&mut self, field: FieldId, counter: BranchId) {
        match self.shared.get(&counter) {
            Some(&first) => {
                if let Some(own) = self.fields.get_mut(field as usize) {
                    own.record.source_id = Some(first);
                }
            }
            None => {
                self.shared.insert(counter, field);
                self.column(field, ColumnType::Index64, Owner::Counter(counter));
            }
        }
    }
}

impl Record {
    /// Adds a member of a member: records in between have no branches of their own in a collection.
    fn insert(&mut self, path: &[&str], member: Member, infos: &Infos) -> Option<()> {
        let (name, below) = path.split_first()?;
        if below.is_empty() {
            self.members.push(((*name).to_owned(), member));
            return Some(());
        }
        let found = self.members.iter().position(|(own, _)| own == name);
        let at = match found {
            Some(at) => at,
            None => {
                let class = infos.member_class(&self.class, name)?;
                let members = Vec::new();
                let between = Member::Record(Record { class, members });
                self.members.push(((*name).to_owned(), between));
                self.members.len() - 1
            }
        };
        match self.members.get_mut(at) {
            Some((_, Member::Record(between))) => between.insert(below, member, infos),
            _ => None,
        }
    }
}
