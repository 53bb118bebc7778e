"""`--full-history`: where the commit that is found is a merge, which commit of its branch made the change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bisect_bot.errors import BuildUnusable, UsageError
from bisect_bot.history.ends import shown
from bisect_bot.history.git import Git
from bisect_bot.history.merges import Merge, Side, merge_at
from bisect_bot.model import Cell, Outcome, Result
from bisect_bot.reports.values import counted
from bisect_bot.session.commit_builds import CommitBuilds
from bisect_bot.session.commit_search import Asked, Sought
from bisect_bot.session.supply import Supply


@dataclass(frozen=True, slots=True)
class Branches:
    """Searches what merges brought, or says that nobody did.

    `search` comes to an answer for each that is asked, among the commits of the builds; those stand before the merge
    (full id) in history. `remark` hears what a reader must know.
    """

    supply: Supply
    search: Callable[[Sequence[Asked], CommitBuilds, str], Sequence[Sought]]
    remark: Callable[[str], None]

    def descend(self, told: Sequence[Sought]) -> list[Sought]:
        """`told`, with the search on a branch in place of one that found the merge which brought it.

        Branches of branches are searched too. Raises MachineError, DiskFull.
        """
        merges: dict[str, list[Sought]] = {}
        for each in told:
            found = each.culprit()
            if found is not None:
                merges.setdefault(found.commit or "", []).append(each)
        within: dict[Cell, Sought] = {}
        for commit, sought in merges.items():
            merge = merge_at(self.supply.clone.git, commit)
            if merge is None:
                continue
            if self.supply.request.full_history:
                within |= self._below(merge, sought)
            else:
                self.remark(_not_searched(merge))
        return [within.get(each.cell, each) for each in told]

    def _below(self, merge: Merge, sought: Sequence[Sought]) -> dict[Cell, Sought]:
        """The searches on the branches of `merge` that found its change, by cell."""
        within: dict[Cell, Sought] = {}
        for side in merge.sides:
            left = [each for each in sought if each.cell not in within]
            within |= self._on(side, merge, left) if left else {}
        return within

    def _on(self, side: Side, merge: Merge, sought: Sequence[Sought]) -> dict[Cell, Sought]:
        name = merge.commit[:10]
        if side.fork is None or not side.count:
            why = "its history shares nothing with the line" if side.fork is None else "it brought no commit"
            self.remark(f"The branch of the merge {name} was not searched: {why}.")
            return {}
        try:
            fork, tip = (self.supply.clone.revision(sha) for sha in (side.fork, side.tip))
            builds = self.supply.open_ground(fork, tip)
        except (UsageError, BuildUnusable) as error:
            self.remark(f"The branch of the merge {name} was not searched: {error}")
            return {}
        before = {each.cell: each for each in sought}
        found = self.search([_asked(each) for each in sought], builds, merge.commit)
        same = [each for each in found if _is_same_change(each, before[each.cell])]
        for each in found:
            told = self._brought(each, merge) if each in same else _elsewhere(each, before[each.cell], side, merge)
            self.remark(told)
        return {each.cell: each for each in self.descend(same)}

    def _brought(self, each: Sought, merge: Merge) -> str:
        found = each.culprit()
        what = found.id if found else "what made the change"
        return f"{each.cell}: {what} came in with the merge {shown(self.supply.clone.git, merge.commit)}."


def _asked(each: Sought) -> Asked:
    """What is asked of the branch: the same failure, seen at the same end."""
    answer = each.answer()
    assert answer.conclusion is not None, "a merge was found"
    kinds = frozenset(failure.kind for failure in answer.failures)
    return Asked(each.cell, each.asked.unit, answer.conclusion.old is Outcome.GOOD, kinds)


def _is_same_change(each: Sought, before: Sought) -> bool:
    """Whether the branch shows the change of the line: from the same outcome, by the same kind of failure."""
    found, main = each.answer().conclusion, before.answer().conclusion
    return each.shows_the_change() and found is not None and main is not None and found.old is main.old


def not_searched_further(git: Git, commit: str) -> str | None:
    """What a reader must know of a further change that `commit` (full id) made; None where it is no merge."""
    merge = merge_at(git, commit)
    if merge is None:
        return None
    return (
        f"{_brought_and_not_searched(merge)} Branches are searched for the nearest change only; for this one, ask for"
        f" it alone: --full-history with the ends {merge.into[:10]} and {merge.commit[:10]}."
    )


def _not_searched(merge: Merge) -> str:
    return f"{_brought_and_not_searched(merge)} To search them too, add --full-history."


def _brought_and_not_searched(merge: Merge) -> str:
    count = sum(side.count for side in merge.sides)
    were = "was" if count == 1 else "were"
    return f"{merge.commit[:10]} is a merge: the {counted(count, 'commit')} that it brought {were} not searched."


def _elsewhere(each: Sought, before: Sought, side: Side, merge: Merge) -> str:
    """Why the merge itself stays the answer."""
    found, main = each.answer().conclusion, before.answer().conclusion
    old = main.old if main is not None else None
    name, tip, fork = merge.commit[:10], side.tip[:10], (side.fork or "")[:10]
    if found is not None and found.result is Result.SAME and found.old in (old, None):
        return f"{each.cell}: each side of the merge {name} alone is {old} ({merge.into[:10]}, {tip}): it is the merge."
    if found is not None and found.result is Result.SAME:
        return (
            f"{each.cell}: the branch of the merge {name} is {found.old} from where it left the line on ({fork}): what"
            f" made it so is older, {merge.into[:10]} is {old} because of what the line has since, and the merge undoes"
            " that."
        )
    why = found.reason if found is not None else "not finished"
    if found is not None and found.result in (Result.FOUND, Result.RANGE):
        why = f"it changes there, but not as it does on the line ({why})"
    return f"{each.cell}: the branch of the merge {name} ({fork} to {tip}) does not tell which commit it is: {why}."
