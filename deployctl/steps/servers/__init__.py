"""A server as the profile wants it, followed until it answers."""
