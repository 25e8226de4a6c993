use std::str::FromStr;

use super::Filter;
use crate::store::{Error, Result};

impl FromStr for Filter {
    type Err = Error;

    fn from_str(_text: &str) -> Result<Self> {
        Err(Error::invalid_filter(0, "not yet"))
    }
}
