//! Values as strings, for people.

use femtobarn_codec::real::half_to_f32;
use femtobarn_rntuple::schema::DType;

/// Maximum number of bytes of a string that are shown.
const MOST: usize = 60;

/// A number. NaNs are shown with their bits.
pub(super) fn number_text(dtype: DType, bytes: &[u8]) -> Option<String> {
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().ok()?)
        };
    }
    Some(match dtype {
        DType::Bool => (bytes != [0]).to_string(),
        DType::Int8 => number!(i8).to_string(),
        DType::UInt8 => number!(u8).to_string(),
        DType::Int16 => number!(i16).to_string(),
        DType::UInt16 => number!(u16).to_string(),
        DType::Int32 => number!(i32).to_string(),
        DType::UInt32 => number!(u32).to_string(),
        DType::Int64 => number!(i64).to_string(),
        DType::UInt64 => number!(u64).to_string(),
        DType::Float16 => {
            let mut value = [0.0];
            half_to_f32(bytes, &mut value).ok()?;
            let [value] = value;
            real(value.is_nan(), format!("{value:?}"), number!(u16).into())
        }
        DType::Float32 => {
            let value = number!(f32);
            real(value.is_nan(), format!("{value:?}"), number!(u32).into())
        }
        DType::Float64 => {
            let value = number!(f64);
            real(value.is_nan(), format!("{value:?}"), number!(u64))
        }
    })
}

fn real(is_nan: bool, digits: String, bits: u64) -> String {
    if is_nan {
        format!("nan ({bits:#x})")
    } else {
        digits
    }
}

/// The length of a list.
pub(super) fn length_text(n: u64) -> String {
    match n {
        1 => "1 item".to_owned(),
        n => format!("{n} items"),
    }
}

/// The beginning of a string, or of other bytes.
pub(super) fn bytes_text(bytes: &[u8]) -> String {
    let shown = bytes.get(..MOST).unwrap_or(bytes);
    let more = if shown.len() < bytes.len() {
        format!("… ({} B)", bytes.len())
    } else {
        String::new()
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let end = text.char_indices().map(|(at, _)| at).find(|&at| at > MOST);
            let shown = end.and_then(|end| text.get(..end)).unwrap_or(text);
            format!("{shown:?}{more}")
        }
        Err(_) => format!("b\"{}\"{more}", shown.escape_ascii()),
    }
}
