"""A tiny stand-in for a bundle, whose behaviour a case's "model" names: for what a real bundle does not do on order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bisect_bot.model import Artifact, Bundle, Case, DataSet, Loader, Tensor

# The model's bytes are words: what create() and run() do.
RUNTIME = """
class Tensor { constructor(type, data, dims) { this.type = type; this.data = data; this.dims = dims; } }
let poisoned = false;
let released = 0;
const alive = new Set();
const models = new Set();
const pages = Number(sessionStorage.pages || 0) + 1;
sessionStorage.pages = pages;
class InferenceSession {
  static async create(bytes, options) {
    const words = new TextDecoder().decode(bytes).split(' ');
    console.log('created with ' + options.executionProviders.join(','));
    if (words.includes('throw-in-create')) { throw new Error('cannot create'); }
    const session = new InferenceSession();
    session.words = words;
    session.outputNames = ['y'];
    session.runs = 0;
    session.afterRelease = released > 0;
    if (words.includes('places')) {
      const moved = (words.includes('moves-on-recreate') && released > 0) ||
        (words.includes('moves-in-second-page') && pages === 2);
      const provider = words.includes('other') ? 'Other' : moved ? 'CPU' : 'Js';
      const where = '[V:onnxruntime:, session_state.cc:1151 VerifyEachNodeIsAssignedToAnEp]';
      const at = `${performance.now()} ${where}`;
      console.error(`${at}  Node(s) placed on [${provider}ExecutionProvider]. Number of nodes: 1`);
      console.error(`${at}   Neg (n)`);
    }
    alive.add(session);
    models.add(words.join(' '));
    return session;
  }
  isWrong() {
    const words = this.words;
    return (words.includes('wrong-on-second-run') && this.runs === 2) ||
      (words.includes('wrong-after-recreate') && this.afterRelease) ||
      (words.includes('wrong-with-two-sessions') && alive.size > 1 && models.size === 1) ||
      (words.includes('wrong-while-other-alive') && alive.size > 1 && models.size > 1) ||
      (words.includes('wrong-after-other') && alive.size === 1 && models.size > 1) ||
      (words.includes('wrong-in-second-page') && pages === 2);
  }
  async run(feeds) {
    this.runs += 1;
    if (this.words.includes('hang-on-second-run') && this.runs === 2) { for (;;) { } }
    if (this.words.includes('throw-on-second-run') && this.runs === 2) { throw new Error('kernel failed'); }
    if (this.words.includes('add')) {
      const sum = feeds.x.data.map((value, i) => value + feeds.state.data[i]);
      return { y: new Tensor('float32', sum, feeds.x.dims) };
    }
    if (poisoned) { throw new Error('not allowed to be called recursively'); }
    const words = this.words;
    if (words.includes('throw')) { poisoned = true; throw new TypeError('kernel failed'); }
    if (words.includes('hang')) { for (;;) { } }
    if (words.includes('wait')) { await new Promise(() => 0); }
    if (words.includes('leave')) { location.href = 'about:blank'; await new Promise(() => 0); }
    if (words.includes('reload')) { location.reload(); await new Promise(() => 0); }
    if (words.includes('alert')) { alert('stop'); }
    if (words.includes('string')) { return { y: new Tensor('string', ['a'], [1]) }; }
    if (words.includes('lie')) { return { y: new Tensor('float32', new Float32Array(3), [4]) }; }
    if (words.includes('log')) { for (let i = 0; i < 10000; i += 1) { console.log('x'.repeat(10000)); } }
    if (words.includes('gpu')) {
      const adapter = await navigator.gpu.requestAdapter();
      const device = await adapter.requestDevice();
      const bad = words.includes('bad-shader');
      const code = bad ? 'this is no WGSL' : '@compute @workgroup_size(1) fn main() {}';
      const module = device.createShaderModule({ code });
      const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: 'main' } });
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.dispatchWorkgroups(1);
      pass.dispatchWorkgroups(1);
      pass.end();
      device.queue.submit([encoder.finish()]);
      if (words.includes('destroy-in-run')) { device.destroy(); }
      this.device = device;
    }
    return { y: this.isWrong() ? new Tensor('float32', new Float32Array(6), [2, 3]) : feeds.x };
  }
  async release() {
    released += 1;
    alive.delete(this);
    if (this.words.includes('bad-on-release')) { this.device.createShaderModule({ code: 'this is no WGSL' }); }
    if (this.words.includes('destroy-on-release')) { this.device.destroy(); }
    if (this.words.includes('throw-in-release')) { throw new Error('cannot release'); }
  }
}
"""
MODULE = RUNTIME + "export { Tensor, InferenceSession };\n"
SCRIPT = f"window.ort = (function () {{ {RUNTIME} return {{ Tensor, InferenceSession }}; }})();\n"
INPUT = np.arange(6, dtype=np.float32).reshape(2, 3)


def planted_artifact(folder: Path) -> Artifact:
    """An artifact with the stand-in as module and as script, and a bundle that does not parse."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ort.mjs").write_text(MODULE)
    (folder / "ort.js").write_text(SCRIPT)
    (folder / "broken.mjs").write_text("this is not JavaScript")
    return Artifact("planted", "planted", "sha256:planted", folder)


def planted_bundle(file: str = "ort.mjs") -> Bundle:
    """The bundle over `file` of a planted artifact."""
    loader = Loader.MODULE if file.endswith(".mjs") else Loader.SCRIPT
    return Bundle("planted", file, loader, "planted")


def planted_cases(folder: Path, *words: str) -> Sequence[Case]:
    """One case per text of words, each giving its input back unless a word says otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for index, text in enumerate(words):
        model = folder / f"{index}.model"
        model.write_text(text)
        tensors = [Tensor(name, "float32", INPUT.shape, INPUT.tobytes()) for name in ("x", "y")]
        cases.append(
            Case(f"{index}-{text}", f"{index}-{text}", model, (DataSet("0", (tensors[0],), (tensors[1],)),), "files")
        )
    return cases
