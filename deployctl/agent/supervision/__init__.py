"""Jobs and servers under supervision."""
