"""Makes small real git repositories with upstream's layout, whose own commands build bundles that really load.

    upstream = Upstream(tmp_path / "repo", bundle_dir)         # bundle_dir: files of a published build, or stand_in(…)
    old = upstream.plant("All is well")                        # 40 hex digits; one day later each, from 2024-10-24 on
    bad = upstream.plant("Break MatMul", wrong=["MatMul"])     # one edited file, js/web/lib/planted.json
    upstream.cpp("Change C++ only")                            # onnxruntime/core/…: the js part stays the same
    upstream.plant("Does not build", fails="no such thing")    # the build ends with status 1 and these words
    upstream.glue("Change the glue", other_bundle_dir)         # another build's bundle, and onnxruntime/wasm changes
    upstream.commit("Anything", {"js/common/lib/index.ts": "…", "gone.txt": None}, date="2024-12-01T10:00:00Z")
    version = upstream.publish(cache, bad)                     # puts the published build of that commit into a cache

`upstream.path` is what `--repo` names. The recipe of the era JSEP (configs/recipes.toml) builds these commits: `npm ci`
with empty lock files, `npm run build` and `npm run prepare`, then `node ./script/build --bundle-mode=dev`, which puts
the bundle of `bundle_dir` in place with the planted change: models that contain an operator of `wrong` get their first
output element changed, those with one of `throws` fail; `on` names the providers for which they do (default: all).
tools/ci_build/build.py fails unless onnxruntime/wasm/built.mjs and built.wasm are there; those are then what it builds.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisect_bot.builds import published
from bisect_bot.builds.parts import link_or_copy
from bisect_bot.builds.store import Record, Store
from bisect_bot.processes import run
from bisect_bot.scratch import scratch
from tests import planted

PLANTED = "js/web/lib/planted.json"
BASE = "js/web/lib/base.js"
WASM = ("ort-wasm-simd-threaded.jsep.mjs", "ort-wasm-simd-threaded.jsep.wasm")
_BUNDLES = ("ort.all.min.js", "ort.all.js", "ort.js")
_BEGIN = dt.datetime(2024, 10, 24, 12, tzinfo=dt.UTC)
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Carl Committer",
    "GIT_COMMITTER_EMAIL": "carl@example.com",
}

# Changes what a loaded bundle answers; PLANTED stands for what planted.json says.
PLANT = """
(function (ort, planted) {
  const create = ort.InferenceSession.create;
  ort.InferenceSession.create = async function (bytes, options) {
    const session = await create.apply(this, arguments);
    const providers = ((options || {}).executionProviders || ['wasm']).map((each) => each.name || each);
    const model = typeof bytes === 'string' ? '' : new TextDecoder('latin1').decode(bytes);
    const hit = (operators) => (operators || []).some((name) => model.includes(name)) &&
      (!(planted.on || []).length || planted.on.some((name) => providers.includes(name)));
    if (!hit(planted.wrong) && !hit(planted.throws)) { return session; }
    const run = session.run.bind(session);
    session.run = async function () {
      if (hit(planted.throws)) { throw new Error('planted failure'); }
      const results = await run.apply(null, arguments);
      for (const name of Object.keys(results)) {
        const data = results[name].data;
        data[0] = typeof data[0] === 'bigint' ? data[0] + 1n : typeof data[0] === 'number' ? data[0] + 1 : data[0];
      }
      return results;
    };
    return session;
  };
})(ort, PLANTED);
"""

_BUILD = """
// As upstream's: compiled by `npm run prepare`, needs onnxruntime-common, makes a bundle and one of the tests.
const fs = require('fs');
const path = require('path');
const web = path.join(__dirname, '..');
const read = (name) => fs.readFileSync(path.join(web, name), 'utf8');
const planted = JSON.parse(read('lib/planted.json'));
if (planted.fails) {
  console.error('\\u2718 [ERROR] ' + planted.fails);
  process.exit(1);
}
if (planted.leaves) {
  const sleeper = require('child_process').spawn('sleep', [planted.leaves], { stdio: 'ignore' });
  fs.writeFileSync(path.join(web, '..', '..', '..', 'sleeper'), String(sleeper.pid));
  sleeper.unref();
}
if (planted.hangs) { setInterval(() => 0, 1000); }
if (read('test/test-main.ts').includes('broken')) {
  console.error('\\u2718 [ERROR] the tests do not build');
  process.exit(1);
}
const common = read('node_modules/onnxruntime-common/dist/esm/index.js').trim();
const map = Buffer.from(JSON.stringify({ now: Date.now(), at: web })).toString('base64');
fs.mkdirSync(path.join(web, 'dist'), { recursive: true });
fs.writeFileSync(path.join(web, 'dist', 'ort.all.js'),
  read('lib/base.js').replace(/\\n\\/\\/# sourceMappingURL=\\S*\\s*$/, '') +
  read('lib/plant.js').replace('PLANTED', () => JSON.stringify(planted)) +
  `// ort-wasm-simd-threaded.jsep; ${common}\\n//# sourceMappingURL=data:application/json;base64,${map}\\n`);
console.log('built');
"""

_BUILD_PY = """
import pathlib, shutil, sys
root = pathlib.Path(__file__).resolve().parents[2]
print("building with", sys.argv[1:])
made = root / sys.argv[sys.argv.index("--build_dir") + 1] / sys.argv[sys.argv.index("--config") + 1]
made.mkdir(parents=True)
for suffix in ("mjs", "wasm"):
    built = root / "onnxruntime" / "wasm" / f"built.{suffix}"
    if not built.exists():
        sys.exit("subprocess.CalledProcessError: the compiler failed\\nerror: no emsdk here")
    shutil.copy(built, made / f"ort-wasm-simd-threaded.jsep.{suffix}")
"""


def _package(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "version": "1.21.0", **more}


_COMMON_LINK = {"dependencies": {"onnxruntime-common": "file:../common"}}


def _lock(name: str, more: Mapping[str, object], **packages: object) -> str:
    top = {"": {**_package(name), **more}, **packages}
    return json.dumps({**_package(name), "lockfileVersion": 3, "requires": True, "packages": top}, indent=2)


def layout() -> dict[str, str]:
    """The files of the first commit, without a bundle."""
    copy = "require('fs').copyFileSync"
    return {
        "VERSION_NUMBER": "1.21.0\n",
        "README.md": "A small upstream\n",
        "cmake/CMakeLists.txt": "cmake_minimum_required(VERSION 3.26)\n",
        "cmake/deps.txt": "\n",
        "include/onnxruntime/core/session/onnxruntime_c_api.h": "// C\n",
        "onnxruntime/wasm/api.h": "// glue 1\n",
        "onnxruntime/wasm/api.cc": "// C++\n",
        "onnxruntime/core/providers/js/js_kernel.cc": "// C++\n",
        "onnxruntime/core/providers/cpu/nn/pool.cc": "// C++\n",
        "onnxruntime/core/providers/cuda/cuda.cc": "// never part of the WebAssembly\n",
        "onnxruntime/test/providers/cpu/nn/pool_op_test.cc": "// a test\n",
        "tools/ci_build/build.py": _BUILD_PY,
        "js/build_jsep.bat": "rem\n",
        "js/package.json": json.dumps(_package("js", private=True)),
        "js/package-lock.json": _lock("js", {}),
        "js/tsconfig.json": "{}\n",
        "js/tsconfig.tools.json": "{}\n",
        "js/scripts/prepare-onnx-node-tests.ts": "\n",
        "js/common/package.json": json.dumps(_package("onnxruntime-common", scripts={"build": "node ./build.js"})),
        "js/common/package-lock.json": _lock("onnxruntime-common", {}),
        "js/common/tsconfig.json": "{}\n",
        "js/common/build.js": "const fs = require('fs');\nfs.mkdirSync('dist/esm', { recursive: true });\n"
        "fs.copyFileSync('lib/index.ts', 'dist/esm/index.js');\n",
        "js/common/lib/index.ts": "common 1\n",
        "js/web/package.json": json.dumps(
            _package(
                "onnxruntime-web",
                scripts={
                    "prepare": f"node -e \"{copy}('script/build.ts', 'script/build.js')\"",
                    "pull:wasm": "node -e \"console.error('Error: no network here'); process.exit(1)\"",
                },
                **_COMMON_LINK,
            )
        ),
        "js/web/package-lock.json": _lock(
            "onnxruntime-web",
            _COMMON_LINK,
            **{
                "../common": _package("onnxruntime-common"),
                "node_modules/onnxruntime-common": {"resolved": "../common", "link": True},
            },
        ),
        "js/web/tsconfig.json": "{}\n",
        "js/web/types.d.ts": "\n",
        "js/web/script/build.ts": _BUILD,
        "js/web/script/test-runner-cli.ts": "\n",
        "js/web/test/test-main.ts": "tests\n",
        "js/web/test/data/ops/matmul.jsonc": "[]\n",
        "js/web/lib/index.ts": "\n",
        "js/web/lib/wasm/wasm-types.ts": "// glue 1\n",
        "js/web/lib/wasm/wasm-utils-import.ts": "\n",
        "js/web/lib/plant.js": PLANT,
        PLANTED: "{}\n",
    }


@dataclass
class Upstream:
    """The repository at `path` (not bare, branch main), made with a first commit whose bundle is that of `bundle_dir`.

    `bases` are the folders whose bundles commits have, in order of their first commits.
    """

    path: Path
    bundle_dir: Path
    commits: list[str] = field(default_factory=list)
    _bases: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main", ".")
        self.commit("Begin", {**layout(), BASE: bundle_of(self.bundle_dir)})

    @property
    def head(self) -> str:
        """The full id of the newest commit."""
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str, **environment: str) -> str:
        """What `git <arguments>` prints in the repository; fails the test when git fails."""
        env = {**os.environ, **_ENVIRONMENT, **environment}
        done = run(["git", "-c", "gc.auto=0", *arguments], timeout_s=120, cwd=self.path, env=env)
        assert done.status == 0, done.stderr
        return done.stdout.strip()

    def commit(self, title: str, files: Mapping[str, str | bytes | None] | None = None, *, date: str = "") -> str:
        """Writes `files` (None: removes it), commits, gives the id. `date`: ISO 8601, default: a day after the last."""
        for name, content in (files or {}).items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                target.unlink()
            else:
                target.write_bytes(content.encode() if isinstance(content, str) else content)
        when = date or (_BEGIN + dt.timedelta(days=len(self.commits))).isoformat()
        self.git("add", "--all", ".")
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        self.git("commit", "--quiet", "--allow-empty", "--no-verify", "-m", title, **dates)
        self.commits.append(self.head)
        if files is None or BASE not in files:
            self._bases[self.head] = self._base()
        else:
            self._bases[self.head] = self.bundle_dir
        return self.head

    def plant(
        self,
        title: str,
        *,
        wrong: Sequence[str] = (),
        throws: Sequence[str] = (),
        on: Sequence[str] = (),
        fails: str = "",
        date: str = "",
        **more: object,
    ) -> str:
        """A commit whose bundle answers as told. An unchanged one changes nothing but history."""
        what: dict[str, object] = {"wrong": list(wrong), "throws": list(throws), "on": list(on), "fails": fails, **more}
        said = json.dumps({name: value for name, value in what.items() if value})
        return self.commit(title, {PLANTED: f"{said}\n"}, date=date)

    def cpp(self, title: str, path: str = "onnxruntime/core/providers/cpu/nn/pool.cc", *, date: str = "") -> str:
        """A commit that changes C++ only."""
        before = (self.path / path).read_text() if (self.path / path).exists() else ""
        return self.commit(title, {path: f"{before}// {title}\n"}, date=date)

    def glue(self, title: str, bundle_dir: Path | None = None, *, date: str = "") -> str:
        """A commit that changes the glue, and the bundle to that of another published build `bundle_dir`."""
        files: dict[str, str | bytes | None] = {"onnxruntime/wasm/api.h": f"// {title}\n"}
        if bundle_dir is not None:
            self.bundle_dir = bundle_dir
            files[BASE] = bundle_of(bundle_dir)
        return self.commit(title, files, date=date)

    def publish(self, cache: Path, commit: str, version: str = "") -> str:
        """Puts the published build of `commit` into `cache`, and returns its version (default: a dev build's name).

        Its bundles answer as the commit's do; its WebAssembly is that of the folder that the commit's bundle is of.
        """
        day = self.git("show", "--no-patch", "--format=%cd", "--date=format:%Y%m%d", commit)
        version = version or f"1.21.0-dev.{day}-{commit[:10]}"
        what = self.git("show", f"{commit}:{PLANTED}")
        store = Store(cache)
        with scratch(store.tmp) as place:
            files = place.path / "files"
            shutil.copytree(self._bases[commit], files, copy_function=link_or_copy_file)
            for bundle in sorted(files.glob("ort.*js")):
                plant_bundle(bundle, what)
            store.add(Record(key=published.key(version), revision=version, commit=commit[:10]), files)
        return version

    def _base(self) -> Path:
        return self._bases[self.commits[-2]] if len(self.commits) > 1 else self.bundle_dir


def plant_bundle(bundle: Path, what: str) -> None:
    """Makes a bundle of a published build answer as the JSON `what` says."""
    if bundle.suffix == ".mjs":
        real = bundle.with_name(f"real.{bundle.name}")
        bundle.rename(real)
        names = f"import * as ort from './{real.name}';\nexport * from './{real.name}';\n"
        bundle.write_text(f"{names}export {{ default }} from './{real.name}';\n{PLANT.replace('PLANTED', what)}")
    else:
        text = bundle.read_text(encoding="utf-8")
        bundle.unlink()
        bundle.write_text(text + PLANT.replace("PLANTED", what), encoding="utf-8")


def bundle_of(folder: Path) -> str:
    """The text of the script in `folder` that sets `ort` and has all backends."""
    found = next(folder / name for name in _BUNDLES if (folder / name).is_file())
    return found.read_text(encoding="utf-8")


def stand_in(folder: Path, name: str = "stand-in") -> Path:
    """A folder like a published build's, whose bundle is the stand-in of tests/planted.py: no browser needs network."""
    folder.mkdir(parents=True)
    (folder / "ort.all.js").write_text(f"// {name}\nvar ort = {planted.SCRIPT.removeprefix('window.ort = ')}")
    for file in WASM:
        (folder / file).write_text(f"{name} {file}")
    return folder


def link_or_copy_file(source: str, target: str) -> str:
    """`link_or_copy` for shutil."""
    link_or_copy(Path(source), Path(target))
    return target
