"""Files from one host to others: described in pieces with checksums, sent, received, resumed."""
