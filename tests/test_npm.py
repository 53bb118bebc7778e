"""The npm client: listing and fetching, and how its failures are told apart. npm and the registry are real."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_bot.builds.npm import Npm, listing
from bisect_bot.errors import DiskFull, NpmError, UnknownRevision
from tests.npm_registry import Registry, build, serve


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    with serve(tmp_path, monkeypatch) as served:
        yield served


def script(folder: Path, text: str) -> Npm:
    """An npm that does what `text` says."""
    path = folder / "npm"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Npm(str(path))


needs_sh = pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for a failing npm")


def test_versions_come_in_the_order_of_semver(registry: Registry) -> None:
    for version in ("1.9.0", "1.20.0-dev.20240821-009209e016", "1.10.0", "1.20.0"):
        registry.packages[version] = b""
    assert Npm.find().versions() == ("1.9.0", "1.10.0", "1.20.0-dev.20240821-009209e016", "1.20.0")


def test_a_registry_with_one_version_gives_a_list_of_one(registry: Registry) -> None:
    registry.packages["1.20.1"] = b""
    assert Npm.find().versions() == ("1.20.1",)


def test_a_package_arrives_whole_with_its_integrity(registry: Registry, tmp_path: Path) -> None:
    registry.packages["1.20.1"] = build("1.20.1")
    tarball = Npm.find().pack("1.20.1", tmp_path)
    assert tarball.path.parent == tmp_path
    assert tarball.path.read_bytes() == registry.packages["1.20.1"]
    assert tarball.integrity in registry.document().decode()


def test_a_version_that_the_registry_lacks_is_an_unknown_revision(registry: Registry, tmp_path: Path) -> None:
    registry.packages["1.20.1"] = build("1.20.1")
    with pytest.raises(UnknownRevision, match=r"no onnxruntime-web 9\.9\.9"):
        Npm.find().pack("9.9.9", tmp_path)


def test_a_package_that_was_changed_on_its_way_is_refused(registry: Registry, tmp_path: Path) -> None:
    registry.packages["1.20.1"] = build("1.20.1")
    registry.broken.add("1.20.1")
    with pytest.raises(NpmError, match=r"(?i)integrity|sha512") as caught:
        Npm.find().pack("1.20.1", tmp_path)
    assert "npm cache verify" in caught.value.advice


@needs_sh
def test_other_bytes_than_npm_says_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(b"others")
    npm = script(tmp_path, """echo '[{"filename": "a.tgz", "integrity": "sha512-AAAA"}]'""")
    with pytest.raises(NpmError, match="other bytes than npm promised"):
        npm.pack("1.20.1", tmp_path)


@pytest.mark.parametrize("version", ["--registry=x", "-g", "latest", "1.20", "1.20.1 && ls", "../x", "", "1.20.1\n"])
def test_what_is_no_version_never_reaches_the_command_line(version: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownRevision):
        Npm(str(tmp_path / "never started")).pack(version, tmp_path)


def test_a_registry_that_wants_a_login_is_told_from_one_that_is_away(registry: Registry) -> None:
    registry.status = 401
    with pytest.raises(NpmError) as caught:
        Npm.find().versions()
    assert "npm login" in caught.value.advice


def test_no_control_character_of_the_registry_comes_through(registry: Registry) -> None:
    registry.status = 500
    with pytest.raises(NpmError) as caught:
        Npm.find().versions()
    assert "500" in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_registry_that_cannot_be_reached_is_named_with_advice(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    with pytest.raises(NpmError, match="ECONNREFUSED") as caught:
        Npm.find().versions()
    assert "npm config get registry" in caught.value.advice


@needs_sh
def test_a_full_disk_under_npm_is_a_full_disk(tmp_path: Path) -> None:
    words = os.strerror(errno.ENOSPC)
    npm = script(tmp_path, f"echo 'npm error code ENOSPC' >&2; echo 'npm error nospc {words}' >&2; exit 228")
    with pytest.raises(DiskFull):
        npm.pack("1.20.1", tmp_path)


@needs_sh
def test_an_old_npm_is_understood_without_json(tmp_path: Path) -> None:
    npm = script(
        tmp_path,
        "printf 'npm ERR! code E503\\nnpm ERR! 503 Unavailable\\nnpm ERR! A complete log: x\\n' >&2; exit 1",
    )
    with pytest.raises(NpmError, match=r"503 Unavailable$"):
        npm.versions()


@needs_sh
def test_an_npm_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(NpmError, match="within 1 s"):
        script(tmp_path, "sleep 60").versions(timeout_s=1)


def test_a_missing_npm_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NpmError) as caught:
        Npm.find()
    assert "Node.js" in caught.value.advice


def test_without_a_registry_the_kept_list_is_used_and_said_so(registry: Registry, tmp_path: Path) -> None:
    registry.packages |= {"1.20.0": b"", "1.20.1": b""}
    fresh = listing(None, tmp_path / "cache")
    registry.status = 500
    kept = listing(None, tmp_path / "cache")
    assert fresh.versions == kept.versions == ("1.20.0", "1.20.1")
    assert fresh.warning is None
    assert kept.warning is not None and "500" in kept.warning


def test_without_npm_the_kept_list_is_used(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.packages["1.20.1"] = b""
    listing(None, tmp_path)
    monkeypatch.setenv("PATH", "")
    assert listing(None, tmp_path).versions == ("1.20.1",)


def test_without_registry_and_kept_list_the_failure_is_raised(registry: Registry, tmp_path: Path) -> None:
    registry.status = 500
    with pytest.raises(NpmError):
        listing(None, tmp_path)
    (tmp_path / "versions.json").write_text("{ damaged")
    with pytest.raises(NpmError):
        listing(None, tmp_path)


@pytest.mark.network
def test_the_real_registry_lists_builds_of_three_eras() -> None:
    versions = Npm.find().versions()
    assert {"1.14.0", "1.20.1", "1.21.0-dev.20241024-d9ca84ef96"} <= set(versions)
