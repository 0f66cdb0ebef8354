"""How vLLM is built, when a build is whole, and why one failed. Pure."""
