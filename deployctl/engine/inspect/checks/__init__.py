"""What `doctor` checks before a deployment: one file a subject, in the table of `registry`."""
