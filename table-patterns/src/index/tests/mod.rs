mod entities;
mod typed;
