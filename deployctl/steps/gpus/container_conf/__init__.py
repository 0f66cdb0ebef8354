"""A container's configuration against the GPU devices of its node."""
