use std::ffi::CStr;
use std::ptr::{null, null_mut};

use super::descriptor::{FB_EVENT, fb_descriptor, fb_descriptor_child, fb_descriptor_type};
use super::error::{border, fb_error, fb_error_free, fb_error_kind, fb_error_message};
use super::input::fb_text;
use super::store::{FB_APPEND, fb_store_connect, fb_store_flush, fb_store_free};

fn taken(error: *mut fb_error) -> (String, String) {
    // SAFETY: the error is valid.
    unsafe {
        let text = |text| CStr::from_ptr(text).to_str().unwrap().to_owned();
        let taken = (text(fb_error_kind(error)), text(fb_error_message(error)));
        fb_error_free(error);
        taken
    }
}

#[test]
fn a_panic_becomes_an_error_at_the_border() {
    let mut error = null_mut();
    // SAFETY: the error pointer is valid.
    let given = unsafe { border(&mut error, 7, || panic!("so {}", 1)) };
    assert_eq!(given, 7);
    let (kind, message) = taken(error);
    assert_eq!(kind, "fault");
    assert!(message.ends_with("so 1"), "{message}");
}

#[test]
fn null_is_an_error_and_no_crash() {
    let mut error = null_mut();
    // SAFETY: this test passes NULL.
    unsafe {
        assert!(!fb_store_flush(null(), &mut error));
        assert!(!fb_store_flush(null(), null_mut()));
        fb_store_free(null_mut());
        assert_eq!(CStr::from_ptr(fb_error_kind(null())), c"");
    }
    assert_eq!(taken(error).0, "usage");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let mut error = null_mut();
    // SAFETY: the string and the error pointer are valid.
    let store = unsafe { fb_store_connect(fb_text::of("nothing"), FB_APPEND, &mut error) };
    assert!(store.is_null());
    let (kind, message) = taken(error);
    assert_eq!(kind, "store-url");
    assert!(message.contains("nothing"), "{message}");
}

#[test]
fn descriptors_have_children_down_to_events() {
    let mut at = fb_descriptor { bytes: [0xff; 40] };
    let mut error = null_mut();
    for number in [1, 2, 3] {
        let above = at;
        // SAFETY: all pointers are valid.
        assert!(unsafe { fb_descriptor_child(&above, number, &mut at, &mut error) });
    }
    // SAFETY: it is a descriptor.
    assert_eq!(unsafe { fb_descriptor_type(&at) }, FB_EVENT);
    let above = at;
    // SAFETY: all pointers are valid.
    assert!(!unsafe { fb_descriptor_child(&above, 4, &mut at, &mut error) });
    assert_eq!(taken(error).0, "usage");
}
