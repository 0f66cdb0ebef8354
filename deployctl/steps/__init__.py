"""The kinds of work in a playbook: one file a step, and packages for what they share."""
