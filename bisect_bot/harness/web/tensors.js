// Tensors between messages and the runtime. ES2019: old Electrons open this page too.
(function () {
  'use strict';

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
    int4: Uint8Array,
    uint4: Uint8Array,
    int64: typeof BigInt64Array === 'undefined' ? null : BigInt64Array,
    uint64: typeof BigUint64Array === 'undefined' ? null : BigUint64Array,
  };

  // The tensor that a message describes, for the runtime `ort`.
  function toOrt(ort, tensor, buffer) {
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

  // The description of an output, whose bytes are appended to `blobs`.
  function fromOrt(name, value, blobs) {
    if (!ArrayBuffer.isView(value.data)) {
      throw new Error(`output ${name} has type ${value.type}, which cannot be compared`);
    }
    const view = value.data;
    blobs.push(new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice());
    return { name, dtype: value.type, shape: Array.from(value.dims) };
  }

  function sameBytes(a, b) {
    for (let i = 0; i < a.byteLength; i += 1) {
      if (a[i] !== b[i]) {
        return false;
      }
    }
    return a.byteLength === b.byteLength;
  }

  // Whether two data sets gave the same, bit by bit.
  function sameOutputs(a, b) {
    return (
      JSON.stringify(a.tensors) === JSON.stringify(b.tensors) &&
      a.data.every((data, i) => sameBytes(data, b.data[i]))
    );
  }

  window.harnessTensors = { toOrt, fromOrt, sameOutputs };
})();
