//! Checks that `include/femtobarn.h` is generated from this crate. With `FEMTOBARN_UPDATE_HEADER=1` this writes it.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = crate_dir.join("../../include/femtobarn.h");
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_crate(crate_dir)
        .generate()
        .unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    if std::env::var_os("FEMTOBARN_UPDATE_HEADER").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let there = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        there.as_bytes() == made,
        "include/femtobarn.h does not match crates/capi: run make update-header"
    );
}
