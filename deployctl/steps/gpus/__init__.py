"""Who holds the GPUs, whose they are, and whether a GPU reaches the host whole."""
