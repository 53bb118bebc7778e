// Watches WebGPU from below the runtime: which device it really uses, how often it dispatches, and what goes
// wrong without an exception. Must run before any bundle is loaded. ES2019: old Electrons open this page too.
(function () {
  'use strict';

  // dispatches: compute dispatches since the last take(); device/adapterInfo: of the last device that was requested.
  const seen = { dispatches: 0, errors: [], device: null, adapterInfo: null };

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

    const requestDevice = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...args) {
      const device = await requestDevice.apply(this, args);
      seen.device = device;
      seen.adapterInfo = await infoOf(this);
      device.addEventListener('uncapturederror', (event) => {
        seen.errors.push(`${event.error.constructor.name}: ${event.error.message}`);
      });
      device.lost.then((info) => {
        // 'destroyed' is how a session ends; everything else happened to us.
        if (info.reason !== 'destroyed') {
          seen.errors.push(`device lost (${info.reason}): ${info.message}`);
        }
      });
      return device;
    };
  }

  window.harnessGpu = {
    supported: Boolean(navigator.gpu),

    // The first requestAdapter() may answer null while the GPU process starts: asks again, up to `attempts` times.
    async findAdapter(attempts) {
      for (let i = 0; navigator.gpu && i < attempts; i += 1) {
        const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
        if (adapter) {
          const info = await infoOf(adapter);
          info.features = Array.from(adapter.features).sort();
          return info;
        }
        await new Promise((resolve) => setTimeout(resolve, 300));
      }
      return null;
    },

    // Errors arrive on the queue's own time: waits until all submitted work was answered for.
    async settle() {
      if (seen.device) {
        await Promise.race([
          seen.device.queue.onSubmittedWorkDone().catch(() => undefined),
          seen.device.lost,
          new Promise((resolve) => setTimeout(resolve, 5000)),
        ]);
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
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
