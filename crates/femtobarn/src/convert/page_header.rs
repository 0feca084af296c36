//! Checks the sizes in headers of Parquet pages before the parser allocates memory for them.

/// Uncompressed bytes and values that are allowed for a page of any stored size.
const BYTES_OF_ANY_PAGE: u64 = 256 << 20;
const VALUES_OF_ANY_PAGE: u64 = 1 << 24;

/// For larger pages: maximum uncompressed bytes per stored byte, and values per uncompressed byte, as in runs of equal
/// values.
const RATIO: u64 = 1 << 10;

/// Field headers of Thrift's compact protocol as all writers write them: the next field ID, and a 32-bit integer or a
/// struct.
const INTEGER: u8 = 0x15;
const STRUCTURE: u8 = 0x0c;

/// Checks that the sizes in a page header are possible in a file of a given size. A header begins with kind,
/// uncompressed and compressed size, an optional checksum, and a struct that begins with the number of values. The
/// parser handles all other headers.
///
/// # Errors
/// If they are not possible.
pub(super) fn check(mut header: &[u8], n_bytes: u64) -> Result<(), String> {
    let header = &mut header;
    let (Some(_), Some(full), Some(stored)) = (integer(header), integer(header), integer(header))
    else {
        return Ok(());
    };
    let _checksum = integer(header);
    let own = header.split_off_first();
    if own.is_none_or(|own| own & 0x0f != STRUCTURE) {
        return Ok(());
    }
    // some kinds of pages have no values
    let values = integer(header).unwrap_or(0);
    if stored > n_bytes {
        return Err(format!(
            "a page claims {stored} bytes of a file of {n_bytes}"
        ));
    }
    let most = stored.saturating_mul(RATIO).max(BYTES_OF_ANY_PAGE);
    if full > most {
        return Err(format!(
            "a page of {stored} bytes claims {full} uncompressed bytes, but at most {most} are possible"
        ));
    }
    let most = full.saturating_mul(RATIO).max(VALUES_OF_ANY_PAGE);
    if values > most {
        return Err(format!(
            "a page of {full} uncompressed bytes claims {values} values, but at most {most} are possible"
        ));
    }
    Ok(())
}

/// Parses the next field, if it is a non-negative integer: 7 bits per byte, zigzag encoded.
fn integer(header: &mut &[u8]) -> Option<u64> {
    let (&INTEGER, mut rest) = header.split_first()? else {
        return None;
    };
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = *rest.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            *header = rest;
            return (number & 1 == 0).then_some(number >> 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u64) -> Vec<u8> {
        let mut number = number << 1;
        let mut out = vec![INTEGER];
        while number > 0x7f {
            out.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        out.push(number.to_le_bytes()[0]);
        out
    }

    fn header(full: u64, stored: u64, values: u64) -> Vec<u8> {
        let sizes = [0, full, stored].map(field).concat();
        [sizes, vec![0x2c], field(values)].concat()
    }

    #[test]
    fn pages_cannot_claim_what_they_do_not_have() {
        assert_eq!(check(&header(8000, 100, 1000), 200), Ok(()));
        for (wrong, what) in [
            (header(8000, 201, 1000), "of a file of 200"),
            (header(1 << 30, 100, 1000), "uncompressed"),
            (header(8000, 100, 1 << 30), "values"),
        ] {
            let error = check(&wrong, 200).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        assert_eq!(check(&[0x15; 3], 200), Ok(()), "no header");
    }
}
