//! Identifies a container: 40 bytes, the same as in the keys of the store and in HEPnOS's descriptors.

use femtobarn::events::{Container, DataSetPath, Descriptor, EventsError, ItemType, Parent};

use super::error::{border, fb_error};
use super::input::{given, given_mut};
use super::store::fb_store;

/// Stands for a number that a container does not have: the run number of a dataset, the event number of a subrun.
pub const FB_ABSENT: u64 = u64::MAX;

/// Identifies a container: the UUID of the dataset, then the run, subrun and event numbers, big-endian. Numbers that
/// the container does not have are FB_ABSENT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_descriptor {
    /// The bytes.
    pub bytes: [u8; 40],
}

/// The type of a container: FB_DATASET, FB_RUN, FB_SUBRUN or FB_EVENT.
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
    /// The descriptor in Rust.
    pub fn read(&self) -> Result<Descriptor, EventsError> {
        Descriptor::from_bytes(&self.bytes).ok_or_else(|| EventsError::Usage {
            what: "invalid descriptor: it has an event without a subrun, or a subrun without a run"
                .into(),
        })
    }

    fn number(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(FB_ABSENT, |bytes| u64::from_be_bytes(*bytes))
    }
}

/// The container with this descriptor in a store.
///
/// # Safety
///
/// Both pointers are valid or null.
pub unsafe fn item(
    store: *const fb_store,
    container: *const fb_descriptor,
) -> Result<Container, EventsError> {
    // SAFETY: as the caller promises.
    let (store, container) = unsafe { (given(store)?, given(container)?) };
    Ok(Container::new(store.store.clone(), container.read()?))
}

/// The container that holds this one, and the number of this one in it.
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
            what: "a dataset has a name and no number: use fb_dataset_open or fb_dataset_remove (fb::DataSet)"
                .into(),
        }),
    }
}

/// The path of a dataset.
pub fn path(text: &str) -> Result<DataSetPath, EventsError> {
    DataSetPath::new(text)
}

/// Returns the type of a container.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_type(container: *const fb_descriptor) -> fb_item_type {
    // SAFETY: the caller passes a descriptor, or NULL.
    let container = unsafe { container.as_ref() };
    match container.map(|container| [16, 24, 32].map(|at| container.number(at))) {
        None | Some([FB_ABSENT, _, _]) => FB_DATASET,
        Some([_, FB_ABSENT, _]) => FB_RUN,
        Some([_, _, FB_ABSENT]) => FB_SUBRUN,
        Some(_) => FB_EVENT,
    }
}

/// Returns the run number, or FB_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_run(container: *const fb_descriptor) -> u64 {
    // SAFETY: the caller passes a descriptor, or NULL.
    unsafe { container.as_ref() }.map_or(FB_ABSENT, |container| container.number(16))
}

/// Returns the subrun number, or FB_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_subrun(container: *const fb_descriptor) -> u64 {
    // SAFETY: the caller passes a descriptor, or NULL.
    unsafe { container.as_ref() }.map_or(FB_ABSENT, |container| container.number(24))
}

/// Returns the event number, or FB_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_event(container: *const fb_descriptor) -> u64 {
    // SAFETY: the caller passes a descriptor, or NULL.
    unsafe { container.as_ref() }.map_or(FB_ABSENT, |container| container.number(32))
}

/// Computes the descriptor of a child: a run of a dataset, a subrun of a run, an event of a subrun. The child need not
/// exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_descriptor_child(
    container: *const fb_descriptor,
    number: u64,
    child: *mut fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a descriptor and a pointer to another.
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
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}
