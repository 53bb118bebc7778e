"""Which plans cannot be meant for which cases."""

from __future__ import annotations

from collections.abc import Sequence

from bisect_bot.errors import UsageError
from bisect_bot.model import Case, CaseKind, Request


def refuse_repeats(request: Request, cases: Sequence[Case]) -> None:
    """Raises UsageError where `request` repeats runs of a script: it has sessions of its own, and nobody else's."""
    asked = {
        "--runs": request.runs > 1,
        "--recreate": request.recreate > 0,
        "--sessions": request.sessions > 1,
        "--between": bool(request.between),
    }
    script = next((case for case in cases if case.kind is CaseKind.SCRIPT), None)
    option = next((option for option, is_asked in asked.items() if is_asked), None)
    if script is not None and option is not None:
        raise UsageError(
            f"{option} cannot be used with {script.name}: a script creates and runs its sessions itself",
            "Repeat in the script what is to be repeated; --fresh-page runs all of it in further pages.",
        )
