"""How a machine without a browser gets one. The commands that run here are real and harmless."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bisect_bot.errors import ConfigError, NoBrowser
from bisect_bot.targets import provision
from bisect_bot.targets.provision import ByHand, Machine, ProvisionConfig, Way

DEBIAN_ROOT = Machine("linux", ("debian",), True)
DEBIAN_USER = Machine("linux", ("debian",), False)
UBUNTU_ROOT = Machine("linux", ("ubuntu", "debian"), True)
UBUNTU_USER = Machine("linux", ("ubuntu", "debian"), False)
FEDORA_USER = Machine("linux", ("fedora",), False)
ALPINE_USER = Machine("linux", ("alpine",), False)
MAC = Machine("darwin", (), False)
WINDOWS = Machine("win32", (), False)
EVERYWHERE = ("linux", "darwin", "win32")

# A stand-in for a browser's executable: like one, it tells its version.
BROWSER = "#!/bin/sh\necho 'Chromium 156.0.8078.114'\n"
BROKEN = "#!/bin/sh\necho 'libnss3.so: cannot open shared object file' >&2; exit 127\n"


def install(path: Path, text: str = BROWSER) -> tuple[str, ...]:
    """A command that puts an executable at `path`."""
    if os.name == "nt":
        pytest.skip("a shell script is no executable here")
    return (
        "{python}",
        "-c",
        f"import pathlib; p = pathlib.Path({str(path)!r}); p.write_text({text!r}); p.chmod(0o755)",
    )


def note(path: Path) -> tuple[str, ...]:
    """A command that shows that it was run."""
    return ("{python}", "-c", f"open({str(path)!r}, 'a').write('ran\\n')")


FAILS = ("{python}", "-c", "import sys; sys.exit('Error: the download was refused')")


def way(*commands: tuple[str, ...], name: str = "a way", asks: bool = False) -> Way:
    return Way(systems=EVERYWHERE, name=name, commands=commands, asks=asks)


class Desk:
    """A machine with one place for a browser, a person who answers, and what was said to them."""

    def __init__(self, folder: Path, answer: bool = True) -> None:
        self.browser, self.mark = folder / "chrome", folder / "mark"
        self.answer, self.asked, self.said = answer, list[str](), list[str]()

    def ask(self, question: str) -> bool:
        self.asked.append(question)
        return self.answer

    def get(self, *ways: Way) -> Path:
        return provision.find_or_get_browser(
            find=lambda: self.browser if self.browser.exists() else None,
            config=ProvisionConfig(ways=ways, by_hand=(ByHand(systems=EVERYWHERE, type="install one"),)),
            machine=DEBIAN_USER,
            ask=self.ask,
            say=self.said.append,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk without a browser."""
    return Desk(tmp_path)


def test_a_browser_that_is_there_is_used_and_nothing_is_run(desk: Desk) -> None:
    desk.browser.write_text(BROWSER)
    assert desk.get(way(note(desk.mark), asks=True)) == desk.browser
    assert not desk.mark.exists()
    assert desk.asked == desk.said == []


def test_the_first_way_that_works_is_the_last_one_tried(desk: Desk) -> None:
    assert desk.get(way(install(desk.browser)), way(note(desk.mark))) == desk.browser
    assert not desk.mark.exists()


def test_a_way_that_fails_is_reported_and_the_next_one_tried(desk: Desk) -> None:
    found = desk.get(way(FAILS, note(desk.mark), name="the first"), way(install(desk.browser), name="the second"))
    assert found == desk.browser
    assert not desk.mark.exists()
    assert any("the first" in line and "the download was refused" in line for line in desk.said)


def test_every_command_is_shown_before_it_runs(desk: Desk) -> None:
    desk.get(way(install(desk.browser), name="a browser"))
    assert desk.said[0].startswith(f"getting a browser: {sys.executable} -c")
    assert desk.said[-1].startswith("done in ")


def test_a_browser_that_does_not_start_is_not_accepted(desk: Desk) -> None:
    with pytest.raises(NoBrowser, match="cannot open shared object"):
        desk.get(way(install(desk.browser, BROKEN)))


def test_a_way_that_installs_nothing_that_can_be_found_is_not_believed(desk: Desk) -> None:
    with pytest.raises(NoBrowser, match="no browser is found"):
        desk.get(way(note(desk.mark)))


def test_a_command_that_does_not_exist_is_a_problem_and_no_crash(desk: Desk) -> None:
    with pytest.raises(NoBrowser, match="does not start"):
        desk.get(way(("no-such-package-manager", "install")))


def test_a_change_to_the_system_is_asked_for_once_with_its_command(desk: Desk) -> None:
    desk.get(way(note(desk.mark), install(desk.browser), name="the package", asks=True))
    assert len(desk.asked) == 1
    assert "the package" in desk.asked[0]
    assert sys.executable in desk.asked[0]


def test_a_declined_way_is_not_taken_but_one_that_changes_no_system_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path, answer=False)
    assert desk.get(way(note(desk.mark), asks=True), way(install(desk.browser))) == desk.browser
    assert not desk.mark.exists()


