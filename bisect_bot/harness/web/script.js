// Runs a case that is a user's own script: hands it the runtime, and takes down what it gave and which providers it
// asked for. ES2019, apart from the script itself: old Electrons open this page too.
(function () {
  'use strict';

  // Taken before any script could change it.
  const fetch = window.fetch.bind(window);

  const RESULT = 'result'; // the name of a value that was returned alone
  const DTYPES = {
    Float32Array: 'float32',
    Float64Array: 'float64',
    Float16Array: 'float16',
    Int8Array: 'int8',
    Uint8Array: 'uint8',
    Uint8ClampedArray: 'uint8',
    Int16Array: 'int16',
    Uint16Array: 'uint16',
    Int32Array: 'int32',
    Uint32Array: 'uint32',
    BigInt64Array: 'int64',
    BigUint64Array: 'uint64',
  };

  const isTensor = (value) => Boolean(value && typeof value.type === 'string' && value.dims);

  // --- what it is given -----------------------------------------------------------------------------------------

  // The bytes of a file beside the script, as an ArrayBuffer that can also be read as a Response is.
  async function fetchAsset(base, name) {
    const path = String(name).split('/').map(encodeURIComponent).join('/');
    const response = await fetch(new URL(path, base).href);
    if (!response.ok) {
      throw new Error(`there is no file ${name} beside the script`);
    }
    const buffer = await response.arrayBuffer();
    const text = async () => new TextDecoder().decode(buffer);
    return Object.assign(buffer, { arrayBuffer: async () => buffer, text, json: async () => JSON.parse(await text()) });
  }

  async function createSession(ort, backend, get, model, options) {
    const own = { executionProviders: [backend], ...options };
    if (own.externalData) {
      own.externalData = await Promise.all(
        own.externalData.map(async (file) => {
          const { path, data } = typeof file === 'string' ? { path: file, data: file } : file;
          return { path, data: typeof data === 'string' ? new Uint8Array(await get(data)) : data };
        })
      );
    }
    return ort.InferenceSession.create(new Uint8Array(typeof model === 'string' ? await get(model) : model), own);
  }

  // Notes the providers of every session that is created, by whomever, and makes the runtime's log tell where its
  // nodes are placed. A session that names none gets an empty list: the runtime chooses.
  function watchSessions(ort, severity, providers) {
    const create = ort.InferenceSession.create;
    ort.InferenceSession.create = function (...args) {
      while (args.length > 1 && (args[args.length - 1] === undefined || args[args.length - 1] === null)) {
        args.pop();
      }
      const given = args.length > 1 && typeof args[args.length - 1] === 'object' ? args.pop() : {};
      const asked = given.executionProviders || [];
      providers.push(Array.from(asked, (each) => String(typeof each === 'string' ? each : each && each.name)));
      const options = { ...given, logSeverityLevel: severity };
      if (args.length === 2) {
        args.push(args[0].byteLength - args[1]); // create(buffer, byteOffset) takes options only after a byteLength
      }
      return create.call(this, ...args, options);
    };
  }

  // --- what it gives --------------------------------------------------------------------------------------------

  function shapeOf(array) {
    return Array.isArray(array) ? [array.length, ...(array.length > 0 ? shapeOf(array[0]) : [])] : [];
  }

  // A number, an array of numbers, a typed array or a tensor as { dtype, shape, data }, with data of its own.
  async function take(name, value) {
    const copy = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();
    if (isTensor(value)) {
      const onDevice = value.location && !value.location.startsWith('cpu') && value.getData;
      const data = onDevice ? await value.getData() : value.data;
      if (ArrayBuffer.isView(data)) {
        return { dtype: value.type, shape: Array.from(value.dims), data: copy(data) };
      }
    } else if (ArrayBuffer.isView(value) && DTYPES[value.constructor.name]) {
      return { dtype: DTYPES[value.constructor.name], shape: [value.length], data: copy(value) };
    } else if (typeof value === 'number') {
      return { dtype: 'float64', shape: [], data: copy(new Float64Array([value])) };
    } else if (typeof value === 'bigint') {
      return { dtype: 'int64', shape: [], data: copy(new BigInt64Array([value])) };
    } else if (typeof value === 'boolean') {
      return { dtype: 'bool', shape: [], data: new Uint8Array([value ? 1 : 0]) };
    } else if (Array.isArray(value)) {
      const flat = value.flat(Infinity);
      const shape = shapeOf(value);
      if (flat.every((each) => typeof each === 'number') && flat.length === shape.reduce((a, b) => a * b, 1)) {
        return { dtype: 'float64', shape, data: copy(new Float64Array(flat)) };
      }
    }
    const kind = isTensor(value) ? `tensor of ${value.type}` : Object.prototype.toString.call(value);
    throw new TypeError(`${name} cannot be compared: it is no tensor of numbers, typed array or number (${kind})`);
  }

  function named(value) {
    if (value === undefined || value === null) {
      return [];
    }
    const single = typeof value !== 'object' || Array.isArray(value) || ArrayBuffer.isView(value) || isTensor(value);
    return single ? [[RESULT, value]] : Object.keys(value).map((name) => [name, value[name]]);
  }

  // Runs the script of the case `one` with the bundle's namespace `ort`; what it gave becomes the outputs of `step`.
  // `providers` is filled even where it throws.
  async function run({ ort, job, one, result, step, outputBlobs }) {
    const base = new URL(one.assets, document.baseURI).href;
    const get = (name) => fetchAsset(base, name);
    watchSessions(ort, job.log_severity, result.providers);

    result.stage = 'create';
    let script = null;
    try {
      // import() is newer than ES2019: hidden from parsers that do not know it.
      script = await new Function('url', 'return import(url)')(new URL(encodeURIComponent(one.script), base).href);
    } catch (error) {
      throw new Error(`the script does not load: ${error}`);
    }
    if (typeof script.run !== 'function') {
      throw new Error('the script does not load: it exports no function run');
    }

    result.stage = 'run';
    const given = new Map();
    const report = (name, value) => {
      const label = String(name);
      if (given.has(label)) {
        throw new Error(`${label} was given twice: report() and the returned object name each value once`);
      }
      given.set(label, take(label, value)); // what is in memory now is copied now
      given.get(label).catch(() => undefined); // it is awaited below
    };
    const returned = await script.run({
      ort,
      createSession: (model, options) => createSession(ort, job.backend, get, model, options),
      fetchAsset: get,
      report,
    });
    for (const [name, value] of named(returned)) {
      report(name, value);
    }
    const outputs = [];
    for (const [name, taken] of given) {
      const { dtype, shape, data } = await taken;
      outputs.push({ name, dtype, shape });
      outputBlobs.push(data);
    }
    step.outputs.push(outputs);
    await new Promise((resolve) => setTimeout(resolve, 20)); // rejections that nobody caught are told a little later
  }

  window.harnessScript = { run };
})();
