"""A real web server on the loopback whose every answer a test can choose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


class Loopback:
    """`server.answers["/x"] = [first, second]`: answers in order, the last one again and again."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.ranges: list[str | None] = []
        """The Range header of each request, in order."""
        self.release = threading.Event()
        """Set at the end: lets answers go that hang on purpose."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def loopback() -> Iterator[Loopback]:
    server = Loopback()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.ranges.append(self.headers["Range"])
            answers = server.answers.get(self.path)
            if not answers:
                self.send_error(404)
                return
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            with suppress(BrokenPipeError, ConnectionResetError):
                answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        http.shutdown()
        thread.join()
        http.server_close()


def whole(
    content: bytes, *, ranges: bool = True, tag: str | None = '"one"', cut: int | None = None
):
    """Answers with `content`, honouring Range and If-Range as a good server does.

    ranges False: always from the start, as a simple server does. cut: closes the connection after
    so many bytes of the answer, although it promised them all.
    """

    def answer(handler: BaseHTTPRequestHandler) -> None:
        start = 0
        asked, condition = handler.headers["Range"], handler.headers["If-Range"]
        if ranges and asked and (condition is None or condition == tag):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                handler.send_response(416)
                handler.send_header("Content-Range", f"bytes */{len(content)}")
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
        handler.send_response(206 if start else 200)
        if start:
            last = len(content) - 1
            handler.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
        if tag:
            handler.send_header("ETag", tag)
        handler.send_header("Content-Type", "application/octet-stream")
        handler.send_header("Content-Length", str(len(content) - start))
        handler.end_headers()
        body = content[start:]
        handler.wfile.write(body if cut is None else body[:cut])

    return answer


def status(code: int, **headers: str):
    """Answers with a status and headers only (underscores become dashes)."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def raw(code: int, body: bytes, **headers: str):
    """Answers with exactly this."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def stalled(server: Loopback, promised: int, sent: bytes):
    """Promises more than it sends, then hangs."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("ETag", '"one"')
        handler.send_header("Content-Length", str(promised))
        handler.end_headers()
        handler.wfile.write(sent)
        handler.wfile.flush()
        server.release.wait(30)

    return answer
