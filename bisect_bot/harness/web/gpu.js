// Watches WebGPU from below the runtime: which device it really uses, how often it dispatches, and what goes
// wrong without an exception. Must run before any bundle is loaded. ES2019: old Electrons open this page too.
(function () {
  'use strict';

  // dispatches, errors: since the last take(); adapterInfo: of the last device that was requested; sessions: how many
  // are alive; devices: those that were not lost.
  const seen = { dispatches: 0, errors: [], devices: new Set(), adapterInfo: null, sessions: 0 };

  // What the browser gives to whoever asks for it, once it is taken below.
  let requestAdapter = null;

  // What waits for a device that was lost may wait for ever: so long it is given to fail by itself.
  const GRACE_MS = 3000;
  let abandon = null;
  const abandoned = new Promise((_, reject) => {
    abandon = () => reject(new Error('the device was lost, and what waited for it did not end'));
  });
  abandoned.catch(() => undefined);

  function describe(info, adapter) {
    const text = (value) => (value === undefined || value === null ? '' : String(value));
    return {
      vendor: text(info && info.vendor),
      architecture: text(info && info.architecture),
      device: text(info && info.device),
      description: text(info && info.description),
      fallback: Boolean((info && info.isFallbackAdapter) || adapter.isFallbackAdapter),
    };
  }

  async function infoOf(adapter) {
    const info = adapter.info || (adapter.requestAdapterInfo ? await adapter.requestAdapterInfo() : null);
    return describe(info, adapter);
  }

  function countDispatches(name) {
    const original = GPUComputePassEncoder.prototype[name];
    GPUComputePassEncoder.prototype[name] = function (...args) {
      seen.dispatches += 1;
      return original.apply(this, args);
    };
  }

  if (typeof GPUAdapter !== 'undefined') {
    countDispatches('dispatchWorkgroups');
    countDispatches('dispatchWorkgroupsIndirect');

    // Builds up to 1.19.0-dev.20240509 call requestAdapterInfo(), which browsers dropped for the `info` attribute.
    if (!GPUAdapter.prototype.requestAdapterInfo) {
      GPUAdapter.prototype.requestAdapterInfo = async function () {
        return this.info;
      };
    }

    // Builds differ in the power that they ask for, and a machine with two GPUs would answer each with another one: all
    // get the adapter that the browser gives to whoever asks for none.
    requestAdapter = GPU.prototype.requestAdapter;
    GPU.prototype.requestAdapter = function (options) {
      return requestAdapter.call(this, { ...options, powerPreference: undefined });
    };

    const requestDevice = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...args) {
      const device = await requestDevice.apply(this, args);
      seen.devices.add(device);
      seen.adapterInfo = await infoOf(this);
      device.addEventListener('uncapturederror', (event) => {
        seen.errors.push(`${event.error.constructor.name}: ${event.error.message}`);
      });
      device.lost.then((info) => {
        seen.devices.delete(device);
        if (seen.sessions > 0) {
          setTimeout(abandon, GRACE_MS);
        }
        // 'destroyed' is somebody's own destroy() in this page, which is watched below; the rest happened to us.
        if (info.reason !== 'destroyed') {
          seen.errors.push(`device lost (${info.reason}): ${info.message}`);
        }
      });
      return device;
    };

    // The native provider destroys its device when the last session is released, which is right; while a session
    // lives, it is how later runs come to fail or to give zeros.
    const destroy = GPUDevice.prototype.destroy;
    GPUDevice.prototype.destroy = function () {
      if (seen.sessions > 0 && seen.devices.has(this)) {
        seen.errors.push('device lost (destroyed): destroy() was called while a session was alive');
      }
      return destroy.call(this);
    };
  }

  window.harnessGpu = {
    supported: Boolean(navigator.gpu),

    // The first requestAdapter() may answer null while the GPU process starts: asks again, up to `attempts` times.
    async findAdapter(attempts) {
      for (let i = 0; navigator.gpu && i < attempts; i += 1) {
        const adapter = await navigator.gpu.requestAdapter();
        if (adapter) {
          const info = await infoOf(adapter);
          info.features = Array.from(adapter.features).sort();
          return info;
        }
        await new Promise((resolve) => setTimeout(resolve, 300));
      }
      return null;
    },

    // The adapters that a page gets which asks for little or for much power: null where there is none.
    async adaptersByPower() {
      const found = {};
      for (const powerPreference of ['low-power', 'high-performance']) {
        const adapter = await requestAdapter.call(navigator.gpu, { powerPreference });
        found[powerPreference] = adapter && (await infoOf(adapter));
      }
      return found;
    },

    // Errors arrive on the queue's own time: waits until all submitted work was answered for.
    async settle() {
      const devices = Array.from(seen.devices);
      if (devices.length > 0) {
        const done = devices.map((device) =>
          Promise.race([device.queue.onSubmittedWorkDone().catch(() => undefined), device.lost])
        );
        await Promise.race([Promise.all(done), new Promise((resolve) => setTimeout(resolve, 5000))]);
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
    },

    // `work`, or an error when a device was lost with a session alive and `work` did not end of itself.
    unlessAbandoned(work) {
      return Promise.race([work, abandoned]);
    },

    // Says that a session was created, and that its release begins.
    sessionBegins() {
      seen.sessions += 1;
    },
    sessionEnds() {
      seen.sessions -= 1;
    },

    // What was seen since the last take(): GPU errors in their order, and how many dispatches.
    seen() {
      return { dispatches: seen.dispatches, errors: seen.errors.slice() };
    },

    // What was seen since the last call.
    take() {
      const taken = { dispatches: seen.dispatches, gpu_errors: seen.errors, adapter: seen.adapterInfo };
      seen.dispatches = 0;
      seen.errors = [];
      return taken;
    },
  };
})();
