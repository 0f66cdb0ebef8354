"""Gates asked of any server or log, without a run."""
