//! Speed of the decoders.

fn main() {}
