//! ROOT's type codes (`TVirtualStreamerInfo::EReadWrite`).

pub const CHAR: i32 = 1;
pub const SHORT: i32 = 2;
pub const INT: i32 = 3;
pub const LONG: i32 = 4;
pub const FLOAT: i32 = 5;
pub const COUNTER: i32 = 6;
pub const CHAR_STAR: i32 = 7;
pub const DOUBLE: i32 = 8;
pub const DOUBLE32: i32 = 9;
pub const LEGACY_CHAR: i32 = 10;
pub const UCHAR: i32 = 11;
pub const USHORT: i32 = 12;
pub const UINT: i32 = 13;
pub const ULONG: i32 = 14;
pub const BITS: i32 = 15;
pub const LONG64: i32 = 16;
pub const ULONG64: i32 = 17;
pub const BOOL: i32 = 18;
pub const FLOAT16: i32 = 19;
/// Added to the type code of the elements of a fixed-size array.
pub const OFFSET_L: i32 = 20;
/// Added to the type code of the elements behind a pointer.
pub const OFFSET_P: i32 = 40;
pub const OBJECT: i32 = 61;
pub const ANY: i32 = 62;
pub const OBJECT_INLINE: i32 = 63;
pub const OBJECT_POINTER: i32 = 64;
pub const TSTRING: i32 = 65;
pub const TOBJECT: i32 = 66;
pub const TNAMED: i32 = 67;
pub const ANY_INLINE: i32 = 68;
pub const ANY_POINTER: i32 = 69;
