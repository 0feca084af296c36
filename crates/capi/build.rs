//! How the shared library is linked: under a name that changes with its interface, and with the C ABI's symbols alone.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // before 1.0, another minor version is another interface
    let (major, minor) = (
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
    );
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfemtobarn_c.so.{major}.{minor}");
    // what crates export for C themselves is nobody's else, and may be in the process twice
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
