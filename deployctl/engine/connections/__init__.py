"""Connections to the hosts of a profile, and work on all of them at once."""
