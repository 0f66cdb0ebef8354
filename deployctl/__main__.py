"""`python -m deployctl`."""

from deployctl.cli.app import main

main()
