"""From a version to an artifact: what is taken out of a package, what is refused, and that npm is asked once."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import multiprocessing
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_bot.builds import bundle_for, eras, fetch, published
from bisect_bot.builds import package as packages
from bisect_bot.builds.package import blob_id, unpack
from bisect_bot.errors import BuildUnusable, NpmError, UnknownRevision
from bisect_bot.model import Artifact
from bisect_bot.paths import cache_root
from tests.npm_registry import Registry, build, package, serve

DEV = "1.21.0-dev.20241024-d9ca84ef96"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    with serve(tmp_path, monkeypatch) as served:
        yield served


def files_of(artifact: Artifact) -> set[str]:
    return {p.relative_to(artifact.directory).as_posix() for p in artifact.directory.rglob("*") if p.is_file()}


def archive(tmp_path: Path, *entries: tarfile.TarInfo) -> Path:
    path = tmp_path / "a.tgz"
    with tarfile.open(path, "w:gz") as out:
        for entry in entries:
            out.addfile(entry, io.BytesIO(b"x" * entry.size) if entry.isfile() else None)
    return path


def entry(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, target
    return info


def test_a_build_is_fetched_once_and_then_found_without_npm(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.packages["1.20.1"] = build("1.20.1", "5c1b7ccbff")
    heard: list[tuple[str, int, int | None]] = []
    first, reused = fetch("1.20.1", cache=tmp_path / "c", progress=lambda *words: heard.append(words))
    monkeypatch.setenv("PATH", "")
    again, reused_again = fetch("1.20.1", cache=tmp_path / "c")
    assert (reused, reused_again) == (False, True)
    assert first == again
    assert first.commit == "5c1b7ccbff"
    assert registry.tarballs_sent == ["1.20.1"]
    size = len(registry.packages["1.20.1"])
    assert heard == [("onnxruntime-web 1.20.1", 0, None), ("onnxruntime-web 1.20.1", size, size)]


def test_what_no_browser_needs_is_left_out(registry: Registry, tmp_path: Path) -> None:
    extra = ["ort.js", "ort.min.js", "ort.min.js.map", "ort.node.min.mjs", "alone.js", "cjs/ort.min.js", "README.md"]
    more = {f"dist/{name}": b"// x" for name in extra} | {"lib/index.ts": b"export {};\n", "README.md": b"#"}
    registry.packages["1.20.1"] = build("1.20.1", more=more)
    artifact, _ = fetch("1.20.1", cache=tmp_path / "c")
    assert files_of(artifact) == {*eras.needed_files("1.20.1"), "package.json", "ort.min.js", "alone.js"}


def test_the_record_keeps_where_the_bytes_came_from(registry: Registry, tmp_path: Path) -> None:
    full = "d9ca84ef96" + "0" * 30
    more = {"lib/wasm/a.ts": b"let a = 1;\n", "lib/a.js": b"", "__commit.txt": full.encode()}
    registry.packages[DEV] = build(DEV, "d9ca84ef96", more)
    artifact, _ = fetch(DEV, cache=tmp_path / "c")
    record = published.record(DEV, tmp_path / "c")
    assert record is not None
    assert record.sources == {"lib/wasm/a.ts": blob_id(b"let a = 1;\n")}
    assert record.declared_commit == full
    assert record.digest == artifact.digest
    sha512 = base64.b64encode(hashlib.sha512(registry.packages[DEV]).digest()).decode()
    assert record.integrity == f"sha512-{sha512}"
    assert published.record("1.20.0", tmp_path / "c") is None


def test_blob_ids_are_those_of_git(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"some\nsource\n")
    made = subprocess.run(["git", "hash-object", str(tmp_path / "a")], capture_output=True, text=True, check=True)
    assert blob_id(b"some\nsource\n") == made.stdout.strip()


def test_parts_with_two_commit_ids_have_none(registry: Registry, tmp_path: Path) -> None:
    registry.packages["1.20.1"] = build("1.20.1", more={"dist/other.wasm": b"git-commit-id=fedcba9876"})
    artifact, _ = fetch("1.20.1", cache=tmp_path / "c")
    assert artifact.commit is None


def test_a_package_without_the_files_of_its_era_is_unusable(registry: Registry, tmp_path: Path) -> None:
    registry.packages["1.20.1"] = package({"package.json": b"{}", "dist/ort.min.js": b""})
    with pytest.raises(BuildUnusable, match=r"lacks .*ort\.webgpu\.bundle\.min\.mjs"):
        fetch("1.20.1", cache=tmp_path / "c")
    assert not (tmp_path / "c" / "artifacts").exists()
    assert list((tmp_path / "c" / "tmp").iterdir()) == []


def test_a_build_older_than_every_era_is_unusable_without_a_download(registry: Registry, tmp_path: Path) -> None:
    registry.packages["1.7.0-dev.0"] = package({"package.json": b"{}"})
    with pytest.raises(BuildUnusable, match="older than"):
        fetch("1.7.0-dev.0", cache=tmp_path / "c")
    assert registry.tarballs_sent == []


def test_a_failed_download_leaves_nothing_behind(registry: Registry, tmp_path: Path) -> None:
    registry.packages["1.20.1"] = build("1.20.1")
    registry.broken.add("1.20.1")
    with pytest.raises(NpmError):
        fetch("1.20.1", cache=tmp_path / "c")
    with pytest.raises(UnknownRevision):
        fetch("1.20.0", cache=tmp_path / "c")
    assert [p for p in (tmp_path / "c").rglob("*") if p.is_file()] == []


def _fetch_into(cache: Path) -> str:
    return fetch("1.20.1", cache=cache)[0].digest


def test_two_processes_that_fetch_the_same_build_both_succeed(registry: Registry, tmp_path: Path) -> None:
    registry.packages["1.20.1"] = build("1.20.1")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        digests = pool.map(_fetch_into, [tmp_path / "c"] * 2)
    assert digests[0] == digests[1]
    assert _fetch_into(tmp_path / "c") == digests[0]
    assert list((tmp_path / "c" / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["package/../../evil.js", "/etc/evil.js", "package/dist/..\\..\\evil.js", "package/C:/evil.js"]
)
def test_a_tarball_entry_that_escapes_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BuildUnusable, match="escapes"):
        unpack(archive(tmp_path, entry(name, 3)), tmp_path / "out", ())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_tarball_entry_that_is_no_plain_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(BuildUnusable, match="no plain file"):
        unpack(archive(tmp_path, entry("package/dist/a.js", 0, kind, "/etc/passwd")), tmp_path / "out", ())


def test_absurd_sizes_are_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tarball = archive(tmp_path, entry("package/dist/a.js", 10), entry("package/dist/b.js", 11))
    for limit, value in (("MAX_FILE", 10), ("MAX_TOTAL", 20), ("MAX_ENTRIES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(packages, limit, value)
            with pytest.raises(BuildUnusable, match="too large"):
                unpack(tarball, tmp_path / "out", ())
    assert not (tmp_path / "out").exists()
    unpack(tarball, tmp_path / "out", ())
    assert (tmp_path / "out" / "b.js").read_bytes() == b"x" * 11


@pytest.mark.parametrize("cut", [0, 3, 40, -30], ids=str)
def test_a_damaged_tarball_is_unusable_and_no_bug(tmp_path: Path, cut: int) -> None:
    whole = build("1.20.1")
    (tmp_path / "a.tgz").write_bytes(whole[:cut])
    with pytest.raises(BuildUnusable, match="cannot be unpacked"):
        unpack(tmp_path / "a.tgz", tmp_path / "out", ())


@pytest.mark.network
@pytest.mark.parametrize(
    ("version", "commit", "implementation"),
    [
        ("1.14.0", None, None),
        (DEV, "d9ca84ef96", "jsep"),
        ("1.23.0-dev.20250821-75f848097e", "75f848097e", "native"),
    ],
)
def test_real_packages_hold_what_their_era_says(version: str, commit: str | None, implementation: str | None) -> None:
    artifact, _ = fetch(version, cache=cache_root())
    assert artifact.commit == commit
    bundles = eras.load().bundles(version)
    named = {file for bundle in bundles.values() for file in (bundle.file, *bundle.wasm_files)}
    assert named <= files_of(artifact)
    exports = json.loads((artifact.directory / "package.json").read_text()).get("exports", {})
    for name, bundle in bundles.items():
        exported = exports.get(f"./{name}", exports.get(".")) if exports else None
        assert exported is None or f"./dist/{bundle.file}" in json.dumps(exported)
        # The name of a .wasm stands in the bundle, or in the glue that the bundle fetches.
        texts = [bundle.file, *(file for file in bundle.wasm_files if file.endswith(".mjs"))]
        named_there = "".join((artifact.directory / text).read_text(encoding="utf-8") for text in texts)
        assert [file for file in bundle.wasm_files if file not in named_there] == []
    if implementation:
        assert bundle_for(version, "webgpu").implementation == implementation
