"""Scripts as cases: how they are pinned, what `expected.json` may say, and what one may do to the page."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from bisect_bot import paths
from bisect_bot.cases import Making, describe, load_all, load_pinned, smoke
from bisect_bot.cases.expected import read_expected
from bisect_bot.cases.script import MAX_FILES
from bisect_bot.errors import CaseError, UsageError
from bisect_bot.harness.server import HarnessServer
from bisect_bot.model import (
    Case,
    CaseKind,
    Ending,
    Failure,
    Observation,
    Outcome,
    Placement,
    Request,
    Stage,
    Target,
    Verdict,
)
from bisect_bot.probes import Limits, Probe, plain_target, run_probe
from bisect_bot.session.judging import judging
from bisect_bot.session.plans import refuse_repeats
from bisect_bot.targets.browsers import Browser, BrowserConfig, load_config, locate
from bisect_bot.verdicts import load_rules, load_tolerances
from bisect_bot.verdicts.scripts import really_ran
from tests import models
from tests.command import Shell
from tests.planted import planted_artifact, planted_bundle
from tests.scripts import ADD, GRID_SAMPLE, TWICE, script_case, write_script
from tests.test_probe import leftovers

CONFIG = load_config()
RULES = load_rules(paths.config_file("verdicts.toml"))
OCTOBER, DECEMBER = "1.21.0-dev.20241024-d9ca84ef96", "1.21.0-dev.20241205-d27fecd3d3"
NO_ADAPTER = "--browser-arg=--disable-software-rasterizer"


# --- how it is pinned -----------------------------------------------------------------------------------------


def files_of(case: Case) -> set[str]:
    """The files that a page is served of `case`."""
    home = case.model.parent
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A folder with a script and everything that may lie beside one."""
    folder = tmp_path / "crowded"
    write_script(folder, "return 1;", 1)
    (folder / "weights.bin").write_bytes(b"weights")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep.json").write_text("{}")
    (folder / ".hidden").write_text("secret")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "linked").symlink_to(tmp_path, target_is_directory=True)
    return folder


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        ("", {"repro.mjs", "expected.json", "weights.bin", "sub/deep.json"}),
        ("repro.mjs", {"repro.mjs", "expected.json", "weights.bin"}),
    ],
)
def test_a_folder_is_pinned_whole_and_a_file_with_those_beside_it(crowded: Path, named: str, kept: set[str]) -> None:
    (case,) = load_all([str(crowded / named)], Making(crowded.parent / "cache"))
    assert (case.kind, case.model.name, case.reference) == (CaseKind.SCRIPT, "repro.mjs", "expected.json")
    assert files_of(case) == kept
    again = load_pinned(case.digest, case.name, crowded.parent / "cache")
    assert again == case
    assert f"{len(kept) - 1} files beside it" in describe(case)


def test_every_file_counts_in_the_digest(crowded: Path) -> None:
    making = Making(crowded.parent / "cache")
    before = load_all([str(crowded)], making)[0]
    (crowded / "sub" / "deep.json").write_text("[]")
    after = load_all([str(crowded)], making)[0]
    assert before.digest != after.digest
    assert (before.model.parent / "sub" / "deep.json").read_text() == "{}"


def test_scripts_never_share_a_page_with_anything(tmp_path: Path) -> None:
    one, other = script_case(tmp_path / "one", "return 1;"), script_case(tmp_path / "other", "return 2;")
    again = script_case(tmp_path / "again", "return 1;")
    assert one.digest == again.digest
    assert len({one.page, other.page, again.page, ""}) == 4
    together = (one, replace(again, page=one.page), replace(smoke(tmp_path), page=one.page))
    target = plain_target(Browser("chrome", Path("chrome"), "1"), "any", ())
    made = Probe(planted_artifact(tmp_path / "artifact"), planted_bundle(), target, "wasm", together)
    assert not any(made.shares_page(index) for index in range(len(together)))


