"""`python -m deployctl`: the command line, where no console script is at hand."""

import sys

# `-m` puts the working directory first; it is data, unless this package lies there.
if not sys.flags.safe_path and sys.path[0] != __file__.rpartition("/deployctl/")[0]:
    del sys.path[0]

from deployctl.cli.app import main

main()
