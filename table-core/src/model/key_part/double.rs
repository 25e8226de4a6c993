use super::{KeyPart, KeyPartType, KeyText, KeyWriter, ReverseKeyPart};
use crate::model::ValueError;

/// Number of hexadecimal digits of 64 bits.
const DIGITS: usize = 16;
const SIGN: u64 = 1 << 63;

/// Maps a number to bits that sort like the numbers. Returns `None` for NaN, which has no order. `-0.0`
/// equals `0.0` and has the same bits.
fn ordered(value: f64) -> Option<u64> {
    // Adding zero converts negative zero to zero.
    let bits = (value + 0.0).to_bits();
    // IEEE 754 numbers of one sign are ordered like their bits. Setting the sign bit puts positive numbers above negative
    // ones; inverting all bits reverses the order of the negative ones.
    (!value.is_nan()).then_some(if bits & SIGN == 0 { bits | SIGN } else { !bits })
}

fn from_ordered(ordered: u64) -> f64 {
    f64::from_bits(if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN })
}

fn write(value: f64, out: &mut KeyWriter, turn: impl Fn(u64) -> u64) -> Result<(), ValueError> {
    let bits = ordered(value).ok_or_else(|| ValueError::new("a number", value))?;
    out.text(&format!("{:0DIGITS$X}", turn(bits)));
    Ok(())
}

fn read(text: &KeyText<'_>, turn: impl Fn(u64) -> u64) -> Result<f64, ValueError> {
    let digits = text.as_str();
    let is_canonical = |b: u8| matches!(b, b'0'..=b'9' | b'A'..=b'F');
    let bits = u64::from_str_radix(digits, 16).ok().map(turn);
    let found = bits.filter(|_| digits.len() == DIGITS && digits.bytes().all(is_canonical));
    let value = found.map(|bits| (bits, from_ordered(bits)));
    // NaN and negative zero are never written, so they are refused.
    let value = value.filter(|(bits, value)| ordered(*value) == Some(*bits)).map(|(_, value)| value);
    value.ok_or_else(|| text.expected("the 16 hexadecimal digits of a number"))
}

/// The 64 bits of the number as 16 upper-case hexadecimal digits. The sign bit is flipped for numbers from
/// zero up, and all bits for negative numbers, so that texts sort like the numbers. NaN is refused.
impl KeyPart for f64 {
    const WIDTH: Option<usize> = Some(DIGITS);
    const PART_TYPE: KeyPartType = KeyPartType::F64;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        write(*self, out, |bits| bits)
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        read(text, |bits| bits)
    }
}

impl ReverseKeyPart for f64 {
    fn encode_reversed(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        write(*self, out, |bits| !bits)
    }

    fn decode_reversed(text: &KeyText<'_>) -> Result<Self, ValueError> {
        read(text, |bits| !bits)
    }
}
