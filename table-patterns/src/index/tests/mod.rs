mod collisions;
mod entities;
mod shapes;
mod upkeep;
