"""Many cases at once: several texts, patterns, and folders of cases."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from bisect_bot import cases
from bisect_bot.cases import finding, patterns
from bisect_bot.errors import CaseError
from tests.test_cases_samples import identity_folder, identity_model


def names(tmp_path: Path, *texts: str, **dims: int) -> list[str]:
    return [case.name for case in cases.load_all(texts, cases.Making(tmp_path / "cache", dims))]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with cases at several depths, a bare model and other things. Identical ones differ by name."""
    for name in ("node/opset9/test_b", "node/opset10/test_a", "node/test_c", "one"):
        identity_folder(tmp_path / name)
    (tmp_path / "bare").mkdir()
    onnx.save(identity_model(shape=("n",)), tmp_path / "bare" / "free.onnx")
    onnx.save(identity_model(shape=(3,)), tmp_path / "bare" / "sized.onnx")
    (tmp_path / "node" / "README.md").write_text("hello")
    (tmp_path / "node" / ".git" / "x").mkdir(parents=True)
    identity_folder(tmp_path / "node" / ".git" / "hidden")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_several_texts_give_their_cases_in_the_order_typed(tree: Path) -> None:
    assert names(tree, "one", "node/test_c", "builtin:smoke", "bare/sized.onnx") == ["one", "test_c", "smoke", "sized"]


def test_a_folder_without_a_model_gives_the_cases_below_it(tree: Path) -> None:
    assert names(tree, "node") == ["test_b", "test_a", "test_c"]
    assert names(tree, "node/opset9") == ["test_b"]


@pytest.mark.skipif("os.name == 'nt'", reason="links need rights on Windows")
def test_links_to_folders_are_not_followed(tree: Path) -> None:
    (tree / "node" / "loop").symlink_to(tree / "node", target_is_directory=True)
    assert names(tree, "node") == ["test_b", "test_a", "test_c"]


def test_a_folder_without_cases_says_so_and_what_to_type(tree: Path) -> None:
    (tree / "empty").mkdir()
    with pytest.raises(CaseError, match="empty holds no case"):
        names(tree, "empty")
    with pytest.raises(CaseError, match="bare holds no case") as caught:
        names(tree, "bare")
    assert "'bare/*.onnx'" in caught.value.advice


def test_a_folder_of_too_many_files_is_left_before_they_are_all_seen(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "MAX_FILES", 5)
    with pytest.raises(CaseError, match="node holds more than 5 files"):
        names(tree, "node")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("node/opset*/*", ["test_a", "test_b"]),
        ("**/test_[bc]", ["test_b", "test_c"]),
        ("node/test_?", ["test_c"]),
        ("bare/s*.onnx", ["sized"]),
    ],
)
def test_a_pattern_that_the_shell_did_not_expand_is_expanded_sorted(tree: Path, pattern: str, found: list[str]) -> None:
    assert names(tree, pattern) == found
    assert names(tree, str(tree / pattern)) == found


def test_sizes_go_to_those_models_of_a_pattern_that_need_them(tree: Path) -> None:
    made = cases.load_all(["bare/*.onnx"], cases.Making(tree / "cache", {"n": 5}))
    assert [case.data_sets[0].inputs[0].shape for case in made] == [(5,), (3,)]


def test_a_pattern_without_a_match_or_with_too_many_is_an_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CaseError, match=r"nothing matches the pattern nowhere/\*\.onnx"):
        names(tree, "nowhere/*.onnx")
    monkeypatch.setattr(patterns, "MAX_MATCHES", 2)
    with pytest.raises(CaseError, match="matches more than 2 files"):
        names(tree, "**/*")


def test_a_pattern_that_matches_what_is_no_case_names_it(tree: Path) -> None:
    with pytest.raises(CaseError, match=r"node/README\.md is neither .*\(one of 1 that cannot be read, of 4\)"):
        names(tree, "node/*")


def test_a_name_with_brackets_that_exists_is_no_pattern(tree: Path) -> None:
    identity_folder(tree / "odd [1]*")
    assert names(tree, "odd [1]*") == ["odd [1]*"]


def test_brackets_after_the_sign_of_a_manifests_case_are_no_pattern(tree: Path) -> None:
    assert patterns.expand("x.jsonc#T[1,2] * ?") == ("x.jsonc#T[1,2] * ?",)
    (tree / "a.jsonc").touch()
    assert patterns.expand("*.jsonc#T[1,2]") == ("a.jsonc#T[1,2]",)


@pytest.mark.parametrize("text", ["[", "[!", "a\0*", "*" * 5000, "~nobody-of-that-name/*", "/" * 300 + "*\ud800"])
def test_a_hostile_pattern_is_an_error_in_one_line(tree: Path, text: str) -> None:
    with pytest.raises(CaseError) as caught:
        names(tree, text)
    assert str(caught.value).isprintable()
