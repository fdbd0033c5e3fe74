from __future__ import annotations

from arco.cli.app import main

if __name__ == "__main__":
    main()
