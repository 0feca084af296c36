//! The RNTuple format and its reading engine
