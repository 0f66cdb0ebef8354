"""The wire: what a controller and an agent say to each other, as types that both sides share."""
