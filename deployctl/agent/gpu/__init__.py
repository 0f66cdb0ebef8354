"""GPUs: their state, their holders, their device files."""
