"""From counters and log lines to a verdict with its uncertainty. Pure."""
