"""The web page: its files, which `make ui` builds into `arco/ui`.

The page has a policy that runs only its own scripts. Files whose names have a digest never change;
`index.html` names them, and is looked at again each time. The page answers at `/` and below `/w/`,
and nowhere else: a path of the API that does not exist is never answered with a page.
"""

from __future__ import annotations

import gzip
import mimetypes
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from arco.api.authentication import Credentials as Headers
from arco.api.exchange import Answer
from arco.errors import NotFound

FOLDER: Final = Path(str(files("arco"))) / "ui"
IMMUTABLE: Final = "public, max-age=31536000, immutable"
_TYPES: Final = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}


class WebPage:
    def __init__(self, folder: Path = FOLDER, sources: Sequence[str] = ()) -> None:
        """`sources`: origins besides the page's own from which it may read (signed URLs)."""
        self._policy = policy(sources)
        self._files: Mapping[str, Path] = _files(folder)

    @property
    def is_built(self) -> bool:
        return "index.html" in self._files

    def index(self, headers: Headers) -> Answer:
        if not self.is_built:
            raise NotFound("this server has no web page", hint="build it with `make ui`")
        sent = {
            "Cache-Control": "no-cache",
            "Content-Security-Policy": self._policy,
            "Cross-Origin-Opener-Policy": "same-origin",
            "X-Frame-Options": "DENY",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        }
        return self._answer("index.html", headers, sent)

    def static(self, path: str, headers: Headers) -> Answer:
        """A file that the page names: of `static/`, or an extension of DuckDB, of `duckdb/`."""
        if not path.startswith(("static/", "duckdb/")) or path not in self._files:
            raise NotFound("there is no such file")
        # A worker has a policy of its own: that of its script.
        sent = {"Cache-Control": IMMUTABLE, "Content-Security-Policy": self._policy}
        return self._answer(path, headers, sent)

    def _answer(self, name: str, headers: Headers, sent: Mapping[str, str]) -> Answer:
        file = self._files[name]
        body = file.read_bytes()
        extra = {"Vary": "Accept-Encoding"}
        if file.suffix == ".gz":
            if "gzip" in (headers.get("accept-encoding") or ""):
                extra["Content-Encoding"] = "gzip"
            else:
                body = gzip.decompress(body)
        return Answer(200, body, _media_type(name), {**sent, **extra})


def policy(sources: Sequence[str]) -> str:
    connect = " ".join(["'self'", *sources])
    rules = {
        "default-src": "'none'",
        "script-src": "'self' 'wasm-unsafe-eval'",
        "style-src": "'self'",
        "style-src-attr": "'unsafe-inline'",  # the editor of SQL sets its tab size so
        "font-src": "'self'",
        "img-src": "'self'",
        "connect-src": connect,
        "worker-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _files(folder: Path) -> dict[str, Path]:
    """Files by the names that a browser asks for."""
    if not folder.is_dir():
        return {}
    return {
        file.relative_to(folder).as_posix().removesuffix(".gz"): file
        for file in folder.rglob("*")
        if file.is_file()
    }


def _media_type(name: str) -> str:
    suffix = Path(name).suffix
    return _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
