"""Look without touching."""
