use std::sync::{Arc, Mutex};

use super::*;
use crate::conformance;

#[test]
fn it_does_what_backends_promise() {
    let folders = Mutex::new(Vec::new());
    conformance::all(&|| {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), Mode::Append).unwrap();
        folders.lock().unwrap().push(folder);
        store as Arc<dyn Backend>
    });
}
