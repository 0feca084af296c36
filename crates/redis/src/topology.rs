//! Which server has which slot.

use std::sync::Arc;

use crate::slots::N_SLOTS;
use crate::{Address, Reply};

/// The servers of each slot.
#[derive(Debug)]
pub struct Topology {
    /// Whether it is a cluster.
    pub(crate) is_cluster: bool,
    /// The servers that have slots, sorted by address.
    pub masters: Vec<Arc<Address>>,
    /// Their replicas.
    pub(crate) replicas: Vec<Arc<Address>>,
    /// For each slot, the index of its master; none if the slot is not served.
    slots: Vec<Option<u16>>,
    /// Increases with each new topology.
    pub(crate) generation: u64,
}

impl Topology {
    pub(crate) fn single(address: Address) -> Self {
        Self {
            is_cluster: false,
            masters: vec![Arc::new(address)],
            replicas: Vec::new(),
            slots: vec![Some(0); usize::from(N_SLOTS)],
            generation: 0,
        }
    }

    /// Parses the answer to `CLUSTER SLOTS`; none if it is invalid.
    pub(crate) fn of_slots(reply: Reply<'_>, asked: &Address) -> Option<Self> {
        let mut found = Vec::new();
        let mut replicas = Vec::new();
        for range in reply.elements()? {
            let mut parts = range.elements()?;
            let mut slot = || match parts.next()? {
                Reply::Number(slot) => u16::try_from(slot).ok().filter(|slot| *slot < N_SLOTS),
                _ => None,
            };
            let (first, last) = (slot()?, slot()?);
            let mut nodes = parts.map(|node| address(node, asked));
            found.push((first, last, Arc::new(nodes.next()??)));
            replicas.extend(nodes.flatten().map(Arc::new));
        }
        let mut masters: Vec<_> = found.iter().map(|(.., master)| master.clone()).collect();
        masters.sort_unstable();
        masters.dedup();
        replicas.sort_unstable();
        replicas.dedup();
        let mut slots = vec![None; usize::from(N_SLOTS)];
        for (first, last, master) in found {
            let at = masters.binary_search(&master).ok();
            let at = at.and_then(|at| u16::try_from(at).ok());
            let part = slots.get_mut(usize::from(first)..=usize::from(last));
            part.into_iter().flatten().for_each(|slot| *slot = at);
        }
        Some(Self {
            is_cluster: true,
            masters,
            replicas,
            slots,
            generation: 0,
        })
    }

    /// The index of the master that has a slot.
    pub fn target(&self, slot: u16) -> Option<usize> {
        self.slots
            .get(usize::from(slot))
            .copied()
            .flatten()
            .map(usize::from)
    }

    /// The master that has a slot.
    pub fn master(&self, slot: u16) -> Option<&Arc<Address>> {
        self.masters.get(self.target(slot)?)
    }

    /// One slot of each master that has slots, to address commands to the whole server.
    pub fn a_slot_of_each(&self) -> Vec<u16> {
        let mut slots = vec![None; self.masters.len()];
        for slot in 0..N_SLOTS {
            let place = self.target(slot).and_then(|at| slots.get_mut(at));
            place
                .into_iter()
                .for_each(|first| *first = first.or(Some(slot)));
        }
        slots.into_iter().flatten().collect()
    }
}

/// The address of a node in `CLUSTER SLOTS`. A node that does not know its own name has the address
/// that was asked.
fn address(node: Reply<'_>, asked: &Address) -> Option<Address> {
    let mut parts = node.elements()?;
    let host = parts.next()?.bytes().unwrap_or_default();
    let host = match host {
        b"" | b"?" => asked.host.clone(),
        host => String::from_utf8(host.to_vec()).ok()?,
    };
    match parts.next()? {
        Reply::Number(port) => Some(Address {
            host,
            port: u16::try_from(port).ok()?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_says_who_has_which_slot() {
        let bytes = b"*2\r\n*4\r\n:0\r\n:100\r\n*3\r\n$1\r\nb\r\n:7001\r\n$2\r\nid\r\n*3\r\n$1\r\nb\r\n:7004\r\n$2\r\nid\r\n\
            *3\r\n:101\r\n:16383\r\n*4\r\n$-1\r\n:7000\r\n$2\r\nid\r\n*0\r\n";
        let asked = Address::parse("a:1").unwrap();
        let topology = Topology::of_slots(Reply::of(bytes).unwrap(), &asked).unwrap();
        let masters: Vec<_> = topology.masters.iter().map(|at| at.to_string()).collect();
        assert_eq!(masters, ["a:7000", "b:7001"]);
        assert_eq!(topology.replicas.len(), 1);
        let targets = [0, 100, 101, 16383, 16384].map(|slot| topology.target(slot));
        assert_eq!(targets, [Some(1), Some(1), Some(0), Some(0), None]);
        assert_eq!(topology.a_slot_of_each(), [101, 0]);
        for bad in [
            b"*1\r\n*1\r\n:0\r\n".as_slice(),
            b"*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\nb\r\n:7001\r\n",
            b":1\r\n",
        ] {
            assert!(Topology::of_slots(Reply::of(bad).unwrap(), &asked).is_none());
        }
    }
}
