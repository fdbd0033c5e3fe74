from __future__ import annotations

from arco.cli import main

if __name__ == "__main__":
    main()
