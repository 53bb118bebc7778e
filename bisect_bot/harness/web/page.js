// The page that any target opens: asks the server for work, does it, answers, asks again. It judges nothing.
// ES2019: old Electrons open this page too.
(function () {
  'use strict';

  const gpu = window.harnessGpu;
  const tensors = window.harnessTensors;
  // What the exchange needs, taken before a user's script could change it.
  const fetch = window.fetch.bind(window);
  const { parse, stringify } = JSON;
  const { Blob, TextEncoder, Uint32Array } = window;
  const encodeText = TextEncoder.prototype.encode.bind(new TextEncoder());
  // The server gives it in answer to the page's greeting and takes nothing else without it: whatever a user's script
  // posts itself is refused. A header of the request, which no function that a script may replace gets to see.
  const SECRET = 'Bisect-Bot-Secret';
  let secret = '';
  const EXCHANGE = new URL('exchange', location.href).href;
  const pageId = new URLSearchParams(location.search).get('page');
  const CONSOLE_LINES = 4000;
  const CONSOLE_LINE = 4000;
  const PLACEMENT_LINES = 20000;

  // Lines are kept here and go nowhere else: an attached debugger would be sent each of thousands.
  let consoleLines = [];
  // The runtime's word on which node runs where, kept apart so that no flood of lines washes it away.
  let placementLines = [];
  let placementsKnown = new Set(); // what was said of one session, for each that differs
  const PLACEMENT = /VerifyEachNodeIsAssignedToAnEp|placed on \[/;
  for (const level of ['debug', 'log', 'info', 'warn', 'error']) {
    console[level] = (...args) => {
      const line = `${level}: ${args.map(String).join(' ')}`.slice(0, CONSOLE_LINE);
      if (consoleLines.length < CONSOLE_LINES) {
        consoleLines.push(line);
      }
      if (placementLines.length < PLACEMENT_LINES && PLACEMENT.test(line)) {
        placementLines.push(line);
      }
    };
  }
  window.addEventListener('unhandledrejection', (event) => {
    consoleLines.push(`unhandled rejection: ${messageOf(event.reason)}`.slice(0, CONSOLE_LINE));
  });
  // A script that a browser cannot parse is loaded all the same, as its `load` event has it.
  let uncaught = [];
  window.addEventListener('error', (event) => {
    uncaught.push(String(event.message).slice(0, CONSOLE_LINE));
  });

  // Keeps what `placementLines` says since line `begin` of a session of the case's own model, once where several say
  // the same: those of a large model would fill the list.
  function keepPlacements(begin, isOwn) {
    const lines = placementLines.slice(begin);
    const said = lines.map((line) => line.slice(line.search(PLACEMENT))).join('\n'); // without the time of day
    if (isOwn && !placementsKnown.has(said)) {
      placementsKnown.add(said);
    } else {
      placementLines.length = begin;
    }
  }

  function messageOf(error) {
    return error && error.message !== undefined ? `${error.name || 'Error'}: ${error.message}` : String(error);
  }

  // --- frames: u32 length of the header, the header as JSON, then the blobs that `blobs` gives the lengths of ---

  function encode(header, blobs) {
    // Plain loops: a user's script may have replaced the methods of arrays.
    const sizes = [];
    const parts = [null, null];
    for (let i = 0; i < blobs.length; i += 1) {
      sizes[i] = blobs[i].byteLength;
      parts[i + 2] = blobs[i];
    }
    parts[1] = encodeText(stringify({ ...header, blobs: sizes }));
    parts[0] = new Uint32Array([parts[1].byteLength]);
    return new Blob(parts);
  }

  function decode(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const header = parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    let offset = 4 + length;
    const blobs = header.blobs.map((size) => {
      offset += size;
      return buffer.slice(offset - size, offset);
    });
    return { header, blobs };
  }

  async function exchange(header, blobs) {
    const body = encode({ ...header, page: pageId }, blobs);
    const response = await fetch(EXCHANGE, { method: 'POST', headers: { [SECRET]: secret }, body });
    if (!response.ok) {
      throw new Error(`the server answered ${response.status}`);
    }
    secret = header.kind === 'hello' ? response.headers.get(SECRET) : secret;
    return decode(await response.arrayBuffer());
  }

  // --- one case -------------------------------------------------------------------------------------------------

  let ort = null;

  async function loadBundle(bundle) {
    uncaught = [];
    if (bundle.loader === 'module') {
      // import() is newer than ES2019: hidden from parsers that do not know it.
      const namespace = await new Function('url', 'return import(url)')(new URL(bundle.url, location.href).href);
      ort = namespace.InferenceSession ? namespace : namespace.default;
    } else {
      await new Promise((resolve, reject) => {
        const script = document.createElement('script');
        script.src = bundle.url;
        script.onload = resolve;
        script.onerror = () => reject(new Error(`the script ${bundle.url} did not load`));
        document.head.appendChild(script);
      });
      ort = window.ort;
    }
    if (!ort || !ort.InferenceSession) {
      const why = uncaught.length > 0 ? `: ${uncaught[0]}` : '';
      throw new Error(`${bundle.url} loaded, but gives no InferenceSession${why}`);
    }
    if (bundle.wasm_paths) {
      ort.env.wasm.wasmPaths = new URL(bundle.wasm_paths, location.href).href;
    }
  }

  // A session of `model`. A build that fails without having looked at the external data cannot load any.
  async function createSession(job, model, blobs) {
    const options = { executionProviders: [job.backend], logSeverityLevel: job.log_severity };
    let taken = model.external.length === 0;
    if (!taken) {
      options.externalData = model.external.map(({ path, blob }) => ({
        path,
        get data() {
          taken = true;
          return new Uint8Array(blobs[blob]);
        },
      }));
    }
    try {
      return await ort.InferenceSession.create(new Uint8Array(blobs[model.model]), options);
    } catch (error) {
      throw taken ? error : new Error(`this build did not take the external data: ${messageOf(error)}`);
    }
  }

  // Runs all data sets of `model` with `session`, as frames where outputs are fed back; gives each one's outputs to
  // `take`.
  async function runDataSets(model, session, blobs, timed, take) {
    let before = null;
    for (const dataSet of model.data_sets) {
      const feeds = Object.create(null); // a tensor may be called __proto__
      for (const tensor of dataSet.inputs) {
        feeds[tensor.name] = tensors.toOrt(ort, tensor, blobs[tensor.blob]);
      }
      for (const [output, input] of before ? model.feed : []) {
        feeds[input] = before[output];
      }
      before = await timed(() => gpu.unlessAbandoned(session.run(feeds)));
      const data = [];
      take({ tensors: Object.keys(before).map((name) => tensors.fromOrt(name, before[name], data)), data });
    }
  }

  // Runs one case that is a script, as its one step.
  async function runScript(job, one, result, outputBlobs) {
    result.stage = 'load';
    if (!ort) {
      await loadBundle(job.bundle);
    }
    const step = { name: '', outputs: [], gpu_errors: [], dispatches: 0 };
    result.steps.push(step);
    result.providers = [];
    try {
      await window.harnessScript.run({ ort, job, one, result, step, outputBlobs });
    } finally {
      await gpu.settle();
      step.gpu_errors = gpu.seen().errors;
      result.told = step.gpu_errors.length;
      step.dispatches = gpu.seen().dispatches;
    }
    result.ending = 'completed';
  }

  // Runs one case of the message `job`; fills `result` step by step, so that what was reached is known when a step
  // throws. `tell(step)` is called before each step but the first.
  async function runCase(job, one, blobs, result, outputBlobs, tell) {
    const timed = async (what, work) => {
      const begin = performance.now();
      try {
        return await work();
      } finally {
        result.times_ms.push([what, performance.now() - begin]);
      }
    };

    if (one.script) {
      await runScript(job, one, result, outputBlobs);
      return;
    }
    result.stage = 'load';
    if (job.backend === 'webgpu') {
      if (!gpu.supported) {
        result.ending = 'no-webgpu';
        return;
      }
      result.found = await timed('adapter', () => gpu.findAdapter(job.adapter_attempts));
      if (!result.found) {
        result.ending = 'no-adapter';
        return;
      }
    }
    if (!ort) {
      await timed('load', () => loadBundle(job.bundle));
    }

    const sessions = new Map();
    const first = []; // the outputs of the first step, by data set

    const release = async (name) => {
      const session = sessions.get(name);
      sessions.delete(name);
      gpu.sessionEnds();
      if (session.release) {
        await timed('release', () => gpu.unlessAbandoned(session.release())).catch((error) => {
          result.errors.push(errorOf(error, 'release', result.step));
        });
      }
    };

    const runStep = async (session) => {
      const step = { name: result.step, outputs: [], gpu_errors: [], dispatches: 0 };
      const seen = gpu.seen();
      const isFirst = result.begun === 0;
      result.begun += 1;
      result.steps.push(step);
      try {
        await runDataSets(one, session, blobs, (work) => timed('run', work), (outputs) => {
          const known = first[step.outputs.length];
          if (isFirst) {
            first.push(outputs);
          }
          // What is the same as in the first step, bit by bit, does not travel again.
          if (known && tensors.sameOutputs(known, outputs)) {
            step.outputs.push(null);
          } else {
            step.outputs.push(outputs.tensors);
            outputBlobs.push(...outputs.data);
          }
        });
      } finally {
        await gpu.settle();
        const now = gpu.seen();
        step.gpu_errors = now.errors.slice(result.told);
        result.told = now.errors.length;
        step.dispatches = now.dispatches - seen.dispatches;
      }
    };

    try {
      for (const [what, name, step] of one.operations) {
        const other = name === 'other';
        const before = gpu.seen().dispatches;
        if (step !== result.step) {
          await tell(step);
          result.step = step;
        }
        result.stage = what;
        try {
          if (what === 'create') {
            const model = other ? one.other : one;
            const begin = placementLines.length;
            try {
              const work = () => createSession(job, model, blobs);
              sessions.set(name, await timed(other ? 'create other' : 'create', work));
            } finally {
              keepPlacements(begin, !other);
            }
            gpu.sessionBegins();
          } else if (what === 'release') {
            await release(name);
          } else if (other) {
            await runDataSets(one.other, sessions.get(name), blobs, (work) => timed('run other', work), () => undefined);
          } else {
            await runStep(sessions.get(name));
          }
        } catch (error) {
          throw other ? new Error(`the other model: ${messageOf(error)}`) : error;
        } finally {
          result.elsewhere += other ? gpu.seen().dispatches - before : 0;
        }
      }
    } finally {
      for (const name of Array.from(sessions.keys())) {
        await release(name);
      }
    }
    result.ending = 'completed';
  }

  function errorOf(error, stage, step) {
    return { stage, step, message: messageOf(error), stack: String(error && error.stack) };
  }

  async function doCase(job, one, blobs, post) {
    const result = { index: one.index, ending: 'error', stage: 'harness', steps: [], errors: [] };
    // begun: steps; told: GPU errors that a step names; elsewhere: dispatches of another model.
    Object.assign(result, { times_ms: [], found: null, step: '', begun: 0, told: 0, elsewhere: 0 });
    const outputBlobs = [];
    const begin = performance.now();
    consoleLines = [];
    placementLines = [];
    placementsKnown = new Set();
    // A step that hangs or crashes says no more: what was reached, and what comes next, is told before.
    const tell = async (step) => {
      const blobsOfSteps = outputBlobs.splice(0);
      await post({ kind: 'progress', index: one.index, step, steps: result.steps.splice(0) }, blobsOfSteps);
    };
    try {
      await runCase(job, one, blobs, result, outputBlobs, tell);
    } catch (error) {
      result.errors.unshift(errorOf(error, result.stage, result.step));
    }
    // What comes of the releases is this case's and its last step's, not the next case's.
    await gpu.settle();
    Object.assign(result, gpu.take());
    if (result.steps.length > 0) {
      result.steps[result.steps.length - 1].gpu_errors.push(...result.gpu_errors.slice(result.told));
    }
    result.dispatches -= result.elsewhere;
    result.console = consoleLines;
    result.placed = placementLines;
    result.times_ms.push(['total', performance.now() - begin]);
    return [result, outputBlobs];
  }

  // Runs the cases of a message. The result of each is with the server before the next begins: one that hangs or
  // crashes takes nothing along with it, and is the one that is missing. Resolves with the server's next message: the
  // first answer that is not just "go on".
  async function doCases(job, blobs) {
    for (const one of job.cases) {
      const [result, outputBlobs] = await doCase(job, one, blobs, exchange);
      const reply = await exchange({ kind: 'result', ...result }, outputBlobs);
      if (reply.header.kind !== 'go on') {
        return reply;
      }
    }
    return null;
  }

  async function work() {
    let reply = await exchange({ kind: 'hello', user_agent: navigator.userAgent, isolated: window.crossOriginIsolated }, []);
    for (;;) {
      const job = reply.header;
      if (job.kind === 'cases') {
        reply = await doCases(job, reply.blobs);
      } else if (job.kind === 'adapter') {
        const adapter = gpu.supported ? await gpu.findAdapter(job.adapter_attempts) : null;
        reply = await exchange({ kind: 'adapter', supported: gpu.supported, adapter }, []);
      } else if (job.kind === 'reload') {
        location.reload();
        return;
      } else {
        return;
      }
    }
  }

  work().catch((error) => {
    document.title = `bisect-bot harness: ${messageOf(error)}`;
    exchange({ kind: 'broken', message: messageOf(error), stack: String(error && error.stack) }, []).catch(() => undefined);
  });
})();
