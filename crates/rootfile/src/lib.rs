//! The TFile container: header, keys, directories, streamer info
