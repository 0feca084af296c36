//! Members of histogram classes.

/// Dimensions and kind of a histogram class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub dimensions: usize,
    pub profile: bool,
}

/// Statistics sums for each dimension, in ROOT's order (`TH1::GetStats`).
const SUMS: [&str; 11] = [
    "fTsumw", "fTsumw2", "fTsumwx", "fTsumwx2", "fTsumwy", "fTsumwy2", "fTsumwxy", "fTsumwz",
    "fTsumwz2", "fTsumwxz", "fTsumwyz",
];

impl Shape {
    /// The shape of a class, if it is a histogram class.
    pub fn of(class: &str) -> Option<Self> {
        let (dimensions, profile) = match class {
            "TProfile" => (1, true),
            "TProfile2D" => (2, true),
            "TProfile3D" => (3, true),
            _ => {
                let mut rest = class.strip_prefix("TH")?.chars();
                let dimensions = rest.next()?.to_digit(10)?;
                let letter = rest.next()?;
                let known = matches!(letter, 'C' | 'S' | 'I' | 'L' | 'F' | 'D');
                if !known || rest.next().is_some() {
                    return None;
                }
                (dimensions as usize, false)
            }
        };
        (1..=3).contains(&dimensions).then_some(Self {
            dimensions,
            profile,
        })
    }

    /// Names of the statistics sums.
    pub fn statistics(self) -> Vec<&'static str> {
        let n = match self.dimensions {
            1 => 4,
            2 => 7,
            _ => 11,
        };
        let mut names: Vec<&str> = SUMS.into_iter().take(n).collect();
        if self.profile {
            names.extend(match self.dimensions {
                1 => ["fTsumwy", "fTsumwy2"],
                2 => ["fTsumwz", "fTsumwz2"],
                _ => ["fTsumwt", "fTsumwt2"],
            });
        }
        names
    }

    /// Arrays with a number per bin besides the contents, and whether they always exist.
    pub fn arrays(self) -> Vec<(&'static str, bool)> {
        match self.profile {
            false => vec![(SUMW2, false)],
            true => vec![(SUMW2, true), (BIN_ENTRIES, true), (BIN_SUMW2, false)],
        }
    }

    /// Number of values per entry, without its weight.
    pub fn values(self) -> usize {
        self.dimensions + usize::from(self.profile)
    }
}

/// Sums of squared weights; for profiles, of squared values.
pub(crate) const SUMW2: &str = "fSumw2.fArray";
/// Sums of the weights of a profile.
pub(crate) const BIN_ENTRIES: &str = "fBinEntries.fArray";
/// Sums of squared weights of a profile.
pub(crate) const BIN_SUMW2: &str = "fBinSumw2.fArray";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_histograms_are_known() {
        for dimensions in ["1", "2", "3"] {
            for letter in ["C", "S", "I", "L", "F", "D"] {
                assert!(Shape::of(&format!("TH{dimensions}{letter}")).is_some());
            }
        }
        for other in [
            "TH1",
            "TH1K",
            "TH4D",
            "TH2Poly",
            "THnD",
            "THStack",
            "TTree",
            "TProfile4D",
            "",
        ] {
            assert_eq!(Shape::of(other), None, "{other}");
        }
        assert_eq!(Shape::of("TProfile2D").unwrap().statistics().len(), 9);
    }
}
