//! One storehouse for collision events: the facade over femtobarn's crates
