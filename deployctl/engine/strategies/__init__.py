"""How a new release takes over from the one that serves."""
