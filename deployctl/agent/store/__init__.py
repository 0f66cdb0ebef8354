"""What deployctl keeps on this host."""
