//! Where features meet, in tables: every path on every layout, and every program version on every other's rows. A cell is
//! right, or refused before anything is written.

mod layouts;
mod versions;
