"""The content-addressed store of artifacts below the cache root.

    artifacts/<aa>/<digest>/files/…   what a browser loads
    artifacts/<aa>/<digest>/stamp.json  its digest, each file's size and sha256: an entry counts only with it
    keys/<sha256 of the key>.json     what a key gave: the digest, and where its bytes came from
    tmp/                              entries in the making, renamed into place when complete

Several processes may work in it at once. The digest masks the commit id that every build carries inside, so
that two builds of the same bytes share one entry: what belongs to one build only stands in its key's record.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bisect_bot.builds.disk import disk_errors, used, write_whole
from bisect_bot.model import Artifact
from bisect_bot.scratch import scratch

STAMP = "stamp.json"
COMMIT_ID = re.compile(rb"git-commit-id=([0-9a-f]{7,40})")


class FileStamp(BaseModel):
    """Size in bytes and hex sha256 of one file."""

    model_config = ConfigDict(frozen=True)

    size: int
    sha256: str


class Stamp(BaseModel):
    """What makes an entry complete: its digest (`sha256:…`) and all of its files by relative POSIX path."""

    model_config = ConfigDict(frozen=True)

    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    files: dict[str, FileStamp]


class Record(BaseModel):
    """What one key gave. `commit` is the id inside the WebAssembly, `declared_commit` one that the source states.

    `integrity` is the source's checksum; `sources` are git blob ids of upstream's source files that came along,
    by their path in the package.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    revision: str
    digest: str = Field(default="", pattern=r"^(sha256:[0-9a-f]{64})?$")
    commit: str | None = None
    declared_commit: str | None = None
    integrity: str | None = None
    sources: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Store:
    """The store below the folder `root`, which is made on the first write."""

    root: Path

    @property
    def tmp(self) -> Path:
        """Where entries are made: on the same filesystem, so that a rename completes them."""
        return self.root / "tmp"

    @property
    def records(self) -> Path:
        """The folder of the records, one file a key."""
        return self.root / "keys"

    def record(self, key: str) -> Record | None:
        """What `key` gave, or None when it was never stored or its record cannot be read."""
        try:
            record = Record.model_validate_json(self._record_path(key).read_bytes())
        except (OSError, ValidationError):
            return None
        return record if record.key == key and record.digest else None

    def is_record_of(self, key: str, path: Path) -> bool:
        """Whether `path` is where the record of `key` lies."""
        return path.name == self._record_path(key).name

    def find(self, key: str) -> Artifact | None:
        """The artifact of `key`, or None when it is not here or no longer whole (files lack, or changed size)."""
        record = self.record(key)
        if record is None or not self._is_whole(record.digest):
            return None
        used(self._entry(record.digest) / STAMP)
        return Artifact(record.revision, key, record.digest, self._entry(record.digest) / "files", record.commit)

    def is_intact(self, artifact: Artifact) -> bool:
        """Whether each byte of `artifact` is what it was when it was stored; a damaged one is removed.

        Reads all of it: a fraction of a second.
        """
        entry = self._entry(artifact.digest)
        with contextlib.suppress(OSError):
            stamp = Stamp.model_validate_json((entry / STAMP).read_bytes())
            if describe(entry / "files") == stamp:
                return True
        with disk_errors(self.root), scratch(self.tmp) as place, contextlib.suppress(FileNotFoundError):
            entry.rename(place.path / "damaged")
        return False

    def add(self, record: Record, files: Path) -> Artifact:
        """Moves the folder `files` (below `tmp`) into the store under `record.key`; its digest is filled in.

        When another process stored the same bytes first, those are used. Raises DiskFull or MachineError; the
        store is then as it was.
        """
        with disk_errors(self.root), scratch(self.tmp) as place:
            stamp = describe(files)
            staged = place.path / "entry"
            staged.mkdir()
            files.rename(staged / "files")
            write_whole(staged / STAMP, stamp.model_dump_json())
            self._publish(staged, stamp.digest, place.path)
            complete = record.model_copy(update={"digest": stamp.digest})
            write_whole(self._record_path(record.key), complete.model_dump_json())
        return Artifact(record.revision, record.key, stamp.digest, self._entry(stamp.digest) / "files", complete.commit)

    def _publish(self, staged: Path, digest: str, aside: Path) -> None:
        target = self._entry(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(10):
            if self._is_whole(digest):
                used(target / STAMP)
                return
            try:
                staged.rename(target)
                return
            except OSError:
                # Taken: by a process that was faster (the next look finds it whole), or by a damaged entry.
                if not target.exists():
                    raise
                if not self._is_whole(digest):
                    target.rename(aside / f"damaged-{attempt}")
        raise OSError(f"{target} cannot be replaced")

    def _is_whole(self, digest: str) -> bool:
        entry = self._entry(digest)
        try:
            stamp = Stamp.model_validate_json((entry / STAMP).read_bytes())
            return stamp.digest == digest and all(
                (entry / "files" / name).stat().st_size == file.size for name, file in stamp.files.items()
            )
        except (OSError, ValidationError):
            return False

    def _entry(self, digest: str) -> Path:
        name = digest.removeprefix("sha256:")
        return self.root / "artifacts" / name[:2] / name

    def _record_path(self, key: str) -> Path:
        return self.records / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def describe(files: Path) -> Stamp:
    """The stamp of a folder of files: sha256 of each, and the digest over sorted paths and masked contents.

    In a `.wasm` the commit id after `git-commit-id=` is left out of the digest: it is all in which rebuilt bytes
    differ. Raises OSError.
    """
    digest = hashlib.sha256()
    stamps: dict[str, FileStamp] = {}
    for path in sorted(_walk(files), key=lambda p: p.relative_to(files).as_posix()):
        name = path.relative_to(files).as_posix()
        data = path.read_bytes()
        stamps[name] = FileStamp(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        masked = COMMIT_ID.sub(b"git-commit-id=", data) if name.endswith(".wasm") else data
        digest.update(f"{name}\0{hashlib.sha256(masked).hexdigest()}\n".encode())
    return Stamp(digest=f"sha256:{digest.hexdigest()}", files=stamps)


def _walk(folder: Path) -> list[Path]:
    return [Path(root) / name for root, _, names in os.walk(folder) for name in names]
