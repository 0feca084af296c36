//! Options as JSON objects.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ntuple::{Failure, usage};

/// The value of an option, with its name.
pub struct Given {
    name: String,
    value: Value,
}

impl Given {
    /// All options of a JSON object that are not null. An empty string has none.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object, or an option is not known.
    pub fn all(json: &str, known: &[&str]) -> Result<Vec<(String, Self)>, Failure> {
        if json.trim().is_empty() {
            return Ok(Vec::new());
        }
        let parsed = serde_json::from_str(json)
            .map_err(|error| usage(format!("the options are not valid JSON: {error}")))?;
        let Value::Object(given) = parsed else {
            return Err(usage("the options must be a JSON object".into()));
        };
        if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
            let near = femtobarn::io::did_you_mean(name, known.iter().copied());
            return Err(usage(format!("unknown option {name:?}{near}")));
        }
        let given = given.into_iter().filter(|(_, value)| !value.is_null());
        Ok(given
            .map(|(name, value)| (name.clone(), Self { name, value }))
            .collect())
    }

    fn wrong(&self, expected: &str) -> Failure {
        let Self { name, value } = self;
        usage(format!(
            "invalid option {name:?}: {value}; expected {expected}"
        ))
    }

    /// A boolean.
    pub fn flag(&self) -> Result<bool, Failure> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wrong("true or false"))
    }

    /// A string.
    pub fn text(&self) -> Result<&str, Failure> {
        self.value.as_str().ok_or_else(|| self.wrong("a string"))
    }

    /// A number, or a size such as "64 MiB".
    pub fn size(&self) -> Result<u64, Failure> {
        let text = || femtobarn::io::units::parse_bytes(self.value.as_str()?);
        let size = self.value.as_u64().or_else(text);
        size.ok_or_else(|| self.wrong("a size"))
    }

    /// A number of things in memory.
    pub fn count(&self) -> Result<usize, Failure> {
        let count = usize::try_from(self.size()?);
        count.map_err(|_| self.wrong("a smaller number"))
    }

    /// Settings for access to servers.
    pub fn settings(&self) -> Result<BTreeMap<String, String>, Failure> {
        let settings = self.value.as_object();
        let settings = settings.ok_or_else(|| self.wrong("an object"))?.iter();
        let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
        Ok(settings
            .map(|(name, value)| (name.clone(), text(value)))
            .collect())
    }
}
