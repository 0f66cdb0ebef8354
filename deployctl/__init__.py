"""Say what should be served; a GPU host serves it, provably, or keeps the last good release."""

__version__ = "0.1.0"
