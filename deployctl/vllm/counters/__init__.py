"""What a server counts, read from its /metrics. Pure."""
