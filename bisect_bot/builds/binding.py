"""Glue of the WebAssembly that bundles of an era hold inside: filled in when it is known whose it has to be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Binding(BaseModel):
    """The scripts `files`, which upstream's build takes from `folder`; a published package has them in `packaged`.

    Bundles are built around placeholders instead. `as_text` are the scripts that a bundle holds as a string; `patch`
    are replacements (pattern, text) that upstream's own build makes in the others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: str
    packaged: str
    files: tuple[str, ...]
    as_text: tuple[str, ...] = ()
    patch: tuple[tuple[str, str], ...] = ()

    def placeholders(self) -> dict[str, bytes]:
        """What to write instead of each script, by its path."""
        return {
            f"{self.folder}/{name}": (
                _mark(name) if name in self.as_text else f'module.exports = "{_mark(name)}";\n'
            ).encode()
            for name in self.files
        }

    def fill(self, bundle: str, glue: Mapping[str, str]) -> str:
        """The text of a bundle with the scripts of `glue` where their placeholders stand."""
        for name, script in glue.items():
            text = json.dumps(script) if name in self.as_text else _wrapped(self._patched(script))
            # The whole line: a bundle may hold another bundle as a string, where it would be no code.
            line = re.compile(rf"""^(\s*[\w$]+\.exports = )["'`]{re.escape(_mark(name))}["'`];$""", re.MULTILINE)
            bundle = line.sub(lambda match, text=text: f"{match[1]}{text};", bundle)  # type: ignore[misc]
        return bundle

    def put_into(self, files: Path) -> None:
        """Moves the scripts of a folder of files into its bundles. Raises OSError."""
        glue = {name: (files / name).read_text(encoding="utf-8") for name in self.files if (files / name).is_file()}
        for bundle in sorted(files.glob("ort.*.js")):
            text = self.fill(bundle.read_text(encoding="utf-8"), glue)
            # Not in place: it is the part's own file, linked.
            bundle.unlink()
            bundle.write_text(text, encoding="utf-8")
        for name in glue:
            (files / name).unlink()

    def _patched(self, script: str) -> str:
        for pattern, text in self.patch:
            script = re.sub(pattern, text, script)
        return script


def _mark(name: str) -> str:
    return f"@@{name}@@"


def _wrapped(script: str) -> str:
    """A CommonJS script as an expression that is what it exports."""
    body = f"var exports = module.exports;\n{script}\nreturn module.exports;"
    return f"(function (module) {{ {body} }})({{ exports: {{}} }})"
