"""One producer, many receivers: who makes what for whom in a run, and how it gets there."""
