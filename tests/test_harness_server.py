"""The server serves one artifact and one page, to the page that knows the token, and isolates it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from bisect_bot.harness.frames import decode, encode
from bisect_bot.harness.server import SECRET, HarnessServer

Visit = Callable[[aiohttp.ClientSession, HarnessServer], Awaitable[None]]


def visit(artifact: Path | None, what: Visit) -> None:
    """Runs `what` against a server over `artifact`."""

    async def run() -> None:
        async with HarnessServer(artifact) as server, aiohttp.ClientSession() as client:
            await what(client, server)

    asyncio.run(run())


def base(server: HarnessServer) -> str:
    return f"http://127.0.0.1:{server.port}/{server.token}"


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """An artifact with one file of each kind, and a secret beside it."""
    folder = tmp_path / "artifact"
    (folder / "sub").mkdir(parents=True)
    for name in ("ort.mjs", "ort.js", "ort.wasm", "sub/x.wasm"):
        (folder / name).write_text(name)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.js").symlink_to(tmp_path / "secret.txt")
    return folder


def test_files_come_with_the_type_and_headers_that_isolation_needs(artifact: Path) -> None:
    async def look(client: aiohttp.ClientSession, server: HarnessServer) -> None:
        for name, mime in (
            ("ort.mjs", "text/javascript"),
            ("ort.js", "text/javascript"),
            ("sub/x.wasm", "application/wasm"),
        ):
            async with client.get(f"{base(server)}/artifact/{name}") as response:
                assert response.status == 200
                assert response.content_type == mime
                assert response.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
                assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
                assert response.headers["Cache-Control"] == "no-store"
                assert await response.text() == name

    visit(artifact, look)


@pytest.mark.parametrize(
    "path", ["../secret.txt", "sub/../../secret.txt", "link.js", "missing.js", "sub", "/etc/passwd"]
)
def test_nothing_outside_the_artifact_is_served(artifact: Path, path: str) -> None:
    async def look(client: aiohttp.ClientSession, server: HarnessServer) -> None:
        url = URL(f"{base(server)}/artifact/{quote(path, safe='')}", encoded=True)
        async with client.get(url) as response:
            assert response.status in (400, 403, 404)
            assert "secret" not in await response.text()

    visit(artifact, look)


def test_another_token_or_host_is_refused(artifact: Path) -> None:
    async def look(client: aiohttp.ClientSession, server: HarnessServer) -> None:
        async with client.get(f"http://127.0.0.1:{server.port}/guess/artifact/ort.js") as response:
            assert response.status == 403
        async with client.get(f"{base(server)}/artifact/ort.js", headers={"Host": "evil.example"}) as response:
            assert response.status == 421
        async with client.get(f"http://127.0.0.1:{server.port}/") as response:
            assert response.status in (403, 404)

    visit(artifact, look)


def test_two_servers_have_different_tokens_and_ports(artifact: Path) -> None:
    async def look(client: aiohttp.ClientSession, server: HarnessServer) -> None:
        async with HarnessServer(artifact) as other:
            assert (server.token, server.port) != (other.token, other.port)
            assert server.token != other.token

    visit(artifact, look)


def test_a_message_is_answered_and_a_dead_pages_message_is_dropped(artifact: Path) -> None:
    async def look(client: aiohttp.ClientSession, server: HarnessServer) -> None:
        async def post(page: str) -> bytes:
            data = encode({"kind": "hello", "page": page}, [b"\x00\x01"])
            async with client.post(f"{base(server)}/exchange", data=data) as response:
                return await response.read()

        dead = asyncio.create_task(post("1"))
        await asyncio.sleep(0.1)
        alive = asyncio.create_task(post("2"))
        message = await asyncio.wait_for(server.receive("2"), 10)
        assert message.frame.blobs == (b"\x00\x01",)
        message.answer({"kind": "case"}, (b"model",))
        answer = decode(await asyncio.wait_for(alive, 10))
        assert (answer.header, answer.blobs) == ({"kind": "case"}, (b"model",))
        dead.cancel()

    visit(artifact, look)


@pytest.mark.parametrize("stolen", [None, "", "none", "of an earlier page"])
def test_after_its_greeting_a_page_is_heard_with_its_secret_only(artifact: Path, stolen: str | None) -> None:
    async def look(client: aiohttp.ClientSession, server: HarnessServer) -> None:
        async def post(kind: str, secret: str | None) -> tuple[int, str | None]:
            data = encode({"kind": kind, "page": "1"})
            headers = {} if secret is None else {SECRET: secret}
            async with client.post(f"{base(server)}/exchange", data=data, headers=headers) as response:
                return response.status, response.headers.get(SECRET)

        assert (await post("result", stolen))[0] == 403
        before = None
        for _ in range(2):  # a page that was reloaded greets again
            greeting = asyncio.create_task(post("hello", None))
            (await asyncio.wait_for(server.receive("1"), 10)).answer({"kind": "cases"})
            _, secret = await greeting
            assert secret and secret != before
            assert (await post("result", before or stolen))[0] == 403
            before = secret
        result = asyncio.create_task(post("result", before))
        message = await asyncio.wait_for(server.receive("1"), 10)
        assert message.frame.header["kind"] == "result"
        message.answer({"kind": "done"})
        assert await result == (200, None)

    visit(artifact, look)


def test_bytes_that_are_no_frame_get_a_400(artifact: Path) -> None:
    async def look(client: aiohttp.ClientSession, server: HarnessServer) -> None:
        async with client.post(f"{base(server)}/exchange", data=b"garbage") as response:
            assert response.status == 400

    visit(artifact, look)
