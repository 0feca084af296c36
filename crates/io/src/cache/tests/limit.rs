//! The limit of a cache directory, and what is kept of more than it can hold.

use super::*;

/// Reads a file in pieces, in their order.
fn read_all(source: &dyn ByteSource, content: &[u8], piece: usize) {
    for start in (0..content.len()).step_by(piece) {
        let range = start as u64..(start + piece).min(content.len()) as u64;
        let found = source.read_ranges(std::slice::from_ref(&range)).unwrap();
        assert_eq!(found[0], cut(content, &range));
    }
}

#[test]
fn of_a_loop_of_more_than_the_limit_most_of_what_fits_is_hit() {
    const LIMIT: usize = 16 << 20;
    let content = content(LIMIT / 4 * 5);
    let mut trial = Trial::new();
    trial.limit = "16MiB";
    let mut rates = Vec::new();
    for _ in 0..6 {
        let (source, _) = trial.open(URL, &content);
        read_all(&*source, &content, 16 << 10);
        let used = used(&*source);
        rates.push(used.hits * 100 / (used.hits + used.misses));
        // while segments are replaced, a sum over files may have both an old one and a new one
        drop(source);
        assert!(
            size(&trial.path()) <= LIMIT as u64,
            "{}",
            size(&trial.path())
        );
    }
    println!("hits of each pass in percent: {rates:?}");
    assert_eq!(rates[0], 0);
    // 80 % are possible; by least recent use, 0 % are hit
    assert!(rates[2..].iter().sum::<u64>() / 4 >= 48, "{rates:?}");
}

#[test]
fn new_files_find_room_among_old_ones() {
    let mut trial = Trial::new();
    trial.limit = "8MiB";
    let (old, new) = (content(7 << 20), content(6 << 20));
    for _ in 0..3 {
        read_all(&*trial.open(URL, &old).0, &old, 16 << 10);
    }
    let mut rates = Vec::new();
    for _ in 0..8 {
        let (source, _) = trial.open("root://h//new", &new);
        read_all(&*source, &new, 16 << 10);
        let used = used(&*source);
        rates.push(used.hits * 100 / (used.hits + used.misses));
    }
    println!("hits of each pass in percent: {rates:?}");
    assert!(rates[7] > 50, "{rates:?}");
}

#[test]
fn the_limit_holds_with_many_files_and_large_ranges() {
    let mut trial = Trial::new();
    trial.limit = "4MiB";
    let content = content(3 << 20);
    for number in 0..12 {
        let (source, _) = trial.open(&format!("root://h//{number}"), &content);
        let whole = 0..content.len() as u64;
        assert_eq!(source.read_ranges(&[whole]).unwrap()[0], content);
        read_all(&*source, &content, 300_000);
        drop(source);
        assert!(size(&trial.path()) <= 4 << 20, "{}", size(&trial.path()));
    }
}

#[test]
fn the_limit_holds_with_many_small_files() {
    let mut trial = Trial::new();
    trial.limit = "4MiB";
    let content = content(100);
    for number in 0..400 {
        let (source, _) = trial.open(&format!("root://h//{number}"), &content);
        source.read_ranges(&[0..100]).unwrap();
    }
    // each takes five blocks
    let found = size(&trial.path());
    assert!(found > 2 << 20 && found <= 4 << 20, "{found}");
    let folder = CacheFolder {
        path: trial.path(),
        limit: 4 << 20,
    };
    assert_eq!(folder.status().bytes, found);
    assert!(folder.clear(&|_| true).0 > 2 << 20);
    assert!(size(&trial.path()) < 100_000);
}

#[test]
fn a_cache_that_pinned_files_fill_is_told() {
    let mut trial = Trial::new();
    trial.limit = "1MiB";
    let content = content(3 << 20);
    let folder = CacheFolder {
        path: trial.path(),
        limit: 1 << 20,
    };
    notices_of(&trial.path());
    for number in 0..8 {
        let (source, _) = trial.open(&format!("root://h//{number}"), &content);
        read_all(&*source, &content, 100_000);
        drop(source);
        folder.pin(&|_| true, true).unwrap();
    }
    let told = notices_of(&trial.path());
    assert!(
        told.contains("pinned files and other writers take all of its 1.05 MB"),
        "{told}"
    );
    assert!(size(&trial.path()) <= 1 << 20);
}

#[test]
fn pinned_files_stay() {
    let mut trial = Trial::new();
    trial.limit = "4MiB";
    let content = content(3 << 20);
    read_all(&*trial.open(URL, &content).0, &content, 1 << 17);
    let state = files(&trial.path(), ".data")[0]
        .parent()
        .unwrap()
        .to_owned();
    fs::write(state.join(room::PINNED), "").unwrap();
    read_all(
        &*trial.open("root://h//other", &content).0,
        &content,
        1 << 17,
    );
    let (source, record) = trial.open(URL, &content);
    read_all(&*source, &content, 1 << 17);
    assert!(record.log().is_empty());
    assert!(size(&trial.path()) <= 4 << 20);
}
