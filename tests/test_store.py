"""The content-addressed store: whole entries or none, whoever else works in it and whatever breaks."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisect_bot.builds.disk import disk_errors
from bisect_bot.builds.store import Record, Store, describe
from bisect_bot.errors import DiskFull, MachineError
from bisect_bot.model import Artifact


def make(store: Store, name: str, files: dict[str, bytes]) -> Path:
    folder = store.tmp / name
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def add(store: Store, key: str, files: dict[str, bytes], commit: str | None = None) -> Artifact:
    folder = make(store, f"made-for-{key}", files)
    return store.add(Record(key=key, revision=key, commit=commit), folder)


def wasm(commit: str) -> bytes:
    return b"\0asm git-commit-id=" + commit.encode() + b", rest"


def test_what_was_stored_is_found_by_its_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    added = add(store, "k", {"a.js": b"1", "esm/b.js": b"2"}, commit="0123456789")
    assert store.find("k") == added
    assert (added.directory / "esm" / "b.js").read_bytes() == b"2"
    assert added.commit == "0123456789"
    assert store.find("other") is None


def test_two_builds_that_differ_by_their_commit_id_only_share_one_entry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one = add(store, "one", {"a.wasm": wasm("0123456789")}, "0123456789")
    two = add(store, "two", {"a.wasm": wasm("abcdef012")}, "abcdef012")
    assert one.digest == two.digest
    assert one.directory == two.directory
    found = store.find("two")
    assert found is not None and found.commit == "abcdef012"
    assert found.revision == "two"


@pytest.mark.parametrize(
    "other",
    [{"a.wasm": wasm("0123456789") + b"!"}, {"b.wasm": wasm("0123456789")}, {"a.js": wasm("0123456789")}],
    ids=["other bytes", "other name", "commit id elsewhere"],
)
def test_any_other_difference_gives_another_digest(tmp_path: Path, other: dict[str, bytes]) -> None:
    store = Store(tmp_path)
    assert add(store, "one", {"a.wasm": wasm("0123456789")}).digest != add(store, "two", other).digest


names = st.text("abc", min_size=1, max_size=3)


@given(st.dictionaries(names, st.binary(max_size=8), max_size=4), st.dictionaries(names, st.binary(max_size=8)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_equal_digests_mean_equal_files(
    tmp_path_factory: pytest.TempPathFactory, one: dict[str, bytes], two: dict[str, bytes]
) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    digests = [describe(make(store, str(n), files)).digest for n, files in enumerate((one, two))]
    assert (digests[0] == digests[1]) == (one == two)


def test_a_stamp_holds_what_is_needed_to_verify_each_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    artifact = add(store, "k", {"a.wasm": wasm("0123456789")})
    stamp = describe(artifact.directory)
    assert (artifact.directory.parent / "stamp.json").read_text() == stamp.model_dump_json()


@pytest.mark.parametrize("damage", ["truncate", "remove", "stamp"])
def test_a_damaged_entry_counts_as_absent_and_is_replaced(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    files = {"a.js": b"12345", "b.js": b"2"}
    artifact = add(store, "k", files)
    if damage == "truncate":
        (artifact.directory / "a.js").write_bytes(b"123")
    elif damage == "remove":
        (artifact.directory / "b.js").unlink()
    else:
        (artifact.directory.parent / "stamp.json").write_text("{")
    assert store.find("k") is None
    again = add(store, "k", files)
    assert store.find("k") == again
    assert (again.directory / "a.js").read_bytes() == b"12345"
    assert list(store.tmp.iterdir()) == []


def test_a_record_that_lies_about_its_digest_leads_nowhere(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add(store, "k", {"a.js": b"1"})
    (path,) = (tmp_path / "keys").iterdir()
    path.write_text(path.read_text().replace("sha256:", "sha256:../../"))
    assert store.find("k") is None


def test_many_at_once_all_succeed_with_the_same_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folders = [make(store, f"f{n}", {"a.js": b"x" * 1000, "b.wasm": wasm("0123456789")}) for n in range(8)]
    start = threading.Barrier(8)
    found: list[Artifact] = []

    def work(folder: Path) -> None:
        start.wait()
        found.append(store.add(Record(key="k", revision="r"), folder))

    threads = [threading.Thread(target=work, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {store.find("k")}
    assert list(store.tmp.iterdir()) == []


def test_a_cache_that_cannot_be_written_says_how_to_name_another(tmp_path: Path) -> None:
    store = Store(tmp_path)
    folder = make(store, "f", {"a.js": b"1"})
    (tmp_path / "artifacts").write_text("a file where a folder should be")
    with pytest.raises(MachineError) as caught:
        store.add(Record(key="k", revision="r"), folder)
    assert "BISECT_BOT_CACHE" in caught.value.advice


FILLING = """
import sys
from pathlib import Path
from bisect_bot.builds.store import Record, Store
from bisect_bot.errors import DiskFull
store = Store(Path(sys.argv[1]))
def add(key, size):
    folder = store.tmp / key
    folder.mkdir(parents=True)
    (folder / "a.js").write_bytes(key.encode() * size)
    return store.add(Record(key=key, revision=key, sources={"lib/a.ts": "0" * size}), folder)
add("a", 1000)
try:
    add("b", 250_000)
except DiskFull as error:
    print("full", store.find("a") is not None, store.find("b"), "BISECT_BOT_CACHE" in error.advice)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small file system in a namespace of its own")
def test_a_full_disk_is_said_and_leaves_the_cache_whole(tmp_path: Path) -> None:
    mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=400k none "$0" && exec "$@"', str(tmp_path)]
    try:
        able = subprocess.run([*mount, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        able = False
    if not able:
        pytest.skip("this machine lets nobody mount a file system of his own")
    done = subprocess.run(
        [*mount, sys.executable, "-c", FILLING, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "full True None True", done.stderr


def test_a_write_to_a_full_device_is_a_full_disk() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(DiskFull), disk_errors(Path("/dev/full")), Path("/dev/full").open("w") as file:
        file.write("x")
        file.flush()


@pytest.mark.parametrize("damage", ["same size, other bytes", "one file more", "nothing"])
def test_damage_that_sizes_do_not_show_is_found_by_reading_and_removed(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    artifact = add(store, "k", {"a.js": b"1", "b.wasm": wasm("0123456789")})
    victim = next(path for path in sorted(artifact.directory.rglob("*")) if path.is_file())
    content = victim.read_bytes()
    if damage == "same size, other bytes":
        victim.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    elif damage == "one file more":
        (artifact.directory / "stray.js").write_text("stray")
    assert store.is_intact(artifact) is (damage == "nothing")
    assert (store.find(artifact.key) is not None) is (damage == "nothing")
    assert list(store.tmp.iterdir()) == []
