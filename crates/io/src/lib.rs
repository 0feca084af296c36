//! Byte sources, vector reads and coalescing; knows no file format
