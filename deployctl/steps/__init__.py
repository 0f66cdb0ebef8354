"""The kinds of work in a playbook: one file a step, and rooms for what they share."""
