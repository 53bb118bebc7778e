"""The loopback server behind the page: serves the page, one artifact and scripts, and trades frames with it.

It listens on 127.0.0.1 at a random port. Every path begins with a token made anew for each run, and the `Host`
header must be ours, so neither another user's program nor a web page in the user's own browser can talk to it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from bisect_bot.harness.frames import Frame, FrameError, decode, encode

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

WEB = Path(__file__).resolve().parent / "web"
MAX_BODY = 2**31
SECRET = "Bisect-Bot-Secret"
"""The header with which a page proves that it is our page speaking, and no script of a user's in it."""
# Not from the system's tables: on Windows the registry may say that .js is text/plain.
MIME_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
}
# COOP and COEP make the page crossOriginIsolated, which wasm threads need.
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # A script of a user's reaches no other host from the page or a worker. Builds start workers from blobs, load their
    # glue from data, and compile code that they put together. Navigation is not covered: configs/browsers.toml is.
    "Content-Security-Policy": (
        "default-src 'self' blob: data: 'unsafe-inline' 'unsafe-eval'; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
}


@dataclass(slots=True)
class Message:
    """A frame from the page that waits for its answer."""

    frame: Frame
    _answer: asyncio.Future[bytes]

    def answer(self, header: dict[str, object], blobs: tuple[bytes, ...] = ()) -> None:
        """Sends the answer; nothing happens when the page has gone meanwhile."""
        if not self._answer.done():
            self._answer.set_result(encode(header, blobs))


@dataclass(slots=True)
class HarnessServer:
    """A running server: `async with HarnessServer(artifact_directory) as server`.

    `artifact` is the folder served under `artifact/`, or None when only an adapter is looked for. `assets` are the
    folders served under `asset/<number>/`, by that number: the pinned files of scripts.
    """

    artifact: Path | None
    assets: Mapping[int, Path] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    port: int = 0
    _secrets: dict[str, str] = field(default_factory=dict)
    _messages: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._guard])
        app.router.add_get("/{token}/artifact/{path:.+}", self._serve_artifact)
        app.router.add_get(r"/{token}/asset/{number:\d{1,9}}/{path:.+}", self._serve_asset)
        app.router.add_post("/{token}/exchange", self._exchange)
        app.router.add_get("/{token}/{path:[a-z.]+}", self._serve_page)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner:
            await self._runner.cleanup()

    def page_url(self, page: str) -> str:
        """The address of the harness page; `page` marks its messages, so that a dead page's are told apart."""
        return f"http://127.0.0.1:{self.port}/{self.token}/page.html?page={page}"

    async def receive(self, page: str) -> Message:
        """The next message from the page named `page`; those of other pages are dropped."""
        while True:
            message = await self._messages.get()
            if message.frame.header.get("page") == page:
                return message

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host") != f"127.0.0.1:{self.port}":
            response: web.StreamResponse = web.Response(status=421, text="not the host of this server\n")
        elif not secrets.compare_digest(request.match_info.get("token", "").encode(), self.token.encode()):
            response = web.Response(status=403, text="not the token of this run\n")
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = web.Response(status=error.status, text=f"{error.reason}\n")
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _serve_page(self, request: web.Request) -> web.StreamResponse:
        return _file(WEB, request.match_info["path"])

    async def _serve_artifact(self, request: web.Request) -> web.StreamResponse:
        if self.artifact is None:
            raise web.HTTPNotFound
        return _file(self.artifact, request.match_info["path"])

    async def _serve_asset(self, request: web.Request) -> web.StreamResponse:
        folder = self.assets.get(int(request.match_info["number"]))
        if folder is None:
            raise web.HTTPNotFound
        return _file(folder, request.match_info["path"])

    async def _exchange(self, request: web.Request) -> web.StreamResponse:
        try:
            frame = decode(await request.read())
        except FrameError as error:
            return web.Response(status=400, text=f"{error}\n")
        page, greets = str(frame.header.get("page")), frame.header.get("kind") == "hello"
        given, known = request.headers.get(SECRET, ""), self._secrets.get(page)
        if not greets and (known is None or not secrets.compare_digest(given.encode(), known.encode())):
            return web.Response(status=403, text="not the secret of this page\n")
        message = Message(frame, asyncio.get_running_loop().create_future())
        await self._messages.put(message)
        answer = await message._answer
        # Only the greeting that is answered gets a secret: nobody answers one that comes in the middle of a case.
        headers = {}
        if greets:
            headers[SECRET] = self._secrets[page] = secrets.token_urlsafe(16)
        return web.Response(body=answer, headers=headers, content_type="application/octet-stream")


def _file(root: Path, name: str) -> web.StreamResponse:
    try:
        path = (root / name).resolve()
        inside = path.is_relative_to(root.resolve()) and path.is_file()
    except (OSError, ValueError) as error:  # a name that is too long, or holds a NUL
        raise web.HTTPNotFound from error
    if not inside:
        raise web.HTTPNotFound
    content_type = MIME_TYPES.get(path.suffix, "application/octet-stream")
    # Headers are set here too: a file's response is prepared before the middleware sees it.
    return web.FileResponse(path, headers={**HEADERS, "Content-Type": content_type})