@pytest.mark.parametrize("what", ["many", "plain", "name"])
def test_what_cannot_be_pinned_is_refused(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "case"
    path = write_script(folder, "return 1;")
    if what == "many":
        for number in range(MAX_FILES):
            (folder / f"{number}.txt").touch()
    elif what == "plain":
        path.write_text("console.log('hello');")
    else:
        (folder / "a\x1b[31mb").touch()
    with pytest.raises(CaseError) as refused:
        load_all([str(path)], Making(tmp_path / "cache"))
    assert "\x1b" not in str(refused.value)
    assert not (tmp_path / "cache" / "cases").exists()


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        ("--runs", {"runs": 2}),
        ("--recreate", {"recreate": 1}),
        ("--sessions", {"sessions": 2}),
        ("--between", {"between": "x"}),
    ],
)
def test_a_plan_that_only_models_can_follow_is_refused(tmp_path: Path, option: str, changes: dict[str, Any]) -> None:
    script = script_case(tmp_path / "case", "return 1;")
    with pytest.raises(UsageError, match=option):
        refuse_repeats(replace(Request("a", "b", ()), **changes), [smoke(tmp_path), script])
    refuse_repeats(replace(Request("a", "b", ()), **changes), [smoke(tmp_path)])
    refuse_repeats(Request("a", "b", (), fresh_pages=2), [script])


# --- expected.json --------------------------------------------------------------------------------------------


def expected(folder: Path, text: str) -> dict[str, np.ndarray]:
    """The expected outputs in the `expected.json` of the content `text`, by name."""
    (folder / "expected.json").write_text(text)
    (data_set,) = read_expected(folder, "case")
    return {tensor.name: tensor.array() for tensor in data_set.expected}


@pytest.mark.parametrize(
    ("text", "name", "dtype", "values"),
    [
        ("3", "result", "float64", 3.0),
        ('"-Infinity"', "result", "float64", -np.inf),
        ('[[1, 2], [3, "NaN"]]', "result", "float64", [[1, 2], [3, np.nan]]),
        ('{"y": [1, 2]}', "y", "float64", [1, 2]),
        ('{"dtype": "float32", "shape": [2, 1], "data": [1, 2]}', "result", "float32", [[1], [2]]),
        ('{"y": {"dtype": "int64", "shape": [1], "data": [9223372036854775807]}}', "y", "int64", [2**63 - 1]),
        ('{"y": {"dtype": "bool", "shape": [2], "data": [true, false]}}', "y", "bool", [True, False]),
        ('{"y": {"dtype": "float16", "shape": [], "data": [0.5]}}', "y", "float16", 0.5),
        ('{"y": {"dtype": "uint8", "shape": [2, 0], "data": []}}', "y", "uint8", np.zeros((2, 0))),
    ],
)
def test_expected_values_in_each_form(tmp_path: Path, text: str, name: str, dtype: str, values: object) -> None:
    found = expected(tmp_path, text)
    assert list(found) == [name]
    assert found[name].dtype == dtype
    assert np.array_equal(found[name], np.array(values, dtype), equal_nan=dtype.startswith("float"))


def test_four_bit_values_are_packed_low_half_first(tmp_path: Path) -> None:
    (tmp_path / "expected.json").write_text('{"dtype": "int4", "shape": [3], "data": [-8, 7, -1]}')
    (data_set,) = read_expected(tmp_path, "case")
    assert data_set.expected[0].data == bytes([0x78, 0x0F])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        '"text"',
        "[1, [2]]",
        "[" * 100_000,
        "[" * 40 + "]" * 40,
        '{"y": {"dtype": "float32"}}',
        '{"y": {"dtype": "string", "shape": [1], "data": ["a"]}}',
        '{"y": {"dtype": "float99", "shape": [1], "data": [1]}}',
        '{"y": {"dtype": ["\\u001b[31m"], "shape": [1], "data": [1]}}',
        '{"y": {"dtype": "float32", "shape": [3], "data": [1]}}',
        '{"y": {"dtype": "float32", "shape": [-1], "data": []}}',
        '{"y": {"dtype": "float32", "shape": [1000000000, 1000000000], "data": [1]}}',
        '{"y": {"dtype": "int8", "shape": [1], "data": [128]}}',
        '{"y": {"dtype": "int32", "shape": [1], "data": [1.5]}}',
        '{"y": {"dtype": "float32", "shape": [1], "data": [' + "1" * 5000 + "]}}",
    ],
)
def test_expected_values_that_do_not_fit_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CaseError) as refused:
        expected(tmp_path, text)
    assert str(refused.value).startswith("case: expected.json")
    assert "\x1b" not in str(refused.value) and len(str(refused.value)) < 1000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["dtype", "shape", "data", "y"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=JSON, dtype=st.sampled_from(["float32", "int4", "bool", "uint64", "string"]))
