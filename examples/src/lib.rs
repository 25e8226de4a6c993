//! Runnable examples, all in `examples/`: the flights flagship, and one program per feature area.
//! `README.md` lists them.
