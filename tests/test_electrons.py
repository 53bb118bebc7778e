"""Electrons are found where projects, npm, its downloads and the user have them. None of these is a real one."""

from __future__ import annotations

import os
import stat
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from bisect_bot.errors import NoBrowser, UsageError
from bisect_bot.targets import electrons
from bisect_bot.targets.browsers import Browser, load_config, locate

SHIPPED = load_config()
# Without the folders that this machine may have an Electron in.
CONFIG = SHIPPED.model_copy(update={"electron": SHIPPED.electron.model_copy(update={"npm_roots": {}})})
PLATFORM = sys.platform
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the folders are laid out as on Linux")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Electron: `work` is the current folder, `home` the user's."""
    for name in ("work", "home", "bin", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("BISECT_BOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [])  # and no Python package that contains one
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for name in ("ELECTRON_PATH", "XDG_CACHE_HOME", "electron_config_cache"):
        monkeypatch.delenv(name, raising=False)
    npm(tmp_path, "exit 1")
    return tmp_path


def dist(folder: Path, version: str) -> Path:
    """Something that is laid out in `folder` like an unpacked Electron; its executable."""
    folder.mkdir(parents=True)
    (folder / "version").write_text(version)
    (folder / "electron").write_text("#!/bin/sh\n")
    (folder / "electron").chmod(0o755)
    return folder / "electron"


def download(cache: Path, version: str, machine: str = "x64") -> Path:
    """An archive as @electron/get keeps it."""
    folder = cache / "0123456789abcdef"
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"electron-v{version}-linux-{machine}.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("version", version)
        for name, mode, text in (
            ("electron", stat.S_IFREG | 0o755, "#!/bin/sh\n"),
            ("resources/link", stat.S_IFLNK | 0o777, "../electron"),
        ):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            zipped.writestr(entry, text)
    return archive


def found(wish: str = "", repo: Path | None = None) -> Browser:
    return locate(f"electron:{wish}" if wish else "electron", CONFIG, str(repo) if repo else None)


def test_where_there_is_none_the_advice_says_how_to_get_one(machine: Path) -> None:
    with pytest.raises(NoBrowser, match="no Electron was found") as caught:
        found()
    assert all(word in caught.value.advice for word in ("electron:/path", "ELECTRON_PATH", "npm@"))
    with pytest.raises(NoBrowser, match=r"no Electron 28 was found \(found: none\)") as caught:
        found("28")
    assert "--target electron:npm@28" in caught.value.advice


def test_a_path_may_be_the_executable_or_a_folder_of_it(machine: Path) -> None:
    executable = dist(machine / "somewhere" / "dist", "9.4.1")
    for wish in (executable, executable.parent, executable.parent.parent):
        assert found(str(wish)) == Browser("electron", executable, "9.4.1", "Electron")
    with pytest.raises(NoBrowser, match="nowhere"):
        found(f"{machine}/nowhere")


def test_the_variable_overrides_what_is_found_and_has_to_be_right(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dist(machine / "work/node_modules/electron/dist", "28.0.0")
    mine = dist(machine / "mine", "9.4.1")
    monkeypatch.setenv("ELECTRON_PATH", str(mine))
    assert found().version == "9.4.1"
    monkeypatch.setenv("ELECTRON_PATH", f"{machine}/nowhere")
    with pytest.raises(NoBrowser, match=r"ELECTRON_PATH=.*/nowhere is no Electron"):
        found()


def test_the_nearest_is_taken_first(machine: Path) -> None:
    """The current folder's, the checkout's, the one on the PATH (npm's is a script), and those in our cache."""
    places: Sequence[tuple[Path, str]] = (
        (machine / "cache/electron/7.0.0", "7.0.0"),
        (machine / "global/node_modules/electron/dist", "8.0.0"),
        (machine / "repo/js/web/node_modules/electron/dist", "9.0.0"),
        (machine / "work/node_modules/electron/dist", "10.0.0"),
    )
    for folder, version in places:
        dist(folder, version)
        if "global" in folder.parts:
            script = folder.parent / "cli.js"
            script.write_text("#!/usr/bin/env node\n")
            script.chmod(0o755)
            (machine / "bin/electron").symlink_to(script)
        assert found(repo=machine / "repo").version == version
    versions = [electrons.version_of(each) for each in all_of(machine / "repo")]
    assert versions == ["10.0.0", "9.0.0", "8.0.0", "7.0.0"]


def all_of(repo: Path) -> list[Path]:
    return list(electrons.installed(CONFIG.electron, "ELECTRON_PATH", PLATFORM, str(repo)))


@pytest.mark.parametrize(
    ("wish", "version"),
    [("28", "28.3.1"), ("28.2", "28.2.9"), ("9.4.1", "9.4.1"), ("29", "29.0.0-beta.2"), ("9", "9.4.1")],
)
def test_a_version_or_its_beginning_names_the_newest_that_fits(machine: Path, wish: str, version: str) -> None:
    dist(machine / "work/node_modules/electron/dist", "9.4.1")
    dist(machine / "repo/js/web/node_modules/electron/dist", "28.2.9")
    for each in ("28.3.1", "28.3.0", "29.0.0-beta.2", "29.0.0-beta.1", "2.8.0"):
        download(machine / "home/.cache/electron", each)
    assert found(wish, machine / "repo").version == version


def test_a_version_that_is_not_there_is_told_with_those_that_are(machine: Path) -> None:
    dist(machine / "work/node_modules/electron/dist", "9.4.1")
    download(machine / "home/.cache/electron", "28.3.1")
    with pytest.raises(NoBrowser, match=r"no Electron 2 was found \(found: 9\.4\.1, 28\.3\.1\)"):
        found("2")


def test_a_download_is_unpacked_once_with_its_permissions_and_links(machine: Path) -> None:
    archive = download(machine / "home/.cache/electron", "28.3.1")
    download(machine / "home/.cache/electron", "30.0.0", machine="mips")
    first = found()
    assert (first.version, first.executable.parent) == ("28.3.1", machine / "cache/electron/28.3.1")
    assert os.access(first.executable, os.X_OK)
    assert (first.executable.parent / "resources/link").resolve() == first.executable
    archive.unlink()
    assert found("28").executable == first.executable, "it stays when the download is gone"
    assert [path.name for path in (machine / "cache/electron").iterdir()] == ["28.3.1"]


def test_a_broken_download_is_named_and_nothing_stays(machine: Path) -> None:
    archive = download(machine / "home/.cache/electron", "28.3.1")
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(NoBrowser, match=r"electron-v28\.3\.1-linux-x64\.zip cannot be unpacked"):
        found("28")
    assert list((machine / "cache/electron").iterdir()) == []


def npm(machine: Path, script: str) -> None:
    """An npm that does `script` when it is to install something, noting what it was asked."""
    path = machine / "bin/npm"
    path.write_text(f'#!/bin/sh\nif [ "$1" = root ]; then exit 0; fi\necho "$@" >> {machine}/asked\n{script}\n')
    path.chmod(0o755)


def test_npm_fetches_one_only_when_asked_and_only_once(machine: Path) -> None:
    target = "node_modules/electron/dist"
    npm(machine, f"mkdir -p {target}; echo 28.3.1 > {target}/version; touch {target}/electron")
    with pytest.raises(NoBrowser):
        found("28")
    assert not (machine / "asked").exists()
    assert found("npm@28").version == "28.3.1"
    assert found("npm@28").executable.is_relative_to(machine / "cache/electron")
    assert (machine / "asked").read_text().split()[-1] == "electron@28"
    assert len((machine / "asked").read_text().splitlines()) == 1
    assert found("28").version == "28.3.1", "it is found by its version from then on"


def test_a_package_that_leaves_the_program_to_its_first_start_is_made_to_bring_it(machine: Path) -> None:
    """As those of Electron 42 and later, whose installer npm no longer runs."""
    package = "node_modules/electron"
    npm(machine, f"mkdir -p {package}; echo installer > {package}/install.js")
    node = machine / "bin/node"
    node.write_text(
        '#!/bin/sh\nd="${1%/install.js}/dist"; mkdir "$d"; echo 45.5.0 > "$d/version"; touch "$d/electron"\n'
    )
    node.chmod(0o755)
    assert found("npm@45").version == "45.5.0"
    node.write_text("#!/bin/sh\necho RequestError: connect ECONNREFUSED >&2; exit 1\n")
    with pytest.raises(NoBrowser, match=r"npm brings no Electron 44: RequestError"):
        found("npm@44")


def test_an_npm_that_brings_none_is_told_with_its_words(machine: Path) -> None:
    npm(machine, "echo added 12 packages; echo 'npm error RequestError: connect ECONNREFUSED' >&2; exit 1")
    with pytest.raises(NoBrowser, match=r"npm brings no Electron 28: npm error RequestError") as caught:
        found("npm@28")
    assert "ELECTRON_MIRROR" in caught.value.advice
    with pytest.raises(UsageError, match="no version"):
        found("npm@--ignore-scripts=false")
