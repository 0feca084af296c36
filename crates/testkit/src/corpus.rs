//! The corpora that fuzzing begins with, `fuzz/corpus/NAME`.

use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name)
}

/// Compares a corpus with the inputs that it is made of. `FEMTOBARN_MAKE_CORPUS=1` writes them.
///
/// # Panics
///
/// If one of them is another.
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

/// Reads all of a corpus, with what fuzzing has found; says how many inputs there are.
///
/// # Panics
///
/// If `read` does.
pub fn read_corpus(name: &str, read: impl Fn(&[u8])) -> usize {
    let entries = std::fs::read_dir(folder(name)).unwrap();
    let data = entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    data.map(|data| read(&data)).count()
}
