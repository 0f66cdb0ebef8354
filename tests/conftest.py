"""Fixtures for every test: real hosts to deploy to."""

from tests.hosts.lab.fixtures import sshd

__all__ = ["sshd"]
