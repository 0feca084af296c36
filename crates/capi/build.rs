//! Linker options of the shared library: a SONAME that changes with the interface, and only the symbols of the C ABI.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // before 1.0, the interface may change with the minor version
    let (major, minor) = (
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
    );
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfemtobarn_c.so.{major}.{minor}");
    // do not export C symbols of other crates, which may be in the process twice
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
