"""Profiles, hosts and playbooks: read with places, merged with origins, validated once."""