def test_no_expected_value_makes_the_reader_stumble(
    tmp_path_factory: pytest.TempPathFactory, value: object, dtype: str
) -> None:
    folder = tmp_path_factory.mktemp("expected", numbered=True)
    for each in (value, {"y": {"dtype": dtype, "shape": [1], "data": value}}):
        write_script(folder, "return 1;", {"x": each})
        try:
            (data_set,) = read_expected(folder, "case")
        except CaseError:
            continue
        assert all(tensor.dtype for tensor in data_set.expected)


# --- what is served -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("7/repro.mjs", 200),
        ("7/sub/deep.json", 200),
        ("8/repro.mjs", 404),
        ("7/../case.json", 404),
        ("7/%2e%2e%2fcase.json", 404),
        ("7//etc/passwd", 404),
        ("7/sub", 404),
        ("7/" + "x" * 5000, 404),
        ("7/a%00b", 404),
        ("99999999999999999999/repro.mjs", 403),
    ],
)
def test_the_pinned_files_are_served_and_nothing_else(crowded: Path, path: str, status: int) -> None:
    (case,) = load_all([str(crowded)], Making(crowded.parent / "cache"))

    async def look() -> int:
        async with HarnessServer(None, {7: case.model.parent}) as server, aiohttp.ClientSession() as client:
            url = f"http://127.0.0.1:{server.port}/{server.token}/asset/{quote(path, safe='/%.')}"
            async with client.get(URL(url, encoded=True)) as response:
                assert "default-src 'self'" in response.headers["Content-Security-Policy"]
                return response.status

    assert asyncio.run(look()) == status


# --- what a verdict says --------------------------------------------------------------------------------------

CPU, GPU = Placement("CPUExecutionProvider", ()), Placement("JsExecutionProvider", ())


@pytest.mark.parametrize(
    ("asked", "placements", "dispatches", "ran"),
    [
        ((("webgpu", "wasm"),), (CPU,), 0, ("wasm",)),
        ((("webgpu", "wasm"),), (GPU,), 3, ("webgpu",)),
        ((("webgpu", "wasm"),), (GPU, CPU), 3, ("webgpu", "wasm")),
        ((("webgpu", "cpu"),), (), 0, ("wasm",)),
        ((("webgpu", "wasm"),), (), 3, ("webgpu",)),
        ((("webgpu",),), (), 0, ("wasm",)),
        ((("webgl",),), (), 0, ("webgl",)),
        ((("webgl", "wasm"),), (), 0, ()),
        (((),), (), 0, ()),
        ((), (), 3, ()),
    ],
)
def test_what_really_ran_is_read_from_the_log_and_else_from_dispatches(
    asked: tuple[tuple[str, ...], ...], placements: tuple[Placement, ...], dispatches: int, ran: tuple[str, ...]
) -> None:
    seen = Observation(
        "case", "sha256:a", "ort.mjs", "webgpu", Ending.COMPLETED,
        providers=asked, placements=placements, dispatches=dispatches,
    )  # fmt: skip
    assert really_ran(seen, RULES) == ran


# --- what it may do to the page -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def target() -> Target:
    """The installed browser, without a look at its adapter."""
    return plain_target(locate("chrome", CONFIG), "any", ())


