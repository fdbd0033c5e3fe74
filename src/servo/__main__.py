"""`python -m servo`: the `servo` command of this Python, wherever its script is.

The command is installed beside this package and found by its entry point: what users import
does not depend on what runs it.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points


def main() -> None:
    scripts = entry_points(group="console_scripts", name="servo")
    if not scripts:
        sys.exit("the servo command is not installed for this Python; run: pip install arco")
    next(iter(scripts)).load()()


if __name__ == "__main__":
    main()
