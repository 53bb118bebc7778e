"""A stand-in for upstream's test runner, as one file: it prints what the real one prints, and needs no browser.

    upstream.commit("Add the runner", {RUNNER: SCRIPT})        # in the repository of tests/upstream.py

It takes the real one's words, reads the same files (a manifest, or the suite's list and the folders of its models), and
answers as `js/web/lib/planted.json` says: tests of an operator of `wrong` get a wrong output (for backends of `on`, or
all), with the GPU error `gpu` beside it, those of `throws` fail with an exception, those of `prints` end the run after
printing what `says` says, those of `silent` never come to an end, and with `fails` nothing is built. `batch` prints
results after all messages, as karma does before its WebSocket is there. Each run adds a line to `js/web/runs.json`: the
words it was given, the tests it ran, and what was in `js/web/dist`.
"""

from __future__ import annotations

RUNNER = "js/web/script/test-runner-cli.js"

SCRIPT = r"""
const fs = require('fs');
const path = require('path');
const web = path.join(__dirname, '..');
const words = process.argv.slice(2);
const option = (name) => words[words.indexOf('--' + name) + 1];
const plan = path.join(web, 'lib', 'planted.json');
const planted = fs.existsSync(plan) ? JSON.parse(fs.readFileSync(plan, 'utf8')) : {};
const has = (list, text) => (list || []).some((name) => text.includes(name));

console.log('info TestRunnerCli Initializing...');
if (planted.fails) {
  console.log('Building "web/dist/ort.all.js"...\n\u2718 [ERROR] ' + planted.fails + '\n\n1 error');
  process.exit(1);
}
console.log('Building "web/dist/ort.all.js"...');

const tests = [];
if (words[0] === 'op') {
  for (const test of JSON.parse(fs.readFileSync(path.join(web, 'test/data/ops', words[1]), 'utf8'))) {
    tests.push({
      group: '#OpTest# - ' + words[1],
      backend: option('backend'),
      name: `[${option('backend')}]${test.operator} - ${test.name}`,
      text: test.operator,
      sets: test.cases.map((each) => ({ name: each.name, output: each.outputs[0] })),
    });
  }
} else {
  const list = JSON.parse(fs.readFileSync(path.join(web, 'test/suite-test-list.jsonc'), 'utf8'));
  const root = path.join(web, '..', 'test/data/node');
  for (const backend of option('backend').split(',')) {
    for (const opset of fs.readdirSync(root).sort()) {
      for (const name of fs.readdirSync(path.join(root, opset)).sort()) {
        if (!list[backend].node.includes(name)) { continue; }
        const folder = path.join(root, opset, name);
        const sets = fs.readdirSync(folder).filter((each) => each !== 'model.onnx').sort();
        tests.push({
          group: `#ModelTest# - node-${opset}-${backend}`,
          backend,
          name: `[${backend}] ${name}`,
          text: fs.readFileSync(path.join(folder, 'model.onnx'), 'latin1'),
          sets: sets.map((each) => ({ name: each, output: { type: 'float32', dims: [1], data: [1] } })),
        });
      }
    }
  }
}
fs.appendFileSync(path.join(web, 'runs.json'), JSON.stringify({
  words, tests: tests.map((test) => test.name), dist: fs.readdirSync(path.join(web, 'dist')).sort(),
}) + '\n');

console.log('info TestRunnerCli.Run (4/4) Running karma to start test runner...\n\nSTART:');
const browser = 'Chrome Headless 156.0.0.0 (Linux x86_64)';
console.log(`\u001b[32m30 11 2026 20:01:03.953:INFO [${browser}]: \u001b[39mConnected on socket AAAB with id 46056035`);
const log = (who, text) =>
  console.log(`LOG: '\u001b[31;40me\u001b[0m \u001b[35m${who}\u001b[0m 2026-11-30T20:01:06.790Z|${text}'`);
const held = [], failures = [];
const print = (line) => planted.batch ? held.push(line) : console.log(line);
for (const test of tests) {
  if (has(planted.prints, test.text)) {
    console.log(planted.says);
    process.exit(1);
  }
  if (has(planted.silent, test.text)) { setInterval(() => 0, 1000); break; }
  print(`  ${test.group}\n    ${test.name}`);
  for (const set of test.sets) {
    const on = !(planted.on || []).length || planted.on.includes(test.backend);
    let said = '';
    if (on && has(planted.wrong, test.text)) {
      const { type, dims, data } = set.output;
      const wrong = [data[0] + 1, ...data.slice(1)];
      const side = (name, values) => `${name}: type=${type}; dims=[${dims}]; data=[${values}]`;
      log('Validator', `abs/rel check failed-- index:0: actual=${wrong[0]},expected=${data[0]}`);
      if (planted.gpu) { console.log(`ERROR: 'An uncaught WebGPU validation error was raised: ${planted.gpu}\n'`); }
      log('TestRunner', `Tensor mismatch: \n${side('ACTUAL', wrong)}\n${side('EXPECT', data)}`);
      said = 'AssertionError: tensor data should match: expected false to be true\n' +
        '          at runProtoOpTestcase (test/ort.test.js:43633:16)';
    } else if (on && has(planted.throws, test.text)) {
      said = 'Error: planted failure\n          at run (dist/ort.all.js:39058:25)';
    }
    print(`      ${said ? '\u2716' : '\u2714'} ${set.name}`);
    if (said) {
      failures.push(`  ${test.group}\n    ${test.name}\n      \u2716 ${set.name}\n        ${browser}\n      ${said}\n`);
    }
  }
}
if (!tests.some((test) => has(planted.silent, test.text))) {
  for (const line of held) { console.log(line); }
  console.log('\nFinished in 2.623 secs / 1.356 secs @ 20:01:07 GMT+0000\n');
  console.log(`SUMMARY:\n\u2716 ${failures.length} tests failed\n`);
  if (failures.length) { console.log('FAILED TESTS:\n' + failures.join('\n')); }
  process.exit(failures.length ? 1 : 0);
}
"""
