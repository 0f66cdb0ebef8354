"""What one host makes and others get: who needs it, who produces it, how it is installed."""
