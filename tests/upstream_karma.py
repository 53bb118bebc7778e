"""A checkout whose runner starts real karma, as upstream's does, with tests in the place of onnxruntime's.

    karma_checkout(tmp_path / "tree", electron)                # electron: what node_modules/electron leads to

`js/web` gets karma, karma-electron and mocha from npm; its bundle is what the runner writes: each test of a manifest
computes its operator in the page: `Abs` does so, `Page` passes in a page of Electron without Node.js only, `Hang` never
ends; with a test of `Static` the bundle has a static block.
"""

from __future__ import annotations

import json
from pathlib import Path

from bisect_bot.processes import run

NPM_TIMEOUT_S = 300.0
PACKAGES = ("karma@6.4.1", "karma-electron@7.3.0", "karma-mocha@2.0.1", "karma-mocha-reporter@2.2.5", "mocha@10.2.0")

_RUNNER = r"""
const fs = require('fs');
const path = require('path');
const { spawnSync } = require('child_process');
const web = path.join(__dirname, '..');
const words = process.argv.slice(2);
const option = (name) => words[words.indexOf('--' + name) + 1];
const tests = JSON.parse(fs.readFileSync(path.join(web, 'test/data/ops', words[1]), 'utf8'));
const needs = tests.some((test) => test.operator === 'Static') ? 'class Needs {\n  static {\n  }\n}\n' : '';
fs.writeFileSync(path.join(web, 'test/ort.test.js'), `${needs}
const same = (left, right) => JSON.stringify(left) === JSON.stringify(right);
const operators = {
  Abs: (data) => data.map(Math.abs),
  Page: (data) => (/^Electron \\d+/.test(navigator.userAgent) && typeof require === 'undefined' ? data : []),
  Hang: () => { for (;;) {} },
};
for (const test of ${JSON.stringify(tests)}) {
  describe('[${option('backend')}]' + test.operator + ' - ' + test.name, () => {
    for (const each of test.cases) {
      it(each.name, async () => {
        const came = await operators[test.operator](each.inputs[0].data);
        if (!same(came, each.outputs[0].data)) { throw new Error('tensor data should match'); }
      });
    }
  });
}
`);
console.log('info TestRunnerCli.Run (4/4) Running karma to start test runner...');
const browser = { chrome: 'ChromeTest', electron: 'Electron' }[option('env')];
const karma = spawnSync('npx', ['karma', 'start', '--browsers ' + browser, '--single-run'],
  { shell: true, stdio: 'inherit', cwd: web });
process.exit(karma.status);
"""

_CONFIGURATION = """
module.exports = (config) => config.set({
  frameworks: ['mocha'],
  files: [{ pattern: 'test/ort.test.js' }],
  client: { captureConsole: true, mocha: { timeout: 60000 } },
  reporters: ['mocha'],
  browserDisconnectTimeout: 600000,
  browserNoActivityTimeout: 300000,
});
"""


def karma_checkout(root: Path, electron: Path) -> None:
    """Makes the checkout at `root`, with `PACKAGES` from npm."""
    web = root / "js/web"
    for folder in ("script", "test/data/ops"):
        (web / folder).mkdir(parents=True)
    (web / "package.json").write_text(json.dumps({"name": "web", "version": "1.0.0", "private": True}))
    (web / "karma.conf.js").write_text(_CONFIGURATION)
    (web / "script/test-runner-cli.js").write_text(_RUNNER)
    options = ("--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--prefer-offline")
    done = run(["npm", "install", *options, *PACKAGES], timeout_s=NPM_TIMEOUT_S, cwd=web)
    assert done.status == 0, done.stderr
    package = web / "node_modules/electron"
    package.mkdir(exist_ok=True)
    (package / "package.json").write_text(json.dumps({"name": "electron", "version": "0.0.0", "main": "index.js"}))
    (package / "index.js").write_text(f"module.exports = {json.dumps(str(electron))};\n")
