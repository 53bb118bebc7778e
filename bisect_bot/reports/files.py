"""The files that every session leaves in its `--out` folder."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from bisect_bot.errors import DiskFull, UsageError
from bisect_bot.model import Report
from bisect_bot.reports.html_report import to_html
from bisect_bot.reports.json_report import dumps
from bisect_bot.reports.markdown import to_markdown

_FULL = (errno.ENOSPC, errno.EDQUOT)


def write(report: Report, out: Path) -> tuple[Path, Path, Path]:
    """Writes `report.json`, `report.md` and `report.html` into `out`; returns their paths. Raises as `write_texts`."""
    texts = {"report.json": dumps(report), "report.md": to_markdown(report), "report.html": to_html(report)}
    write_texts(texts, out, f"bisect-bot report {report.session} --format md")
    return out / "report.json", out / "report.md", out / "report.html"


def write_texts(texts: Mapping[str, str], out: Path, again: str) -> None:
    """Writes `texts` by file name into `out`, which is made when it is missing.

    Each file is replaced as a whole: a reader, or a kill at any instant, meets the old one or the new one. Raises
    DiskFull, and UsageError when `out` cannot be written for another reason; both advise the command `again`.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            _replace(out / name, text)
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(f"no space is left for the report in {out}", f"make room, then: {again}") from error
        raise UsageError(
            f"the report cannot be written to {out}: {error.strerror or error}", f"choose another --out, or: {again}"
        ) from error


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