def probe(
    target: Target, folder: Path, *cases: Case, config: BrowserConfig = CONFIG, case_s: float = 20
) -> list[Observation]:
    """What a probe of `cases` with the stand-in bundle observes."""
    limits = Limits(case_s=case_s, probe_s=240)
    artifact = planted_artifact(folder / "artifact")
    return run_probe(Probe(artifact, planted_bundle(), target, "wasm", cases, limits=limits), config)


def judged(seen: Observation, case: Case) -> Verdict:
    """The verdict by the shipped rules."""
    tolerances = load_tolerances(paths.config_file("tolerances.toml"))
    return judging(Request("a", "b", ()), (), tolerances, RULES, "").judge(seen, case)


@pytest.mark.browser
def test_values_of_every_kind_come_back_and_those_expected_are_compared(target: Target, tmp_path: Path) -> None:
    body = """
    const tensor = new ort.Tensor('float32', Float32Array.of(1, NaN), [2, 1]);
    report('typed', Int32Array.of(1, 2));
    const early = Float32Array.of(1);
    report('early', early);
    early[0] = 7;
    return { tensor, number: 1.5, big: 5n, yes: true, nested: [[1, 2], [3, Infinity]], extra: 9 };
    """
    wish = {
        "tensor": {"dtype": "float32", "shape": [2, 1], "data": [1, "NaN"]},
        "typed": [1, 2],
        "early": [1],
        "number": 1.5,
        "big": {"dtype": "int64", "shape": [], "data": [5]},
        "yes": 1,
        "nested": [[1, 2], [3, "Infinity"]],
    }
    good, bad = script_case(tmp_path / "good", body, wish), script_case(tmp_path / "bad", body, {**wish, "early": [7]})
    missing = script_case(tmp_path / "missing", body, {**wish, "absent": 1})
    verdicts = [
        judged(s, c) for s, c in zip(probe(target, tmp_path, good, bad, missing), (good, bad, missing), strict=True)
    ]
    assert [v.outcome for v in verdicts] == [Outcome.GOOD, Outcome.BAD, Outcome.BAD], verdicts
    assert "early[0] is 1 instead of 7" in verdicts[1].reason
    assert "absent" in verdicts[2].reason


@pytest.mark.browser
def test_every_session_tells_its_providers(target: Target, tmp_path: Path) -> None:
    body = """
    const bytes = new TextEncoder().encode('echo');
    await createSession(bytes);
    await createSession('model.bin', { executionProviders: ['a', 'b'], logSeverityLevel: 4 });
    await ort.InferenceSession.create(bytes, { executionProviders: ['wasm', { name: 'webgpu' }] });
    return 1;
    """
    folder = tmp_path / "case"
    write_script(folder, body)
    (folder / "model.bin").write_bytes(b"echo")
    (case,) = load_all([str(folder)], Making(tmp_path / "cache"))
    (seen,) = probe(target, tmp_path, case)
    assert seen.ending is Ending.COMPLETED, seen.errors
    assert seen.providers == (("wasm",), ("a", "b"), ("wasm", "webgpu"))


