//! Bearer tokens, searched for by the rules of the WLCG profile: `BEARER_TOKEN`, the file that `BEARER_TOKEN_FILE` names,
//! `bt_u<uid>` in `XDG_RUNTIME_DIR`, and `bt_u<uid>` in the temporary directory.

use std::fmt;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use crate::notice::notice;
use crate::trust::open_own;

/// A token. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token in a text; none if the text is empty.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The token as it is sent.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Searches for a token. Each login calls this, so renewed tokens are used.
    pub fn discover() -> Option<Self> {
        let uid = rustix::process::geteuid().as_raw();
        Self::among(|name| std::env::var(name).ok(), &std::env::temp_dir(), uid)
    }

    fn among(
        variable: impl Fn(&str) -> Option<String>,
        temporary: &Path,
        uid: u32,
    ) -> Option<Self> {
        let given = variable("BEARER_TOKEN").and_then(|text| Self::of(&text));
        // a configured file is the only source
        if given.is_some() {
            return given;
        }
        if let Some(file) = variable("BEARER_TOKEN_FILE").filter(|path| !path.is_empty()) {
            return Self::read(Path::new(&file));
        }
        let name = format!("bt_u{uid}");
        let runtime = variable("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        let runtime = runtime.and_then(|folder| Self::found(&PathBuf::from(folder).join(&name)));
        runtime.or_else(|| Self::found(&temporary.join(&name)))
    }

    /// Reads a token from one of the default files. Any user can create such a file in the temporary directory. With the
    /// token of another user, data would be written in the name of that user.
    fn found(path: &Path) -> Option<Self> {
        let mut file = match open_own(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let path = path.display().to_string();
                notice(&path, &format!("the token of {path} is not used: {error}"));
                return None;
            }
            opened => opened.ok()?,
        };
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Self::of(&text)
    }

    fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        Self::of(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_looked_for_in_the_standard_order() {
        let folder = tempfile::tempdir().unwrap();
        let [named, runtime, temporary] =
            ["named", "runtime", "temporary"].map(|name| folder.path().join(name));
        for place in [&runtime, &temporary] {
            std::fs::create_dir(place).unwrap();
            let name = place.file_name().unwrap().to_string_lossy();
            std::fs::write(place.join("bt_u7"), format!("  of {name}\n")).unwrap();
        }
        std::fs::write(&named, "of a file\n").unwrap();
        let found = |set: &[&str]| {
            let value = |name: &str| match name {
                "BEARER_TOKEN" => "itself ".to_owned(),
                "BEARER_TOKEN_FILE" => named.to_string_lossy().into_owned(),
                _ => runtime.to_string_lossy().into_owned(),
            };
            let token = Token::among(
                |name| set.contains(&name).then(|| value(name)),
                &temporary,
                7,
            );
            token.map(|token| token.secret().to_owned())
        };
        let all = ["BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR"];
        assert_eq!(found(&all).as_deref(), Some("itself"));
        assert_eq!(found(&all[1..]).as_deref(), Some("of a file"));
        assert_eq!(found(&all[2..]).as_deref(), Some("of runtime"));
        assert_eq!(found(&[]).as_deref(), Some("of temporary"));
        // this could be the file of another user
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(temporary.join("bt_u7"), open).unwrap();
        assert_eq!(found(&[]), None);
        std::fs::remove_file(temporary.join("bt_u7")).unwrap();
        assert_eq!(found(&[]), None);
        assert_eq!(format!("{:?}", Token::of("secret")), "Some(Token(…))");
    }
}
