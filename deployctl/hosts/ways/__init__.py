"""The ways to a host: a file for each key of a host file that says how it is reached.

Each has a function `way`, of the host's settings and of how to reach another host (its node), which
gives a `Transport`; one that has a better way for many bytes has `bulk_way` as well.
"""
