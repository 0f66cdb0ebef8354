"""Where models lie, and how they come to a host."""
