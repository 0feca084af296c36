//! Prices of an object store, from a TOML file.

use femtobarn_io::IoError;
use femtobarn_io::units::{decimals, real};
use femtobarn_rntuple::RNTupleError;
use serde_json::{Value, json};
use toml::Table;

/// The default prices.
const USUAL: &str = include_str!("eu-west-3.toml");

/// What the prices are of.
const TEXTS: [&str; 4] = ["name", "source", "date", "currency"];

/// The prices.
const NUMBERS: [&str; 4] = [
    "put_per_1000",
    "get_per_10000",
    "storage_per_gb_month",
    "transfer_out_per_gb",
];

/// Prices of requests, storage and transfer. GB and TB are powers of 10.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// The store.
    pub name: String,
    /// Where the prices were found.
    pub source: String,
    /// When they were found.
    pub date: String,
    /// The currency, such as "USD".
    pub currency: String,
    /// 1,000 requests that write.
    pub put_per_1000: f64,
    /// 10,000 requests that read.
    pub get_per_10000: f64,
    /// Storage of 1 GB for a month.
    pub storage_per_gb_month: f64,
    /// Transfer of 1 GB to the internet.
    pub transfer_out_per_gb: f64,
}

impl Prices {
    /// Those of Amazon S3 in eu-west-3.
    ///
    /// # Errors
    /// None.
    pub fn usual() -> Result<Self, RNTupleError> {
        Self::parse("eu-west-3.toml", USUAL)
    }

    /// Reads a file of prices.
    ///
    /// # Errors
    /// If it cannot be read, a key is unknown or missing, or a value is invalid.
    pub fn read(path: &str) -> Result<Self, RNTupleError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| IoError::from_open(path, error))?;
        Self::parse(path, &text)
    }

    /// Parses prices; `path` is for errors.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(path: &str, text: &str) -> Result<Self, RNTupleError> {
        let wrong = |what: String| RNTupleError::Usage {
            what: format!("prices of {path}: {what}"),
        };
        let table: Table = text
            .parse()
            .map_err(|error| wrong(format!("invalid TOML: {error}")))?;
        let known = || TEXTS.iter().chain(&NUMBERS).copied();
        if let Some(key) = table.keys().find(|key| !known().any(|name| name == *key)) {
            let all: Vec<&str> = known().collect();
            return Err(wrong(format!(
                "unknown key {key:?}: the keys are {}",
                all.join(", ")
            )));
        }
        let value = |key: &str| {
            let missing = || wrong(format!("the key {key:?} is missing"));
            table.get(key).ok_or_else(missing)
        };
        let text = |key: &str| {
            let found = value(key)?.as_str().map(str::to_owned);
            found.ok_or_else(|| wrong(format!("{key} must be a string")))
        };
        let number = |key: &str| {
            let found = value(key)?;
            let whole = found.as_integer().and_then(|n| u64::try_from(n).ok());
            let number = found.as_float().or(whole.map(real));
            match number.filter(|number| number.is_finite() && *number >= 0.0) {
                Some(number) => Ok(number),
                None => {
                    let found = match found.as_float() {
                        Some(number) => number.to_string(),
                        None => format!("a value of type {}", found.type_str()),
                    };
                    Err(wrong(format!(
                        "{key} must be a number that is not negative, found {found}"
                    )))
                }
            }
        };
        Ok(Self {
            name: text("name")?,
            source: text("source")?,
            date: text("date")?,
            currency: text("currency")?,
            put_per_1000: number("put_per_1000")?,
            get_per_10000: number("get_per_10000")?,
            storage_per_gb_month: number("storage_per_gb_month")?,
            transfer_out_per_gb: number("transfer_out_per_gb")?,
        })
    }

    /// The price of requests.
    #[must_use]
    pub fn requests(&self, puts: u64, gets: u64) -> f64 {
        real(puts) * self.put_per_1000 / 1e3 + real(gets) * self.get_per_10000 / 1e4
    }

    /// The price of storing bytes for a month.
    #[must_use]
    pub fn month(&self, bytes: u64) -> f64 {
        real(bytes) * self.storage_per_gb_month / 1e9
    }

    /// The price of transferring bytes to the internet.
    #[must_use]
    pub fn transfer_out(&self, bytes: u64) -> f64 {
        real(bytes) * self.transfer_out_per_gb / 1e9
    }

    /// A price with three digits and the currency.
    #[must_use]
    pub fn shown(&self, price: f64) -> String {
        let digits = if price >= 0.01 || price == 0.0 {
            format!("{price:.*}", decimals(price))
        } else {
            let shown = format!("{price:.2e}");
            shown.replace("e-", "e−")
        };
        match self.currency.as_str() {
            "USD" => format!("${digits}"),
            other => format!("{digits} {other}"),
        }
    }

    /// The same as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "source": self.source,
            "date": self.date,
            "currency": self.currency,
            "put_per_1000": self.put_per_1000,
            "get_per_10000": self.get_per_10000,
            "storage_per_gb_month": self.storage_per_gb_month,
            "transfer_out_per_gb": self.transfer_out_per_gb,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.005 * b
    }

    #[test]
    fn a_terabyte_costs_what_the_published_prices_say() {
        let prices = Prices::usual().unwrap();
        // 48 kB a page: 20.8 million requests
        let pages = 1_000_000_000_000 / 48_000;
        assert!(near(prices.requests(pages, 0), 110.4));
        assert!(near(prices.requests(0, pages), 8.75));
        // 16 MiB an object: 59,605 requests
        let objects = 1_000_000_000_000 / (16 << 20);
        assert!(near(prices.requests(objects, 0), 0.316));
        assert!(near(prices.requests(0, objects), 0.025));
        assert!(near(prices.month(1_000_000_000_000), 24.0));
        assert!(near(prices.transfer_out(1_000_000_000_000), 90.0));
        assert!(prices.requests(0, 0) == 0.0);
    }

    #[test]
    fn prices_are_shown_with_three_digits() {
        let prices = Prices::usual().unwrap();
        let shown = [110.416, 8.75, 0.3159, 0.0123, 0.0, 5.3e-6].map(|price| prices.shown(price));
        assert_eq!(
            shown,
            ["$110", "$8.75", "$0.32", "$0.01", "$0.00", "$5.30e−6"]
        );
        let francs = Prices {
            currency: "CHF".to_owned(),
            ..prices
        };
        assert_eq!(francs.shown(2.5), "2.50 CHF");
    }

    #[test]
    fn invalid_prices_are_errors_that_name_the_key() {
        let usual = USUAL;
        for (old, new, message) in [
            (
                "get_per_10000 = 0.0042",
                "",
                "the key \"get_per_10000\" is missing",
            ),
            ("currency =", "valuta =", "unknown key \"valuta\""),
            (
                "0.024",
                "-0.024",
                "storage_per_gb_month must be a number that is not negative, found -0.024",
            ),
            ("0.024", "\"free\"", "storage_per_gb_month must be a number"),
            ("0.024", "nan", "storage_per_gb_month must be a number"),
            ("\"USD\"", "1", "currency must be a string"),
            ("= 0.09", "0.09", "invalid TOML"),
        ] {
            let text = usual.replacen(old, new, 1);
            assert_ne!(text, usual);
            let error = Prices::parse("p.toml", &text).unwrap_err().to_string();
            assert!(error.contains("prices of p.toml: "), "{error}");
            assert!(error.contains(message), "{error}");
        }
        let whole = usual.replacen("0.024", "1", 1);
        assert!(
            Prices::parse("p.toml", &whole)
                .unwrap()
                .storage_per_gb_month
                == 1.0
        );
    }
}