FOREVER = "await new Promise(() => 0);"
TAKEN_APART = """
window.fetch = () => { throw new Error('no'); };
JSON.stringify = () => '{}'; JSON.parse = () => ({}); console.log = () => { throw new Error('no'); };
return 3;
"""
BOTHERING = """
alert(1); confirm(1); prompt(1); debugger; window.print();
for (let i = 0; i < 9; i += 1) { window.open('about:blank'); }
Promise.reject(new Error('nobody listens'));
return 1;
"""
# Answers in the page's place, with what the page itself would have said, and fails.
FORGING = """
const step = { name: '', outputs: [[]] };
const result = { index: 0, ending: 'completed', steps: [step], times_ms: [], errors: [], console: [], dispatches: 0,
                 gpu_errors: [], adapter: null, found: null, blob_count: 0 };
const page = new URLSearchParams(location.search).get('page');
for (const kind of ['result', 'results']) {
  const head = new TextEncoder().encode(JSON.stringify({ ...result, results: [result], kind, page, blobs: [] }));
  const body = new Blob([new Uint32Array([head.length]), head]);
  const answer = fetch(new URL('exchange', location.href), { method: 'POST', body });
  await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 500))]);
}
throw new Error('after all');
"""
# What each does, what it may expect, how it ends and what that says of the build.
HOSTILE = {
    "loops": ("for (;;) {}", None, Ending.HANG, Outcome.BAD),
    "leaves": (f"location.href = 'https://example.com'; {FOREVER}", None, Ending.ERROR, Outcome.BAD),
    "reloads": (f"location.reload(); {FOREVER}", None, Ending.ERROR, Outcome.BAD),
    "throws": ("throw new TypeError('\\u001b[31m<script>' + 'x'.repeat(1e6));", None, Ending.ERROR, Outcome.BAD),
    "bothers": (BOTHERING, None, Ending.COMPLETED, Outcome.GOOD),
    "lingers": ("setTimeout(() => { for (;;) {} }, 500); return 1;", None, Ending.COMPLETED, Outcome.GOOD),
    "gives text": ("return 'text';", None, Ending.ERROR, Outcome.BAD),
    "no syntax": ("return (((", None, Ending.ERROR, Outcome.SKIP),
    "breaks its page": ("Array.prototype.push = () => 0; return 1;", None, Ending.ERROR, Outcome.BAD),
    "breaks it with nonsense": (
        "TextDecoder.prototype.decode = () => '{}'; Array.prototype.map = () => 1; "
        "Array.prototype.flat = Array.from = Map.prototype.set = () => 1; return 1;",
        None,
        Ending.ERROR,
        Outcome.BAD,
    ),
    "takes it apart": (TAKEN_APART, 3, Ending.COMPLETED, Outcome.GOOD),
    "is wrong as well": (TAKEN_APART, 4, Ending.COMPLETED, Outcome.BAD),
}


@pytest.mark.browser
def test_whatever_a_script_does_it_is_named_and_the_next_one_runs(target: Target, tmp_path: Path) -> None:
    cases = [script_case(tmp_path / name, body, wish) for name, (body, wish, _, _) in HOSTILE.items()]
    last = script_case(tmp_path / "last", "return 1;")
    seen = probe(target, tmp_path, *cases, last, case_s=4)
    got = {case.name: (s.ending, judged(s, case).outcome) for s, case in zip(seen, cases, strict=False)}
    assert got == {name: (ending, outcome) for name, (_, _, ending, outcome) in HOSTILE.items()}
    assert seen[-1].ending is Ending.COMPLETED
    by_name = dict(zip(HOSTILE, seen, strict=False))
    left = by_name["leaves"].errors[0]
    assert (left.stage, left.message) == (Stage.RUN, "the page was left or reloaded during the case")
    assert any("nobody listens" in text for text in by_name["bothers"].console)
    assert leftovers() == []


@pytest.mark.browser
def test_a_script_that_answers_in_its_pages_place_is_not_heard(target: Target, tmp_path: Path) -> None:
    case = script_case(tmp_path / "forges", FORGING)
    (seen,) = probe(target, tmp_path, case)
    assert (seen.ending, judged(seen, case).outcome) == (Ending.ERROR, Outcome.BAD)
    assert "after all" in seen.errors[0].message


@pytest.mark.browser
def test_memory_without_end_is_named_before_the_machine_has_none_left(target: Target, tmp_path: Path) -> None:
    small = CONFIG.model_copy(update={"common": CONFIG.common.model_copy(update={"script_memory_gib": 1.0})})
    body = "const all = []; for (;;) { all.push(new Uint8Array(1e7).fill(1)); }"
    case = script_case(tmp_path / "grows", body)
    (seen,) = probe(target, tmp_path, case, config=small, case_s=60)
    verdict = judged(seen, case)
    assert (seen.ending, verdict.outcome) == (Ending.CRASH, Outcome.BAD)
    assert verdict.signature is not None
    assert (verdict.signature.kind, verdict.signature.message) == (Failure.CRASH, "out of memory")
    assert leftovers() == []


