//! AWS profiles in `~/.aws/credentials` and `~/.aws/config`. Pure.

use std::collections::BTreeMap;

/// The parts of a profile that are used, or that are known to be unsupported.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile(BTreeMap<String, String>);

/// Credential sources that require AWS's own programs.
const OF_OTHERS: &[&str] = &[
    "credential_process",
    "role_arn",
    "sso_session",
    "sso_start_url",
];

impl Profile {
    /// Finds a profile in these two files; `None` if neither has it. Keys in `credentials` take
    /// precedence.
    pub fn find(name: &str, credentials: &str, config: &str) -> Option<Self> {
        let long = format!("profile {name}");
        let own = section(credentials, name);
        let more = section(config, &long).or_else(|| match name {
            "default" => section(config, name),
            _ => None,
        });
        if own.is_none() && more.is_none() {
            return None;
        }
        let mut all = more.unwrap_or_default();
        let own = own.unwrap_or_default();
        if own.contains_key("aws_access_key_id") {
            // a session token belongs to one pair of keys
            all.remove("aws_session_token");
        }
        all.extend(own);
        Some(Self(all))
    }

    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// An unsupported credential source in the profile.
    pub fn other_way(&self) -> Option<&'static str> {
        let mut ways = OF_OTHERS.iter().copied();
        ways.find(|way| self.0.contains_key(*way))
    }
}

/// The entries of a section. Indented lines continue the previous one and are not needed.
fn section(text: &str, title: &str) -> Option<BTreeMap<String, String>> {
    let mut found: Option<BTreeMap<String, String>> = None;
    let mut is_inside = false;
    for line in text.lines() {
        if line.starts_with([' ', '\t', '#', ';']) || line.trim().is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split(']').next().unwrap_or_default();
            let words: Vec<&str> = name.split_whitespace().collect();
            is_inside = words.join(" ") == title;
            if is_inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some(found), Some((name, value))) =
            (is_inside, found.as_mut(), line.split_once('='))
        {
            found.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n\n[cern]\naws_access_key_id = C\naws_secret_access_key = D=\naws_session_token = E\n";
    const CONFIG: &str = "[default]\nregion = eu-west-3\ns3 =\n  region = nested\n[profile  cern]\nendpoint_url = https://s3.cern.ch\naws_session_token = other\n[profile sso]\nsso_session = x\n[services own]\nregion = no\n";

    #[test]
    fn both_files_make_a_profile() {
        let cern = Profile::find("cern", CREDENTIALS, CONFIG).unwrap();
        assert_eq!(cern.get("aws_secret_access_key"), Some("D="));
        assert_eq!(cern.get("aws_session_token"), Some("E"));
        assert_eq!(cern.get("endpoint_url"), Some("https://s3.cern.ch"));
        assert_eq!(cern.get("region"), None);
        let usual = Profile::find("default", CREDENTIALS, CONFIG).unwrap();
        assert_eq!(usual.get("region"), Some("eu-west-3"));
        assert_eq!(usual.get("aws_access_key_id"), Some("A"));
    }

    #[test]
    fn a_token_belongs_to_its_keys() {
        let config = "[profile p]\naws_session_token = old\n";
        let profile = Profile::find("p", "[p]\naws_access_key_id = A\n", config).unwrap();
        assert_eq!(profile.get("aws_session_token"), None);
    }

    #[test]
    fn profiles_that_are_not_there_or_need_another_program_are_known() {
        assert!(Profile::find("none", CREDENTIALS, CONFIG).is_none());
        // in the configuration file, only the default profile has no `profile` before its name
        assert!(Profile::find("own", "", "[own]\nregion = x\n").is_none());
        let sso = Profile::find("sso", CREDENTIALS, CONFIG).unwrap();
        assert_eq!(sso.other_way(), Some("sso_session"));
    }
}
