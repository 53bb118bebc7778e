"""Where things lie: the cache root and the configuration files that come with the package."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """The root of the source checkout that this package runs from, or None when it was installed."""
    root = PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "configs").is_dir() else None


def cache_root() -> Path:
    """The folder of artifacts, pinned cases and the journal; not created here.

    `BISECT_BOT_CACHE` overrides; else `cache/` of a checkout, else the user's cache folder.
    """
    override = os.environ.get("BISECT_BOT_CACHE")
    if override:
        return Path(os.path.expanduser(override)).absolute()  # noqa: PTH111 - Path's own raises for unknown users
    root = checkout()
    return root / "cache" if root else Path(platformdirs.user_cache_dir("bisect-bot"))


def config_file(name: str) -> Path:
    """The path of the shipped configuration file `name`, from the checkout or the installed package."""
    root = checkout()
    return (root or PACKAGE) / "configs" / name
