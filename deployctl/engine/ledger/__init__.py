"""What hosts keep of runs and releases."""
