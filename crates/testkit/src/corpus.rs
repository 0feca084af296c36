//! The seed corpora of fuzzing, `fuzz/corpus/NAME`.

use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name)
}

/// Compares a corpus with its expected seeds. `FEMTOBARN_MAKE_CORPUS=1` writes them.
///
/// # Panics
///
/// If a seed is missing or differs.
pub fn corpus_has(name: &str, inputs: &[(String, Vec<u8>)]) {
    let is_made = std::env::var_os("FEMTOBARN_MAKE_CORPUS").is_some();
    let folder = folder(name);
    for (name, data) in inputs {
        let path = folder.join(name);
        if is_made {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, data).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == *data, "{name}");
    }
}

/// Reads a whole corpus, including inputs that fuzzing found; returns their number.
///
/// # Panics
///
/// If `read` does.
pub fn read_corpus(name: &str, read: impl Fn(&[u8])) -> usize {
    let entries = std::fs::read_dir(folder(name)).unwrap();
    let data = entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    data.map(|data| read(&data)).count()
}
