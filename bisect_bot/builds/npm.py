"""The user's own npm: lists and fetches published builds, with the registry, proxy and login of their `.npmrc`."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import semver

from bisect_bot.builds.disk import disk_errors, disk_full, write_whole
from bisect_bot.errors import BisectBotError, MachineError, NpmError, UnknownRevision
from bisect_bot.processes import Completed, run

PACKAGE = "onnxruntime-web"
_KEPT = "versions.json"
_QUIET = ("--json", "--loglevel=error", "--no-update-notifier")
_NO_SUCH = {"E404", "ETARGET", "ENOVERSIONS"}
_ADVICE = (
    (
        {"E401", "E403", "EOTP", "ENEEDAUTH", "EAUTHUNKNOWN", "EAUTHIP"},
        "Log in with `npm login`, or renew the token in your .npmrc.",
    ),
    (
        {"SELF_SIGNED_CERT_IN_CHAIN", "UNABLE_TO_VERIFY_LEAF_SIGNATURE", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY"},
        "Tell npm your network's certificate: `npm config set cafile FILE`.",
    ),
    ({"EINTEGRITY"}, "Something changed the package on its way. Try `npm cache verify`, then again."),
)
_NETWORK = "Check the network and npm's settings: `npm config get registry`, `npm config get proxy`, `npm ping`."


@dataclass(frozen=True, slots=True)
class Tarball:
    """A fetched package and its subresource integrity (`sha512-<base64>`), which its bytes were checked against."""

    path: Path
    integrity: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The versions that the registry has, in the order of semver. `warning` is set when npm could not be asked."""

    versions: tuple[str, ...]
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Npm:
    """An npm client. `find` gives the one in the PATH."""

    executable: str

    @classmethod
    def find(cls) -> Npm:
        """The npm client in the PATH (`npm.cmd` on Windows). Raises NpmError when there is none."""
        executable = shutil.which("npm")
        if executable is None:
            raise NpmError(
                "npm was not found.", "Install Node.js (nodejs.org), which brings npm, and open a new shell."
            )
        return cls(executable)

    def versions(self, timeout_s: float = 120.0) -> tuple[str, ...]:
        """Every published version, in the order of semver. Raises NpmError, or DiskFull."""
        answer = self._ask("list the versions", ["view", PACKAGE, "versions"], timeout_s)
        names = [answer] if isinstance(answer, str) else answer
        if not isinstance(names, list):
            raise NpmError("npm listed the versions in a form that is not known.", "Update npm: `npm install -g npm`.")
        valid = {name for name in names if isinstance(name, str) and semver.Version.is_valid(name)}
        return tuple(sorted(valid, key=semver.Version.parse))

    def pack(self, version: str, into: Path, timeout_s: float = 900.0) -> Tarball:
        """Fetches the package of `version` into the folder `into`.

        Raises UnknownRevision when there is no such version, DiskFull, or NpmError for everything else (network,
        login, time, other bytes than npm promised).
        """
        check_version(version)
        command = ["pack", f"{PACKAGE}@{version}", "--ignore-scripts", "--pack-destination", str(into)]
        answer = self._ask(f"fetch {version}", command, timeout_s, version)
        entry = answer[0] if isinstance(answer, list) and answer else answer
        if not isinstance(entry, dict) or not isinstance(entry.get("filename"), str):
            raise NpmError(f"npm fetched {version} but does not say as what.", "Update npm: `npm install -g npm`.")
        path = into / Path(entry["filename"]).name
        with disk_errors(into):
            actual = _sha512(path)
        promised = [word for word in str(entry.get("integrity") or actual).split() if word.startswith("sha512-")]
        if actual not in promised:
            raise NpmError(
                f"The package of {version} has other bytes than npm promised: {actual} instead of {promised}.",
                "Try `npm cache verify`, then again; look for a proxy that rewrites downloads.",
            )
        return Tarball(path, actual)

    def _ask(self, what: str, command: list[str], timeout_s: float, version: str | None = None) -> Any:
        try:
            done = run([self.executable, *command, *_QUIET], timeout_s=timeout_s)
        except OSError as error:
            raise NpmError(f"{self.executable} cannot be started: {error}", "Reinstall Node.js.") from error
        if done.status is None:
            raise NpmError(f"npm could not {what} within {timeout_s:g} s.", _NETWORK)
        if done.status != 0:
            raise failure(done, what, version)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise NpmError(f"npm could not {what}: its answer is no JSON.", "Update npm.") from error


def check_version(version: str) -> None:
    """Raises UnknownRevision when `version` is no semver and so can name no build (nor be an option of npm's)."""
    if not semver.Version.is_valid(version):
        raise UnknownRevision(f"{version!r} is not the version of a published build.", "Try `bisect-bot versions`.")


def listing(npm: Npm | None, cache: Path) -> Listing:
    """The published versions: as npm says, else as it last said (kept in the folder `cache`) and a warning.

    `npm` None looks for it in the PATH. Raises NpmError when npm fails and nothing was kept.
    """
    kept = cache / _KEPT
    try:
        versions = (npm or Npm.find()).versions()
    except MachineError as error:
        saved = kept_versions(cache)
        if not saved:
            raise
        return Listing(saved, f"{error} Using the list of versions that was kept from the last time.")
    if versions != _read(kept):
        with disk_errors(cache):
            write_whole(kept, json.dumps(versions))
    return Listing(versions)


def kept_versions(cache: Path) -> tuple[str, ...]:
    """The versions that npm listed the last time, as kept in the folder `cache`; none where it never did."""
    return _read(cache / _KEPT)


def _read(kept: Path) -> tuple[str, ...]:
    try:
        names = json.loads(kept.read_text(encoding="utf-8"))
        return tuple(n for n in names if isinstance(n, str) and semver.Version.is_valid(n))
    except (OSError, ValueError, TypeError):
        return ()


def failure(done: Completed, what: str, version: str | None) -> BisectBotError:
    """The error for a run of npm that could not do `what`; `version` is the build that was asked for."""
    code, message = complaint(done)
    if code in {"ENOSPC", "EDQUOT"} or "ENOSPC" in message:
        return disk_full("npm (its cache, or the folder it fetches to)")
    if version is not None and code in _NO_SUCH:
        return UnknownRevision(
            f"The registry has no {PACKAGE} {version}.", "`bisect-bot versions` lists the builds that it has."
        )
    advice = next((text for codes, text in _ADVICE if code in codes), _NETWORK)
    return NpmError(f"npm could not {what}: {message or f'it ended with status {done.status}'}", advice)


def complaint(done: Completed) -> tuple[str, str]:
    """npm's error code and its message in one line: from its JSON answer, else from its last lines on stderr."""
    lines = [m[1] for m in re.finditer(r"^npm (?:error|ERR!) ?(.*)$", done.stderr, re.MULTILINE)]
    code = next((line.removeprefix("code ").strip() for line in lines if line.startswith("code ")), "")
    spoken = [line for line in lines if line.strip() and not re.match(r"code |errno |A complete log", line)]
    message = spoken[-1] if spoken else ""
    try:
        error = json.loads(done.stdout)["error"]
        code, message = error.get("code") or code, error.get("summary") or message
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return str(code), "".join(c for c in str(message).strip() if c.isprintable())


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return "sha512-" + base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode()
