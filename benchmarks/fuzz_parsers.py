"""Every parser of what comes from outside, with small sound inputs to begin from and the errors that it may raise."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks import fuzz_mutations as mutations
from bisect_bot import paths
from bisect_bot.cases.archive import safe_files, unpack
from bisect_bot.cases.bare import free_dimensions
from bisect_bot.cases.expected import read_expected
from bisect_bot.cases.external import external_files
from bisect_bot.cases.finding import find_cases
from bisect_bot.cases.folder import copy_folder, read_folder
from bisect_bot.cases.jsonc import parse_jsonc
from bisect_bot.cases.manifest import parse_manifest
from bisect_bot.cases.manifests import convert
from bisect_bot.cases.models import parse_model, signature
from bisect_bot.cases.npz import parse_array, read_npz
from bisect_bot.cases.protos import parse_tensor
from bisect_bot.cases.suite import braces, parse_suite
from bisect_bot.cases.zips import open_archive
from bisect_bot.cli.options import parse_dim, parse_feed
from bisect_bot.errors import CaseError, UsageError
from bisect_bot.harness import frames
from bisect_bot.model import Case, DataSet, Ending, Observation, Tensor
from bisect_bot.probes.decode import Progress, decode_progress, decode_result
from bisect_bot.probes.placements import parse_placements
from bisect_bot.reports.claim import read_claim
from bisect_bot.targets.browsers import load_config
from bisect_bot.verdicts import judge, load_rules, load_tolerances
from bisect_bot.verdicts.demands import parse_demands
from bisect_bot.verdicts.messages import normalise, normalise_gpu_error


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser under test: `parse` returns, or raises one of `refuses`, whatever `mutate` makes of `samples`."""

    name: str
    samples: tuple[bytes, ...]
    parse: Callable[[bytes], object]
    mutate: mutations.Mutate
    refuses: tuple[type[Exception], ...] = ()


def parsers(folder: Path) -> tuple[Parser, ...]:
    """All parsers; those that read files get them in `folder`."""
    model, tensors = _model(), [_tensor().SerializeToString(), _typed().SerializeToString()]
    archive = _packed(_case_files())
    arrays = _packed({"x.npy": _npy(np.arange(6, dtype=np.float32)), "n.npy": _npy(np.ones((2, 1), np.int64))})
    return (
        Parser("model", (model,), _read_model, mutations.of_bytes, (CaseError,)),
        Parser(
            "tensor", tuple(tensors), lambda data: parse_tensor(data, "x", "x.pb"), mutations.of_bytes, (CaseError,)
        ),
        Parser("onnx folder", (archive,), _onnx_folder(folder), mutations.of_archive, (CaseError,)),
        Parser("zip", (archive,), _zip(folder), mutations.of_archive, (CaseError,)),
        Parser("npz", (arrays,), _npz(folder), mutations.of_archive, (CaseError,)),
        Parser(
            "npy",
            (_npy(np.arange(6, dtype=np.float32).reshape(2, 3)), _npy(np.array([True]))),
            lambda data: parse_array(data, "x", "x.npy"),
            mutations.of_bytes,
            (CaseError,),
        ),
        Parser(
            "jsonc", (COMMENTED, MANIFEST), lambda data: parse_jsonc(data, "x.jsonc"), mutations.of_bytes, (CaseError,)
        ),
        Parser("op manifest", (MANIFEST,), _manifest, mutations.of_json, (CaseError,)),
        Parser("suite list", (SUITE,), _suite, mutations.of_json, (CaseError, ValueError)),
        Parser("expected.json", EXPECTED, _expected(folder), mutations.of_json, (CaseError,)),
        Parser("report.json", (REPORT,), _report(folder), mutations.of_json, (UsageError,)),
        Parser("frame", (RESULT,), frames.decode, mutations.of_frame, (frames.FrameError,)),
        Parser("page's result", (RESULT,), _result(), mutations.of_frame, (frames.FrameError,)),
        Parser("page's progress", (PROGRESS,), _progress, mutations.of_frame, (ValueError,)),
        Parser("placements", (LOG,), lambda data: parse_placements(_text(data).split("\n")), mutations.of_text),
        Parser("messages", MESSAGES, _messages(), mutations.of_text),
        Parser("options", OPTIONS, _options(), mutations.of_text, (UsageError,)),
    )


# --- sound inputs -------------------------------------------------------------------------------------


def _model() -> bytes:
    weight = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="weights/w.bin")
    nodes = [helper.make_node("Add", ["x", "c"], ["a"]), helper.make_node("Mul", ["a", "w"], ["y"])]
    value = [helper.make_tensor_value_info(name, 1, ["n", 2]) for name in ("x", "y")]
    constant = numpy_helper.from_array(np.ones(2, np.float32), "c")
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], [constant, weight])
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )


def _tensor() -> TensorProto:
    return numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "x")


def _typed() -> TensorProto:
    return helper.make_tensor("x", TensorProto.INT4, [3], [1, 2, 3])


