"""The host's own view of its network, and the relay of a front."""
