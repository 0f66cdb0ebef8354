"""vLLM's command line, its start, and its failures. Pure."""
