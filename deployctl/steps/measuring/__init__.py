"""What the gates share: asking what serves, and explaining a bad result."""