def test_when_nothing_works_the_error_says_why_and_what_to_type(desk: Desk) -> None:
    with pytest.raises(NoBrowser, match=r"a way: .*the download was refused") as error:
        desk.get(way(FAILS))
    assert error.value.advice == "Type: install one"


def test_a_browser_named_in_vain_is_said_instead_of_installing_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROME_BIN", str(tmp_path / "nowhere"))
    said: list[str] = []
    with pytest.raises(NoBrowser, match=r"CHROME_BIN=.*nowhere is no file"):
        provision.find_or_get_browser("chrome", say=said.append)
    assert said == []


# --- the shipped ways ---------------------------------------------------------------------------


def ways_on(machine: Machine) -> list[list[str]]:
    """The last command of each shipped way that applies to `machine`."""
    return [list(entry.commands[-1]) for entry in provision.load_config().ways if entry.applies(machine)]


def test_root_on_debian_takes_the_distribution_s_chromium_first() -> None:
    ways = ways_on(DEBIAN_ROOT)
    assert ways[0][0] == "apt-get"
    assert ways[0][-1] == "chromium"
    assert "--with-deps" in ways[1]


def test_ubuntu_s_snap_stub_is_never_taken() -> None:
    for machine in (UBUNTU_ROOT, UBUNTU_USER):
        assert ways_on(machine)
        assert all(words[0] != "apt-get" for words in ways_on(machine))
    assert "--with-deps" in ways_on(UBUNTU_ROOT)[0]


@pytest.mark.parametrize("machine", [DEBIAN_USER, UBUNTU_USER, FEDORA_USER, ALPINE_USER, MAC, WINDOWS])
def test_without_root_only_playwright_s_own_download_is_tried(machine: Machine) -> None:
    assert ways_on(machine) == [["{python}", "-m", "playwright", "install", "chromium"]]


def test_sudo_is_never_run_and_what_changes_the_system_asks() -> None:
    for entry in provision.load_config().ways:
        words = {word for command in entry.commands for word in command}
        assert "sudo" not in words
        assert entry.asks == bool(words & {"apt-get", "--with-deps"})


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (DEBIAN_USER, "sudo apt-get update && sudo apt-get install chromium libatomic1"),
        (DEBIAN_ROOT, "apt-get update && apt-get install chromium libatomic1"),
        (UBUNTU_USER, f"sudo {sys.executable} -m playwright install-deps chromium && "),
        (FEDORA_USER, "sudo dnf install chromium"),
        (ALPINE_USER, f"{sys.executable} -m playwright install chromium (or "),
        (MAC, "brew install --cask google-chrome"),
        (WINDOWS, "winget install Google.Chrome"),
    ],
)
def test_what_to_type_fits_the_platform(machine: Machine, words: str) -> None:
    assert provision.by_hand(provision.load_config(), machine).startswith(words)


def test_a_refused_download_of_playwright_ends_in_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_DOWNLOAD_HOST", "http://127.0.0.1:9")  # the discard port: nobody listens
    said: list[str] = []
    with pytest.raises(NoBrowser, match=r"Playwright's Chromium: .* failed") as error:
        provision.find_or_get_browser(find=lambda: None, machine=DEBIAN_USER, say=said.append)
    assert "ECONNREFUSED" in str(error.value)
    assert "apt-get install chromium libatomic1" in error.value.advice
    assert any("playwright install chromium" in line for line in said)


def test_a_configuration_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "provision.toml"
    file.write_text('[[ways]]\nname = "x"\nsystems = ["linux"]\ncommands = []\nsudo = true\n')
    with pytest.raises(ConfigError, match="sudo"):
        provision.load_config(file)


def test_this_machine_is_described_by_its_system_and_user() -> None:
    machine = provision.this_machine()
    assert machine.system == sys.platform
    assert machine.root == (hasattr(os, "geteuid") and os.geteuid() == 0)


# --- asking -------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("typed", "expected"), [("\n", True), ("y\n", True), ("Yes\n", True), ("n\n", False), ("no\n", False)]
)
def test_a_person_at_a_terminal_is_asked_and_enter_means_yes(
    typed: str, expected: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pty  # noqa: PLC0415 - not on Windows

    monkeypatch.delenv("CI", raising=False)
    keyboard, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin, os.fdopen(keyboard, "wb", buffering=0) as keys:
        monkeypatch.setattr(sys, "stdin", stdin)
        keys.write(typed.encode())
        assert provision.ask_at_terminal("Install it?") is expected
        monkeypatch.undo()
    assert capsys.readouterr().err == "Install it? [Y/n] "


@pytest.mark.parametrize("ci", ["true", ""])
def test_nobody_is_asked_in_ci_or_without_a_terminal(
    ci: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("CI", ci)
    empty = tmp_path / "empty"
    empty.touch()
    with empty.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert provision.ask_at_terminal("Install it?") is True
        monkeypatch.undo()
    assert capsys.readouterr().err == ""