REACHING_OUT = """
const tcp = ['http://127.0.0.1:%(tcp)d', 'http://127.0.0.2:%(tcp)d', 'http://localhost:%(tcp)d'];
const tag = (name, attribute, url) => {
  const element = document.createElement(name);
  element[attribute] = url;
  if (name === 'link') { element.rel = 'stylesheet'; }
  document.body.appendChild(element);
};
const quiet = async (work) => { try { await work(); } catch (error) { /* refused at once */ } };
for (const url of tcp) {
  await quiet(() => fetch(url, { mode: 'no-cors' }));
  await quiet(() => navigator.sendBeacon(url, 'secret'));
  await quiet(() => new WebSocket(url.replace('http', 'ws')));
  await quiet(() => new EventSource(url));
  await quiet(() => import(url));
  await quiet(() => new Worker(URL.createObjectURL(new Blob([`importScripts('${url}'); fetch('${url}')`]))));
  for (const [name, attribute] of [['img', 'src'], ['script', 'src'], ['iframe', 'src'], ['link', 'href'],
                                   ['video', 'src'], ['object', 'data']]) {
    tag(name, attribute, url);
  }
  const form = document.createElement('form');
  form.action = url;
  form.target = '_blank';
  document.body.appendChild(form);
  await quiet(() => form.submit());
}
await quiet(async () => {
  const peer = new RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:%(udp)d' }] });
  peer.createDataChannel('x');
  await peer.setLocalDescription(await peer.createOffer());
});
await new Promise((resolve) => setTimeout(resolve, 1500));
return 1;
"""


