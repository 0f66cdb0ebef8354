"""What runs on a host: the standard library alone, Python 3.9 or newer.

The package is zipped, sent once per version, kept by its hash under the host's root directory and
spoken to in JSON lines (`main`). It imports nothing of the controller's.
"""