def _case_files() -> dict[str, bytes]:
    node = helper.make_node("Identity", ["x"], ["y"])
    value = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    tensor = _tensor().SerializeToString()
    return {
        "add/model.onnx": model.SerializeToString(),
        "add/test_data_set_0/input_0.pb": tensor,
        "add/test_data_set_0/output_0.pb": tensor,
    }


def _packed(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def _npy(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


COMMENTED = b'{ // one\n "a": [1, 2.5e3, "x // no comment", /* two */ null, true,], \n}'
MANIFEST = json.dumps(
    [
        {
            "name": "conv",
            "operator": "Conv",
            "opset": {"domain": "", "version": 13},
            "inputShapeDefinitions": "rankOnly",
            "attributes": [{"name": "pads", "type": "ints", "data": [0, 0, 0, 0]}],
            "cases": [
                {
                    "name": "T[0]",
                    "inputs": [
                        {"data": [1, 2, 3, 4], "dims": [1, 1, 2, 2], "type": "float32"},
                        {"data": [1], "dims": [1, 1, 1, 1], "type": "float32"},
                    ],
                    "outputs": [{"data": [1, 2, 3, 4], "dims": [1, 1, 2, 2], "type": "float32"}],
                }
            ],
        },
        {
            "name": "clip",
            "operator": "Clip",
            "opsets": [{"domain": "", "version": 13}],
            "attributes": [],
            "cases": [
                {
                    "name": "no minimum",
                    "inputs": [
                        {"data": ["NaN", -1, 2], "dims": [3], "type": "float16"},
                        {"data": None, "type": "float16"},
                        {"data": [1], "dims": [], "type": "float16"},
                    ],
                    "outputs": [{"data": ["NaN", -1, 1], "dims": [3], "type": "float16"}],
                }
            ],
        },
    ]
).encode()
SUITE = json.dumps(
    {"webgpu": {"onnx": [], "node": ["test_abs", "opset{7,8}/test_clip"], "ops": ["abs.jsonc", {"name": "b.jsonc"}]}}
).encode()
EXPECTED = (
    b'{"y": {"dtype": "float32", "shape": [2, 2], "data": [1, 2, 3.5, "NaN"]}, "z": [[1, 2], [3, 4]]}',
    b"0.25",
)
_REVISION = {"id": "1.20.1", "version": "1.20.1", "commit": None, "date": "2024-11-07", "title": "x"}
_BOUNDARY = {"last_old": _REVISION, "first_new": {**_REVISION, "id": "1.21.0", "version": "1.21.0"}}
REPORT = json.dumps(
    {
        "schema": 1,
        "result": "found",
        "boundary": _BOUNDARY,
        "cases": [
            {
                "name": "demo",
                "backend": "webgpu",
                "direction": "regression",
                "boundary": _BOUNDARY,
                "signature": {"kind": "mismatch", "message": "y: other values"},
            }
        ],
        "environment": {"cases": {"demo": "1 Add; sha256 0123456789abcdef"}},
        "reproduce": "bisect-bot run --good 1.20.1 --bad 1.21.0 --case x",
    }
).encode()
_STEP = {
    "name": "",
    "outputs": [[{"name": "y", "dtype": "float32", "shape": [2, 2]}]],
    "gpu_errors": [],
    "dispatches": 1,
}
_ADAPTER = {"vendor": "google", "architecture": "swiftshader", "device": "", "description": "", "fallback": True}
_ONE = {
    "index": 0,
    "ending": "completed",
    "steps": [_STEP, {**_STEP, "name": "run 2", "outputs": [None]}],
    "times_ms": [["run", 1.5]],
    "errors": [{"stage": "run", "message": "x", "stack": "", "step": ""}],
    "console": ["log: hello"],
    "placed": ["All nodes placed on [CPUExecutionProvider]. Number of nodes: 1"],
    "dispatches": 3,
    "gpu_errors": [],
    "adapter": _ADAPTER,
    "found": None,
}
RESULT = frames.encode({"kind": "result", "page": "1", **_ONE}, [np.arange(4, dtype=np.float32).tobytes()])
PROGRESS = frames.encode(
    {"kind": "progress", "index": 0, "step": "run 2", "steps": [_STEP]}, [np.arange(4, dtype=np.float32).tobytes()]
)
LOG = (
    b"[V:onnxruntime:, session_state.cc:1148 VerifyEachNodeIsAssignedToAnEp] Node(s) placed on [CPUExecutionProvider]."
    b" Number of nodes: 2\n[V:onnxruntime:, session_state.cc:1150 VerifyEachNodeIsAssignedToAnEp] Conv (/a/Conv (1))\n"
)
MESSAGES = (
    b"Error: no available backend found. ERR: [webgpu] Error: Failed to get GPU adapter. You may need to enable flag",
    b'Error: [WebGPU] Kernel "[AveragePool] /a/b" failed. Error: using ceil() in shape computation is not supported',
    b"Can't create a session. ERROR_CODE: 1, ERROR_MESSAGE: Deserialize tensor w failed.tensorprotoutils.cc:792",
    b"uncaptured GPUValidationError: Error while parsing WGSL: :34:12 error: unresolved value 'x'\n  let y = x;\n ^",
)
OPTIONS = (b"batch=1", b"stateN=state", b"mask>0.5", b"webgpu:Conv,MatMul")


# --- parsers ------------------------------------------------------------------------------------------


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")


def _read_model(content: bytes) -> None:
    model = parse_model(content, "model.onnx")
    external_files(model, "model.onnx")
    free_dimensions(signature(model, "model.onnx"))


def _onnx_folder(folder: Path) -> Callable[[bytes], None]:
    """Unpacks the archive by name only, and loads what is then a folder: data sets, model and onnx.checker."""
    source, destination = folder / "source", folder / "destination"

    def parse(content: bytes) -> None:
        for place in (source, destination):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        _unpack(content, folder / "packed.zip", source)
        copy_folder(source / "add", destination, "case")
        for data_set in read_folder(destination, "case"):
            _use((*data_set.inputs, *data_set.expected))

    return parse


def _zip(folder: Path) -> Callable[[bytes], None]:
    destination = folder / "unpacked"

    def parse(content: bytes) -> None:
        shutil.rmtree(destination, ignore_errors=True)
        destination.mkdir()
        _unpack(content, folder / "x.zip", destination)

    return parse


def _unpack(content: bytes, path: Path, destination: Path) -> None:
    path.write_bytes(content)
    with open_archive(path, "x.zip") as archive:
        find_cases(safe_files(archive))
        unpack(archive, destination)


def _npz(folder: Path) -> Callable[[bytes], None]:
    def parse(content: bytes) -> None:
        path = folder / "inputs.npz"
        path.write_bytes(content)
        _use(read_npz(path, "inputs.npz"))

    return parse


def _manifest(content: bytes) -> None:
    for test in parse_manifest(content, "x.jsonc"):
        model, runs = convert(test.test, "x.jsonc")
        onnx.ModelProto().ParseFromString(model)
        for inputs, outputs in runs:
            _use((*inputs, *outputs))


def _suite(content: bytes) -> None:
    for listed in parse_suite(content, "suite-test-list.jsonc").values():
        for pattern in listed.node:
            braces(pattern)


def _expected(folder: Path) -> Callable[[bytes], None]:
    def parse(content: bytes) -> None:
        (folder / "expected.json").write_bytes(content)
        for data_set in read_expected(folder, "repro"):
            _use(data_set.expected)

    return parse


def _report(folder: Path) -> Callable[[bytes], object]:
    def parse(content: bytes) -> object:
        (folder / "report.json").write_bytes(content)
        return read_claim(folder / "report.json")

    return parse


def _result() -> Callable[[bytes], None]:
    """What a page posts, to the verdict on it."""
    config = load_config()
    tolerances, rules = (
        load_tolerances(paths.config_file("tolerances.toml")),
        load_rules(paths.config_file("verdicts.toml")),
    )
    blank = Observation("case", "sha256:a", "ort.mjs", "webgpu", Ending.HARNESS)
    expected = Tensor("y", "float32", (2, 2), np.arange(4, dtype=np.float32).tobytes())
    case = Case("case", "a", Path("model.onnx"), (DataSet("0", (), (expected,)),), "files")

    def parse(content: bytes) -> None:
        verdict = judge(decode_result(frames.decode(content), 0, blank, config), case, tolerances, rules)
        if not verdict.reason.isprintable():
            raise AssertionError(f"the reason is not one line: {verdict.reason!r}")

    return parse


def _progress(content: bytes) -> None:
    progress = decode_progress(frames.decode(content), 0, Progress())
    decode_progress(frames.decode(content), 0, progress)


def _messages() -> Callable[[bytes], None]:
    rules = load_rules(paths.config_file("verdicts.toml"))

    def parse(content: bytes) -> None:
        text = _text(content)
        for line in (normalise(text), normalise_gpu_error(text)):
            if not line.isprintable():
                raise AssertionError(f"a message is not one line: {line!r}")
        rules.is_empty(text)

    return parse


def _options() -> Callable[[bytes], None]:
    rules = load_rules(paths.config_file("verdicts.toml"))

    def parse(content: bytes) -> None:
        text = _text(content)
        errors: list[UsageError] = []
        for read in (
            parse_dim,
            parse_feed,
            lambda option: parse_demands(option, [], rules),
            lambda option: parse_demands("", [option], rules),
        ):
            try:
                read(text)
            except UsageError as error:
                errors.append(error)
        if errors:
            raise errors[-1]

    return parse


def _use(tensors: tuple[Tensor, ...]) -> None:
    """Does with `tensors` what every later part does: looks at them as arrays."""
    for tensor in tensors:
        if not tensor.dtype.endswith("int4"):
            tensor.array()
