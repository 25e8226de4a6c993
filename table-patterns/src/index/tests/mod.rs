mod collisions;
mod entities;
mod typed;
