//! Which container is meant: 40 bytes, as the store's keys have them, and HEPnOS's descriptors.

use femtobarn::events::{Container, DataSetPath, Descriptor, EventsError, ItemType, Parent};

use crate::error::{border, fb_error};
use crate::input::{given, given_mut};
use crate::store::fb_store;

/// The number that a container does not have: that of the run of a dataset, of the event of a subrun.
pub const FB_ABSENT: u64 = u64::MAX;

/// Which container is meant: the UUID of a dataset, and the numbers of run, subrun and event, big-endian; what a container
/// does not have is FB_ABSENT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_descriptor {
    /// The bytes.
    pub bytes: [u8; 40],
}

/// What a container is: one of FB_DATASET, FB_RUN, FB_SUBRUN, FB_EVENT.
pub type fb_item_type = u32;
/// A dataset.
pub const FB_DATASET: u32 = 0;
/// A run.
pub const FB_RUN: u32 = 1;
/// A subrun.
pub const FB_SUBRUN: u32 = 2;
/// An event.
pub const FB_EVENT: u32 = 3;

impl From<Descriptor> for fb_descriptor {
    fn from(descriptor: Descriptor) -> Self {
        Self {
            bytes: descriptor.to_bytes(),
        }
    }
}

impl fb_descriptor {
    /// What it means.
    pub fn read(&self) -> Result<Descriptor, EventsError> {
        Descriptor::from_bytes(&self.bytes).ok_or_else(|| EventsError::Usage {
            what: "a descriptor has an event without a subrun, or a subrun without a run".into(),
        })
    }

    fn number(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(FB_ABSENT, |bytes| u64::from_be_bytes(*bytes))
    }
}

/// The container that is meant, of a store.
///
/// # Safety
///
/// Both point to what they say, or are null.
pub unsafe fn item(
    store: *const fb_store,
    container: *const fb_descriptor,
) -> Result<Container, EventsError> {
    // SAFETY: as the caller promises.
    let (store, container) = unsafe { (given(store)?, given(container)?) };
    Ok(Container::new(store.store.clone(), container.read()?))
}

/// The container that holds one, and its number there.
pub fn holder(descriptor: Descriptor) -> Result<(Parent, u64), EventsError> {
    let Descriptor {
        dataset,
        run,
        subrun,
        event,
    } = descriptor;
    match descriptor.item_type() {
        ItemType::Run => Ok((Parent::dataset(dataset), run)),
        ItemType::SubRun => Ok((Parent::run(dataset, run), subrun)),
        ItemType::Event => Ok((Parent::subrun(dataset, run, subrun), event)),
        ItemType::DataSet => Err(EventsError::Usage {
            what: "a dataset is found, and removed, by its name, not by a number: fb_dataset_open, fb_dataset_remove (fb::DataSet)"
                .into(),
        }),
    }
}

/// The path of a dataset.
pub fn path(text: &str) -> Result<DataSetPath, EventsError> {
    DataSetPath::new(text)
}

/// What a container is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_type(container: *const fb_descriptor) -> fb_item_type {
    // SAFETY: the caller gives a descriptor, or NULL.
    let container = unsafe { container.as_ref() };
    match container.map(|container| [16, 24, 32].map(|at| container.number(at))) {
        None | Some([FB_ABSENT, _, _]) => FB_DATASET,
        Some([_, FB_ABSENT, _]) => FB_RUN,
        Some([_, _, FB_ABSENT]) => FB_SUBRUN,
        Some(_) => FB_EVENT,
    }
}

/// The number of its run, or FB_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_run(container: *const fb_descriptor) -> u64 {
    // SAFETY: the caller gives a descriptor, or NULL.
    unsafe { container.as_ref() }.map_or(FB_ABSENT, |container| container.number(16))
}

/// The number of its subrun, or FB_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_subrun(container: *const fb_descriptor) -> u64 {
    // SAFETY: the caller gives a descriptor, or NULL.
    unsafe { container.as_ref() }.map_or(FB_ABSENT, |container| container.number(24))
}

/// The number of its event, or FB_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_event(container: *const fb_descriptor) -> u64 {
    // SAFETY: the caller gives a descriptor, or NULL.
    unsafe { container.as_ref() }.map_or(FB_ABSENT, |container| container.number(32))
}

/// The container of a number in another, whether it is there or not: a run of a dataset, a subrun of a run, an event of a
/// subrun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_child(
    container: *const fb_descriptor,
    number: u64,
    child: *mut fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a descriptor and a place for another.
        let (container, child) = unsafe { (given(container)?, given_mut(child)?) };
        let container = container.read()?;
        if container.item_type() == ItemType::Event {
            let what = "an event holds no containers".into();
            return Err(EventsError::Usage { what });
        }
        let number = femtobarn::events::number(number)?;
        *child = container.placed_by().child(number).into();
        Ok(true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}
