"""A profile from what people already have: a command line, a unit, a Compose file, a recipe."""
