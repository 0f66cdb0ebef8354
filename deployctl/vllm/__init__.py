"""What we know of vLLM. Nothing here knows a host, an SSH connection or a profile."""
