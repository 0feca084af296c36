//! Real files of experiments, if available in `../shared/data` beside the checkout.

use std::path::{Path, PathBuf};

use femtobarn_io::LocalSource;

use crate::RootFile;

fn files() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folders = ["rntuple", "ttree"].map(|folder| std::fs::read_dir(data.join(folder)));
    let paths = folders
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "root")
        })
        .collect()
}

#[test]
fn everything_in_real_files_can_be_read() {
    let files = files();
    if files.is_empty() {
        eprintln!("SKIPPED: there are no files in ../shared/data beside the checkout");
        return;
    }
    for path in files {
        let file = RootFile::open(LocalSource::open(&path).unwrap()).unwrap();
        let entries = file.walk().unwrap();
        assert!(!entries.is_empty(), "{}", path.display());
        for entry in entries {
            let object = file.read_object(&entry.key).unwrap();
            assert_eq!(object.len(), usize::try_from(entry.key.object_len).unwrap());
            let found = file
                .find(&format!("{};{}", entry.path, entry.key.cycle))
                .unwrap();
            assert_eq!(found, entry.key, "{} in {}", entry.path, path.display());
        }
        let infos = file.streamer_infos().unwrap();
        assert!(!infos.is_empty(), "{}", path.display());
        assert!(
            !file.free_segments().unwrap().is_empty(),
            "{}",
            path.display()
        );
    }
}
