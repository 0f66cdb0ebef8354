"""What builds an environment and proves that it is whole."""
