//! ROOT compression records, checksums and RNTuple element encodings: bytes in, bytes out