@pytest.fixture
def listeners() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP and a UDP socket that others of this machine could be reached by."""
    with socket.create_server(("0.0.0.0", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        for each in (tcp, udp):
            each.setblocking(False)
        yield tcp, udp


def said_to(tcp: socket.socket) -> list[bytes]:
    """What was sent to `tcp`. A connection without a word is what Chromium makes before it asks whether it may."""
    said = []
    with contextlib.suppress(BlockingIOError):
        while True:
            connection, _ = tcp.accept()
            with connection, contextlib.suppress(BlockingIOError):
                connection.setblocking(False)
                said.append(connection.recv(1000))
    return [words for words in said if words]


@pytest.mark.browser
def test_a_page_reaches_nobody_but_our_server(
    target: Target, tmp_path: Path, listeners: tuple[socket.socket, socket.socket]
) -> None:
    tcp, udp = listeners
    ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
    hosts = ("127.0.0.2", "localhost")
    leaving = [f"location.href = 'http://{host}:{ports['tcp']}/secret'; {FOREVER}" for host in hosts]
    bodies = [REACHING_OUT % ports, *leaving]
    seen = probe(target, tmp_path, *(script_case(tmp_path / str(n), body) for n, body in enumerate(bodies)))
    assert [each.ending for each in seen] == [Ending.COMPLETED, Ending.ERROR, Ending.ERROR], seen[0].errors
    assert said_to(tcp) == []
    with pytest.raises(BlockingIOError):
        udp.recvfrom(100)


# --- on published builds --------------------------------------------------------------------------------------


def grid_sample(folder: Path) -> Path:
    """The script of `models.grid_sample`, with its model beside it and what onnxruntime computes for it."""
    (data_set,) = load_all([str(models.grid_sample(folder))], Making(folder / "cache"))[0].data_sets
    write_script(folder / "grid", GRID_SAMPLE, {"y0": data_set.expected[0].array().tolist()})
    (folder / "grid_sample" / "model.onnx").rename(folder / "grid" / "model.onnx")
    return folder / "grid" / "repro.mjs"


def add(folder: Path, providers: str, name: str = "repro.mjs") -> str:
    """The script of `models.add` that asks for `providers`, with its model beside it; relative to `folder`."""
    if not (folder / "sum" / "model.onnx").exists():
        models.add(folder, "sum")
    return str(write_script(folder / "sum", ADD % providers, TWICE, name).relative_to(folder))


@pytest.mark.network
@pytest.mark.browser
def test_a_regression_is_bracketed_with_a_script(shell: Shell) -> None:
    case = grid_sample(shell.folder)
    done = shell.run("run", "--good", "1.20.1", "--bad", DECEMBER, "--case", str(case), "--out", "report")
    assert done.status == 0, done.err
    report = shell.report()
    boundary = report["boundary"]
    assert (boundary["last_old"]["version"], boundary["first_new"]["version"]) == (OCTOBER, DECEMBER)
    assert report["cases"][0]["signature"]["kind"] == "mismatch"
    rows = {row["revision"]: (row["verdict"], row["provider"], row["ran_on"]) for row in report["matrix"]}
    assert rows[OCTOBER] == ("good", "wasm", "cpu")
    assert rows[DECEMBER] == ("bad", "webgpu", "gpu")


@pytest.mark.network
@pytest.mark.browser
@pytest.mark.parametrize(
    ("revision", "backend", "threads"),
    [
        ("1.14.0", "wasm", 2),
        ("1.18.0", "wasm", 2),
        ("1.18.0", "webgpu", 1),
        ("1.30.0", "wasm", 2),
        ("1.30.0", "webgpu", 1),
    ],
)
def test_scripts_and_the_workers_of_wasm_run_in_every_era(
    shell: Shell, revision: str, backend: str, threads: int
) -> None:
    models.add(shell.folder, "sum")
    watched = f"""
    let workers = 0;
    window.Worker = class extends window.Worker {{ constructor(...all) {{ super(...all); workers += 1; }} }};
    ort.env.wasm.numThreads = {threads};
    const result = await (async () => {{ {ADD % "undefined"} }})();
    if (workers < {threads - 1}) {{ throw new Error(`${{workers}} workers`); }}
    return result;
    """.replace(", { executionProviders: undefined }", "")
    write_script(shell.folder / "sum", watched, TWICE)
    done = shell.run("check", revision, "--case", "sum", "--backend", backend)
    assert done.status == 0, done.err


@pytest.mark.network
@pytest.mark.browser
def test_without_an_adapter_the_report_says_that_wasm_ran(shell: Shell) -> None:
    case = add(shell.folder, "['webgpu', 'wasm']")
    done = shell.run("run", "--good", "1.20.1", "--bad", "1.21.0", "--case", case, "--out", "report", NO_ADAPTER)
    assert done.status == 11, done.err
    report = shell.report()
    said = "the script asked for webgpu, wasm: wasm ran (1.20.1, 1.21.0)"
    assert any(said in warning for warning in report["warnings"]), report["warnings"]
    assert {(row["verdict"], row["provider"], row["ran_on"]) for row in report["matrix"]} == {("good", "wasm", "cpu")}
    assert report["targets"][0]["adapter"] is None


@pytest.mark.network
@pytest.mark.browser
def test_a_script_that_needs_the_adapter_gets_no_verdict_without_one(shell: Shell) -> None:
    case = add(shell.folder, "['webgpu']")
    done = shell.run("check", "1.20.1", "--case", case, NO_ADAPTER)
    assert done.status == 130, done.err
    assert "Failed to get GPU adapter" in done.err
    done = shell.run("check", "1.20.1", "--case", case, NO_ADAPTER, "--adapter", "hardware")
    assert done.status == 130 and "gives no GPU adapter" in done.err and "Going on" not in done.err


@pytest.mark.network
@pytest.mark.browser
@pytest.mark.parametrize(
    ("revision", "status", "said"),
    [("1.20.1", 0, "the script asked for webgpu, wasm: webgpu ran"), ("1.14.0", 125, "no such backend")],
)
def test_what_ran_is_said_where_the_list_leaves_it_open(shell: Shell, revision: str, status: int, said: str) -> None:
    backend = "wasm" if revision == "1.14.0" else "webgpu"
    case = add(shell.folder, "['webgpu', 'wasm']")
    done = shell.run("check", revision, "--case", case, "--backend", backend, "--adapter", "software")
    assert done.status == status, done.err
    assert said in done.err
