"""Glue that bundles hold inside comes from the build that lends its WebAssembly."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from bisect_bot.builds.binding import Binding
from bisect_bot.builds.node import Node
from bisect_bot.builds.package import extract
from bisect_bot.builds.recipes import load
from bisect_bot.errors import BuildUnusable
from bisect_bot.processes import run

BINDING = Binding(
    folder="lib/binding",
    packaged="lib/binding",
    files=("plain.js", "threaded.js", "worker.js"),
    as_text=("worker.js",),
    patch=((r"_scriptDir(&&\(.+=_scriptDir\))", r"(typeof _scriptDir !== 'undefined' && _scriptDir)\1"),),
)
# As emscripten writes it.
GLUE = """
var ortWasm = (() => { var _scriptDir = 'here';
  return () => { var H; _scriptDir&&(H=_scriptDir); return '%s' + H; }; })();
if (typeof exports === 'object' && typeof module === 'object') module.exports = ortWasm;
"""


def placed(folder: Path) -> Path:
    """A folder with a bundle as esbuild makes it around the placeholders, and the glue."""
    folder.mkdir()
    modules = "".join(
        f"  var {name[:-3]} = ((module2) => {{\n      module2.exports = {text};\n  return module2.exports; }})({{}});\n"
        for name, text in (
            ("plain.js", '"@@plain.js@@"'),
            ("threaded.js", '"@@threaded.js@@"'),
            ("worker.js", '"@@worker.js@@"'),
        )
    )
    inner = r"""  var proxy = 'module2.exports = "@@plain.js@@";\n';"""
    (folder / "ort.all.js").write_text(
        f'"use strict";\n(() => {{\n{modules}{inner}\n'
        "  console.log(JSON.stringify([plain(), threaded(), worker, proxy]));\n})();\n"
    )
    for name in ("plain", "threaded"):
        (folder / f"{name}.js").write_text(GLUE % name)
    (folder / "worker.js").write_text('self.onmessage = "\\n`${1}";\n')
    return folder


def test_the_placeholders_are_what_upstreams_build_reads_instead() -> None:
    assert BINDING.placeholders() == {
        "lib/binding/plain.js": b'module.exports = "@@plain.js@@";\n',
        "lib/binding/threaded.js": b'module.exports = "@@threaded.js@@";\n',
        "lib/binding/worker.js": b"@@worker.js@@",
    }


def test_a_filled_bundle_runs_with_the_glue(tmp_path: Path) -> None:
    folder = placed(tmp_path / "files")
    BINDING.put_into(folder)
    done = run([Node.find().executable, str(folder / "ort.all.js")], timeout_s=60)
    assert done.stdout.strip() == (
        r"""["plainhere","threadedhere","self.onmessage = \"\\n`${1}\";\n","module2.exports = \"@@plain.js@@\";\n"]"""
    ), done.stderr
    assert "typeof _scriptDir !== 'undefined'" in (folder / "ort.all.js").read_text()
    assert [path.name for path in folder.iterdir()] == ["ort.all.js"]


def test_the_eras_replacements_are_those_of_upstreams_build() -> None:
    binding = next(recipe.binding for recipe in load().recipe if recipe.binding)
    filled = binding.fill(
        '      module2.exports = "@@ort-wasm-simd-threaded.jsep.js@@";',
        {"ort-wasm-simd-threaded.jsep.js": "if (_scriptDir) { x }, _scriptDir&&(H=_scriptDir),0"},
    )
    assert 'if (typeof _scriptDir !== "undefined" && _scriptDir) { x }' in filled
    assert '(typeof _scriptDir !== "undefined" && _scriptDir)&&(H=_scriptDir),0' in filled


def test_glue_is_taken_out_of_a_package_and_a_lacking_one_is_told(tmp_path: Path) -> None:
    tarball = tmp_path / "package.tgz"
    with tarfile.open(tarball, "w:gz") as archive:
        member = tarfile.TarInfo("package/lib/binding/plain.js")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"glue"))
    extract(tarball, "lib/binding", ["plain.js"], tmp_path)
    assert (tmp_path / "plain.js").read_bytes() == b"glue"
    with pytest.raises(BuildUnusable, match=r"the package lacks lib/binding/worker\.js"):
        extract(tarball, "lib/binding", ["worker.js"], tmp_path)
