mod collisions;
mod entities;
mod shapes;
mod states;
mod upkeep;
