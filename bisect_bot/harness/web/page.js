// The page that any target opens: asks the server for work, does it, answers, asks again. It judges nothing.
// ES2019: old Electrons open this page too.
(function () {
  'use strict';

  const gpu = window.harnessGpu;
  const pageId = new URLSearchParams(location.search).get('page');
  const CONSOLE_LINES = 4000;
  const CONSOLE_LINE = 4000;

  const ARRAYS = {
    float32: Float32Array,
    float64: Float64Array,
    float16: Uint16Array,
    int8: Int8Array,
    uint8: Uint8Array,
    int16: Int16Array,
    uint16: Uint16Array,
    int32: Int32Array,
    uint32: Uint32Array,
    bool: Uint8Array,
    int4: Int8Array,
    uint4: Uint8Array,
    int64: typeof BigInt64Array === 'undefined' ? null : BigInt64Array,
    uint64: typeof BigUint64Array === 'undefined' ? null : BigUint64Array,
  };

  // Lines are kept here and go nowhere else: an attached debugger would be sent each of thousands.
  let consoleLines = [];
  for (const level of ['debug', 'log', 'info', 'warn', 'error']) {
    console[level] = (...args) => {
      if (consoleLines.length < CONSOLE_LINES) {
        consoleLines.push(`${level}: ${args.map(String).join(' ')}`.slice(0, CONSOLE_LINE));
      }
    };
  }
  window.addEventListener('unhandledrejection', (event) => {
    consoleLines.push(`unhandled rejection: ${messageOf(event.reason)}`.slice(0, CONSOLE_LINE));
  });

  function messageOf(error) {
    return error && error.message !== undefined ? `${error.name || 'Error'}: ${error.message}` : String(error);
  }

  // --- frames: u32 length of the header, the header as JSON, then the blobs that `blobs` gives the lengths of ---

  function encode(header, blobs) {
    const head = new TextEncoder().encode(JSON.stringify({ ...header, blobs: blobs.map((b) => b.byteLength) }));
    const length = new Uint32Array([head.byteLength]);
    return new Blob([length, head, ...blobs]);
  }

  function decode(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    let offset = 4 + length;
    const blobs = header.blobs.map((size) => {
      offset += size;
      return buffer.slice(offset - size, offset);
    });
    return { header, blobs };
  }

  async function exchange(header, blobs) {
    const response = await fetch('exchange', { method: 'POST', body: encode({ ...header, page: pageId }, blobs) });
    if (!response.ok) {
      throw new Error(`the server answered ${response.status}`);
    }
    return decode(await response.arrayBuffer());
  }

  // --- one case -------------------------------------------------------------------------------------------------

  let ort = null;

  async function loadBundle(bundle) {
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
      throw new Error(`${bundle.url} loaded, but gives no InferenceSession`);
    }
    if (bundle.wasm_paths) {
      ort.env.wasm.wasmPaths = new URL(bundle.wasm_paths, location.href).href;
    }
  }

  function toOrt(tensor, buffer) {
    const Array_ = ARRAYS[tensor.dtype];
    if (!Array_) {
      throw new Error(`element type ${tensor.dtype} is not supported by this browser`);
    }
    const data = new Array_(buffer);
    if (tensor.dtype === 'float16' && typeof Float16Array !== 'undefined') {
      // With a native Float16Array, 1.20.1 and neighbours take nothing else; others take either.
      try {
        return new ort.Tensor('float16', data, tensor.shape);
      } catch (error) {
        return new ort.Tensor('float16', new Float16Array(buffer), tensor.shape);
      }
    }
    return new ort.Tensor(tensor.dtype, data, tensor.shape);
  }

  function fromOrt(name, value, blobs) {
    if (!ArrayBuffer.isView(value.data)) {
      throw new Error(`output ${name} has type ${value.type}, which cannot be compared`);
    }
    const view = value.data;
    blobs.push(new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice());
    return { name, dtype: value.type, shape: Array.from(value.dims) };
  }

  // Runs one case of the message `job`; fills `result` step by step, so that what was reached is known when a step throws.
  async function runCase(job, one, blobs, result, outputBlobs) {
    const timed = async (step, work) => {
      const begin = performance.now();
      try {
        return await work();
      } finally {
        result.times_ms.push([step, performance.now() - begin]);
      }
    };
    const needsGpu = job.backend === 'webgpu';

    result.stage = 'load';
    if (needsGpu) {
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

    result.stage = 'create';
    const options = { executionProviders: [job.backend], logSeverityLevel: job.log_severity };
    const session = await timed('create', () => ort.InferenceSession.create(new Uint8Array(blobs[one.model]), options));
    try {
      result.stage = 'run';
      const step = { name: '', outputs: [], gpu_errors: [] };
      result.steps.push(step);
      for (const dataSet of one.data_sets) {
        const feeds = {};
        for (const tensor of dataSet.inputs) {
          feeds[tensor.name] = toOrt(tensor, blobs[tensor.blob]);
        }
        const fetched = await timed('run', () => session.run(feeds));
        step.outputs.push(Object.keys(fetched).map((name) => fromOrt(name, fetched[name], outputBlobs)));
      }
      await gpu.settle();
    } finally {
      if (session.release) {
        await timed('release', () => session.release()).catch((error) => {
          result.errors.push({ stage: 'release', message: messageOf(error), stack: String(error && error.stack) });
        });
      }
    }
    result.ending = 'completed';
  }

  async function doCase(job, one, blobs) {
    const result = { index: one.index, ending: 'error', stage: 'harness', steps: [], errors: [] };
    result.times_ms = [];
    result.found = null;
    const outputBlobs = [];
    const begin = performance.now();
    consoleLines = [];
    try {
      await runCase(job, one, blobs, result, outputBlobs);
    } catch (error) {
      result.errors.unshift({ stage: result.stage, message: messageOf(error), stack: String(error && error.stack) });
      await gpu.settle();
    }
    Object.assign(result, gpu.take());
    result.console = consoleLines;
    result.times_ms.push(['total', performance.now() - begin]);
    return [result, outputBlobs];
  }

  // Runs the cases of a message. Results are posted while later cases run already, as many at once as are ready.
  // Resolves with the server's next message: the first answer that is not just "go on".
  async function doCases(job, blobs) {
    let answer = null;
    let ready = [];
    let posting = null;
    const post = async () => {
      while (ready.length > 0 && !answer) {
        const now = ready;
        ready = [];
        const results = now.map(([result, outputBlobs]) => ({ ...result, blob_count: outputBlobs.length }));
        const reply = await exchange({ kind: 'results', results }, [].concat(...now.map((pair) => pair[1])));
        answer = reply.header.kind === 'go on' ? null : reply;
      }
      posting = null;
    };
    for (const one of job.cases) {
      const [result, outputBlobs] = await doCase(job, one, blobs);
      ready.push([result, outputBlobs]);
      posting = posting || post();
      // After a failure nothing may run before the server has said whether this page is still to be used.
      if (result.ending !== 'completed' || result.gpu_errors.length > 0) {
        await posting;
      }
      if (answer) {
        break;
      }
    }
    await posting;
    return answer;
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
