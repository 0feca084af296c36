//! The extension module femtobarn._core
