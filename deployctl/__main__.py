"""`python -m deployctl`: the command line, where no console script is at hand."""

from deployctl.cli.app import main

main()
