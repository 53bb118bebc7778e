"""Notices when a browser or a driver became another while, or since, a session ran.

Looking is cheap: files are asked whether they changed. Only when one did is the browser asked for its version, and
started for its adapter.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bisect_bot.model import Target
from bisect_bot.session.journal import Journal
from bisect_bot.targets.wrappers import started

# Under which kinds the journal remembers what a session ran with.
TARGETS, ONNXRUNTIME = "targets", "onnxruntime"

# Where a loaded driver of Linux tells its version: NVIDIA's own, and those of the kernel.
_MODULES = ("/sys/module/nvidia/version", "/sys/module/amdgpu/version", "/sys/module/i915/srcversion")
# Files that name the user's side of a driver; an update replaces them.
_DRIVERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
# Variables of the Vulkan loader, Mesa and its drivers, PRIME, GLVND, EGL, ANGLE, NVIDIA's driver and its containers.
_GPU_VARIABLE = re.compile(
    r"(VK|MESA|DRI|LIBGL|GALLIUM|RADV|ANV|ZINK|__GLX|__EGL|EGL|__NV|__VK|NVIDIA|AMD_VULKAN|ANGLE|NODEVICE_SELECT)(_|$)"
)


def signs(executable: Path) -> tuple[str, ...]:
    """What changes when the browser at `executable` or a GPU driver of this machine is replaced. Starts nothing.

    Of a script that stands for a browser, also when the programs are that it names.
    """
    return (_stamp(executable), *(_stamp(path) for path in started(executable)), *driver_signs())


def driver_signs() -> tuple[str, ...]:
    """What changes when a GPU driver of this machine is replaced: on Windows and macOS, the system's own version."""
    system = (platform.release(), platform.version())
    if sys.platform != "linux":
        return system
    modules = tuple(_text(Path(name)) for name in _MODULES)
    manifests = (path for folder in _DRIVERS for path in sorted(Path(folder).glob("*.json")))
    return (*system, *modules, *(_stamp(path) for path in manifests))


def gpu_environment() -> tuple[str, ...]:
    """The environment variables by which a driver or its loader decides which GPU a browser gets, as `NAME=value`."""
    return tuple(f"{name}={value}" for name, value in sorted(os.environ.items()) if _GPU_VARIABLE.match(name))


def _stamp(path: Path) -> str:
    """Name, size and time of change of the file that `path` leads to; empty when there is none."""
    try:
        real = path.resolve(strict=True)
        info = real.stat()
    except OSError:
        return ""
    return f"{real} {info.st_size} {info.st_mtime_ns}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


@dataclass(slots=True)
class Surroundings:
    """The targets of a session as they are. `renew` gives a target as it is now, whatever it costs.

    It may raise NoBrowser or NoAdapter, when the browser went away or gives another adapter.
    """

    renew: Callable[[Target], Target]
    _signs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _current: dict[str, Target] = field(default_factory=dict)

    def watch(self, target: Target) -> None:
        """Remembers how things are; to be called when `target` was just looked at."""
        self._signs[target.executable] = signs(Path(target.executable))

    def look(self, target: Target) -> Target:
        """`target` as it is now; the same where nothing points to a change."""
        now = signs(Path(target.executable))
        if not now[0]:
            return self.now(target)  # in the middle of an update: whoever starts it finds out
        if self._signs.setdefault(target.executable, now) == now:
            return self.now(target)
        self._current[target.name] = self.renew(target)
        self.watch(target)
        return self.now(target)

    def now(self, target: Target) -> Target:
        """What `target` was found to be when it was last looked at."""
        return self._current.get(target.name, target)


def changes(old: Target, new: Target) -> tuple[str, ...]:
    """How `new` differs from `old`, in sentences without their end; what a name cannot tell is left out."""
    found = []
    if (old.product, old.version) != (new.product, new.version):
        found.append(f"The browser changed from {_browser(old)} to {_browser(new)}")
    if str(old.adapter) != str(new.adapter):
        found.append(f"The GPU adapter changed from {old.adapter} to {new.adapter}")
    before, after = (target.adapter.driver if target.adapter else None for target in (old, new))
    if before != after:
        found.append(f"The GPU driver changed from {before or 'one without a name'} to {after or 'one without a name'}")
    return tuple(found) or ("The way in which the browser is started changed",)


def _browser(target: Target) -> str:
    return f"{target.product or target.name} {target.version}"


def changed_since(session: str, targets: Sequence[Target], journal: Journal) -> tuple[str, ...]:
    """What became another since `session` was last worked on, in sentences; and remembers how it is now.

    A first look finds nothing. What was answered by another browser or driver is not recalled, so all is tested again.
    """
    kinds = TypeAdapter(tuple[Target, ...])
    try:
        before = {target.name: target for target in kinds.validate_python(journal.remembered(TARGETS, session) or ())}
    except ValidationError:
        before = {}
    journal.remember(TARGETS, session, kinds.dump_python(tuple(targets), mode="json"))
    pairs = [(before[target.name], target) for target in targets if target.name in before]
    again = "since this session began: what was tested before was tested again."
    found = [f"{change} {again}" for old, new in pairs if old != new for change in changes(old, new)]
    reference = version("onnxruntime")
    earlier = journal.remembered(ONNXRUNTIME, session)
    journal.remember(ONNXRUNTIME, session, reference)
    if earlier not in (None, reference):
        found.append(
            f"onnxruntime changed from {earlier} to {reference} since this session began:"
            " expected outputs that it computed are those of the earlier one."
        )
    return tuple(found)
