mod collisions;
mod entities;
mod shapes;
