//! How the extension module is linked: with nothing visible but what Python calls.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // symbols that crates export for C are not used by others, and may be in the process twice
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
