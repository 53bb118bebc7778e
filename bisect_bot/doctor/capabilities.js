// What this browser can do, asked in the harness page: its answer is the value of the whole expression.
(async (attempts) => {
  // Hand-made modules: one function that uses an instruction of the extension; a browser without it finds them invalid.
  const HEAD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0];
  const SPLAT = [0x41, 0, 0xfd, 0x0f]; // i32.const 0, i8x16.splat
  const SWIZZLE = [0xfd, 0x80, 0x02]; // i8x16.relaxed_swizzle
  const valid = (code) => {
    const body = [0, ...code, 0x0b];
    return WebAssembly.validate(new Uint8Array([...HEAD, 10, body.length + 2, 1, body.length, ...body]));
  };
  const threads = () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    return memory.buffer instanceof SharedArrayBuffer;
  };
  const webgl = () => {
    const context = document.createElement('canvas').getContext('webgl2');
    const names = context && context.getExtension('WEBGL_debug_renderer_info');
    return context ? String(context.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : context.RENDERER)) : null;
  };
  const attempt = (work) => {
    try {
      return work();
    } catch (error) {
      return null;
    }
  };
  const LIMITS = ['maxBufferSize', 'maxStorageBufferBindingSize', 'maxComputeWorkgroupStorageSize'];
  const info = await window.harnessGpu.findAdapter(attempts);
  const adapter = info && (await navigator.gpu.requestAdapter());
  return {
    isolated: Boolean(window.crossOriginIsolated),
    threads: Boolean(attempt(threads)),
    simd: valid(SPLAT),
    relaxed_simd: valid([...SPLAT, ...SPLAT, ...SWIZZLE]),
    jspi: typeof WebAssembly.Suspending === 'function',
    float16_array: typeof Float16Array !== 'undefined',
    webgl: attempt(webgl),
    webgpu: Boolean(navigator.gpu),
    adapter: info,
    by_power: info ? await window.harnessGpu.adaptersByPower() : {},
    limits: adapter ? Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]])) : {},
  };
})
