//! The program fb
