use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

use super::{KeyPart, KeyPartType, KeyText, KeyWriter, ReverseKeyPart};
use crate::model::{Ticks, ValueError};

/// Number of digits of `DateTime.MaxValue.Ticks`.
const TICKS_WIDTH: usize = 19;

impl KeyPart for Ticks {
    const WIDTH: Option<usize> = Some(TICKS_WIDTH);
    const PART_TYPE: KeyPartType = KeyPartType::Time;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.number(self.get().unsigned_abs(), TICKS_WIDTH)
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        let ticks = i64::try_from(text.number(TICKS_WIDTH)?).ok();
        ticks.and_then(Self::new).ok_or_else(|| text.expected("ticks up to the year 9999"))
    }
}

/// `String.Format("{0:D19}", DateTime.MaxValue.Ticks - ticks)`: the key of the log tail pattern.
impl ReverseKeyPart for Ticks {
    fn encode_reversed(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.number(self.inverted().unsigned_abs(), TICKS_WIDTH)
    }

    fn decode_reversed(text: &KeyText<'_>) -> Result<Self, ValueError> {
        let inverted = i64::try_from(text.number(TICKS_WIDTH)?).ok();
        inverted
            .and_then(Self::from_inverted)
            .ok_or_else(|| text.expected("inverted ticks up to the year 9999"))
    }
}

macro_rules! as_ticks {
    ($($time:ty, $utc:ident, $back:ident;)*) => {$(
        /// Like [`Ticks`]. Precision finer than 100 ns is dropped.
        impl KeyPart for $time {
            const WIDTH: Option<usize> = Ticks::WIDTH;
            const PART_TYPE: KeyPartType = KeyPartType::Time;

            fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
                Ticks::checked(self.$utc())?.encode(out)
            }

            fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
                Ticks::decode(text).map(Ticks::$back)
            }
        }

        impl ReverseKeyPart for $time {
            fn encode_reversed(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
                Ticks::checked(self.$utc())?.encode_reversed(out)
            }

            fn decode_reversed(text: &KeyText<'_>) -> Result<Self, ValueError> {
                Ticks::decode_reversed(text).map(Ticks::$back)
            }
        }
    )*};
}

as_ticks! {
    DateTime<Utc>, to_utc, to_datetime;
    NaiveDateTime, and_utc, to_naive;
}

/// `YYYY-MM-DD`, years 0 to 9999.
impl KeyPart for NaiveDate {
    const WIDTH: Option<usize> = Some(10);
    const PART_TYPE: KeyPartType = KeyPartType::Day;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        let text = self.to_string();
        // Other years print a sign or more digits (`+10000-01-01`), and their texts would not sort like the days.
        if text.len() != 10 {
            return Err(ValueError::new("a year from 0 to 9999", text));
        }
        out.text(&text);
        Ok(())
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        let date = text.as_str().parse::<Self>().ok();
        date.filter(|d| d.to_string() == text.as_str()).ok_or_else(|| text.expected("a date as YYYY-MM-DD"))
    }
}
