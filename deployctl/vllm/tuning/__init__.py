"""Which number of draft tokens is fastest: candidates measured one after the other, and judged."""
