"""What fake-gcs-server lacks of GCS's XML API, which obstore speaks.

Uploads, deletions and listings are translated to the JSON API, which the server
has; reads pass through. The condition of a create stays the server's to decide:
it becomes `ifGenerationMatch` of a multipart upload (with `uploadType=media`
this version of the server ignores it).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from tests.kit.http_servers import QuietHandler, on_free_port, serving_http

_BOUNDARY = "arco-gcs-front"


@contextlib.contextmanager
def gcs_front(server: str) -> Iterator[str]:
    """The address of a front to the fake-gcs-server at `server`."""
    parts = urlsplit(server)
    assert parts.hostname and parts.port

    class Handler(_Handler):
        upstream = (str(parts.hostname), int(parts.port or 0))

    front = on_free_port(Handler)
    with serving_http(front):
        yield front.address


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: 40 ms otherwise
    upstream: tuple[str, int]
    uploads: ClassVar[dict[str, dict[int, bytes]]] = {}
    """Parts of uploads under way, by upload and number."""

    def do_GET(self) -> None:
        bucket, name, query = self._target()
        if name:
            self._pass_on(bucket, name)
        else:
            self._list(bucket, query)

    def do_HEAD(self) -> None:
        bucket, name, _ = self._target()
        self._pass_on(bucket, name)

    def do_POST(self) -> None:
        """Begin an upload in parts, or end it."""
        bucket, name, query = self._target()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "uploads" in query:
            upload = secrets.token_hex(8)
            self.uploads[upload] = {}
            begun = f"<InitiateMultipartUploadResult><Bucket>{escape(bucket)}</Bucket>"
            begun += f"<Key>{escape(name)}</Key><UploadId>{upload}</UploadId>"
            begun += "</InitiateMultipartUploadResult>"
            return self._answer(200, {"Content-Type": "application/xml"}, begun.encode())
        parts = self.uploads.pop(query.get("uploadId", ""), None)
        if parts is None:
            return self._answer(404, {}, b"")
        status, headers = self._upload(bucket, name, b"".join(parts[n] for n in sorted(parts)))
        ended = f"<CompleteMultipartUploadResult><ETag>{escape(headers.get('ETag', ''))}</ETag>"
        ended += "</CompleteMultipartUploadResult>"
        return self._answer(status, {**headers, "Content-Type": "application/xml"}, ended.encode())

    def do_PUT(self) -> None:
        bucket, name, query = self._target()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "uploadId" in query:
            self.uploads[query["uploadId"]][int(query["partNumber"])] = body
            return self._answer(200, {"ETag": f'"{query["partNumber"]}"'}, b"")
        if (source := self.headers.get("x-goog-copy-source")) is not None:
            return self._copy(source, bucket, name)
        return self._answer(*self._upload(bucket, name, body), b"")

    def _upload(self, bucket: str, name: str, body: bytes) -> tuple[int, dict[str, str]]:
        query = {"uploadType": "multipart", "name": name}
        if (generation := self.headers.get("x-goog-if-generation-match")) is not None:
            query["ifGenerationMatch"] = generation
        status, _, answer = self._ask(
            "POST",
            f"/upload/storage/v1/b/{quote(bucket)}/o?{urlencode(query)}",
            _multipart(name, body),
            {"Content-Type": f"multipart/related; boundary={_BOUNDARY}"},
        )
        headers = {}
        if status == 200:
            made = json.loads(answer)
            headers = {"ETag": made["etag"], "x-goog-generation": made["generation"]}
        return status, headers

    def _copy(self, source: str, bucket: str, name: str) -> None:
        origin, _, object_ = unquote(source).lstrip("/").partition("/")
        path = (
            f"/storage/v1/b/{quote(origin)}/o/{quote(object_, safe='')}"
            f"/rewriteTo/b/{quote(bucket)}/o/{quote(name, safe='')}"
        )
        status, _, answer = self._ask("POST", path)
        self._answer(status, {}, b"" if status == 200 else answer)

    def do_DELETE(self) -> None:
        bucket, name, query = self._target()
        if "uploadId" in query:
            self.uploads.pop(query["uploadId"], None)
            return self._answer(204, {}, b"")
        path = f"/storage/v1/b/{quote(bucket)}/o/{quote(name, safe='')}"
        status, _, answer = self._ask("DELETE", path)
        return self._answer(204 if status == 200 else status, {}, b"" if status == 200 else answer)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        renamed = {
            "prefix": query.get("prefix"),
            "delimiter": query.get("delimiter"),
            "pageToken": query.get("continuation-token"),
            "maxResults": query.get("max-keys"),
            "startOffset": query.get("start-after"),
        }
        given = urlencode({name: value for name, value in renamed.items() if value})
        status, _, answer = self._ask("GET", f"/storage/v1/b/{quote(bucket)}/o?{given}")
        if status != 200:
            return self._answer(status, {}, answer)
        found = json.loads(answer)
        # startOffset includes the name itself, start-after does not.
        items = [it for it in found.get("items", []) if it["name"] != query.get("start-after")]
        body = _list_xml(bucket, items, found.get("prefixes", []), found.get("nextPageToken"))
        return self._answer(200, {"Content-Type": "application/xml"}, body)

    def _pass_on(self, bucket: str, name: str) -> None:
        wanted = {"Range": self.headers["Range"]} if "Range" in self.headers else {}
        path = f"/{quote(bucket)}/{quote(name)}"
        status, headers, body = self._ask(self.command, path, headers=wanted)
        kept = ("Content-Range", "Content-Type", "ETag", "Last-Modified", "x-goog-generation")
        passed = {key: value for key in kept if (value := headers.get(key))}
        size = headers.get("Content-Length") if self.command == "HEAD" else None
        self._answer(status, passed, body, size)

    def _target(self) -> tuple[str, str, dict[str, str]]:
        parts = urlsplit(self.path)
        bucket, _, name = parts.path.lstrip("/").partition("/")
        asked = parse_qs(parts.query, keep_blank_values=True)
        query = {key: values[0] for key, values in asked.items()}
        return unquote(bucket), unquote(name), query

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection(*self.upstream, timeout=30)
        try:
            connection.request(method, path, body or None, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def _answer(
        self, status: int, headers: dict[str, str], body: bytes, size: str | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", size or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _multipart(name: str, body: bytes) -> bytes:
    about = json.dumps({"name": name, "contentType": "application/octet-stream"})
    return b"".join(
        [
            f"--{_BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{about}\r\n".encode(),
            f"--{_BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\r\n".encode(),
            body,
            f"\r\n--{_BOUNDARY}--\r\n".encode(),
        ]
    )


def _list_xml(
    bucket: str, items: list[dict[str, str]], prefixes: list[str], token: str | None
) -> bytes:
    contents = "".join(
        f"<Contents><Key>{escape(item['name'])}</Key><Size>{item['size']}</Size>"
        f"<LastModified>{item['updated']}</LastModified><ETag>{escape(item['etag'])}</ETag>"
        "</Contents>"
        for item in items
    )
    common = "".join(
        f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>" for prefix in prefixes
    )
    more = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
    return (
        f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult><Name>{escape(bucket)}</Name>"
        f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{contents}{common}{more}"
        "</ListBucketResult>"
    ).encode()
