"""The cover of a pull request, written from the evidence alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tools import patchfile, upstream_lint
from tools.errors import ToolError
from tools.pick import Picked
from tools.policy import Policy, Topic

TO_WRITE = "**To be written by the submitter**"
Evidence = dict[str, Any]


def title(policy: Policy, picked: Picked) -> str:
    """Return the pull request's title, as the upstream wants titles."""
    found = policy.topics.get(picked.topic, Topic()).title
    where = f"policy/{policy.name}.toml"
    if not found and len(picked.own) == 1:
        name, data = picked.own[0]
        found = patchfile.read(data, name).subject
    if not found:
        raise ToolError(
            f"{picked.topic} is several patches and {where} has no title for it; give one as "
            f"'title' under {policy.heading(picked.topic)}."
        )
    if not policy.title.fullmatch(found):
        raise ToolError(
            f"the title {found!r} is not one that {policy.name} takes, such as "
            f"{policy.example!r}; give another under {policy.heading(picked.topic)} of {where}."
        )
    return found


@dataclass(frozen=True)
class Cover:
    """COVER.md; a method for each word that a policy's section may hold."""

    policy: Policy
    found: Evidence

    @property
    def topic(self) -> Topic:
        return self.policy.topics.get(self.found["topic"], Topic())

    def text(self) -> str:
        parts = [f"# {self.found['title']}"]
        for section in self.policy.sections:
            parts.append(f"## {section.title}")
            for word in section.content:
                parts += getattr(self, word)()
            if section.write:
                parts.append(f"{TO_WRITE}: {section.write}.")
        return "\n\n".join(parts) + "\n"

    def summary(self) -> list[str]:
        if self.topic.summary:
            return [self.topic.summary]
        kept = [row for row in self.found["patches"] if not row["left_out"]]
        # The topic's first, not that of a patch it needs; a message may be its subject alone.
        at = next((n for n, row in enumerate(kept) if not row["needed_by"]), 0)
        commit = self.found["commits"][at]
        return [next(iter(_paragraphs(commit["body"])), commit["subject"])]

    def claims(self) -> list[str]:
        return ["\n".join(f"- {row['subject']}" for row in self.found["commits"])]

    def commits(self) -> list[str]:
        parts = []
        for row in self.found["commits"]:
            parts += [f"**{row['subject']}**", *_paragraphs(row["body"])]
        needed = [row for row in self.found["patches"] if row["needed_by"]]
        parts += [f"`{row['name']}` goes along: `{row['needed_by']}` needs it." for row in needed]
        gone = [f"`{row['name']}`" for row in self.found["patches"] if row["left_out"]]
        if gone:
            parts.append(f"Left out, since nothing of them has a place here: {', '.join(gone)}.")
        base = self.found["base"]
        where = f"The patches are made against {base['sdist']} (tree `{base['tree'][:12]}`)"
        apply = "`git am --keep-non-patch` lays the mails over it to the branch's own tree"
        parts.append(
            f"{where}; {apply}." if self.found["start"] else f"{where}; the mails add files only."
        )
        return parts

    def tests(self) -> list[str]:
        tests = self.found["tests"]
        if not tests["run"]:
            return [f"Tests did not run here: {tests['why_not']}."]
        run = tests["run"]
        counts = f"{run['passed']} passed, {run['failed']} failed, {run['skipped']} skipped"
        reason = f" ({run['reason']})" if run["reason"] else ""
        where = f"On a CPU with Triton's interpreter, over {tests['over']}"
        left = [f"- `{name}`: {why}" for name, why in run["left_out"].items()]
        parts = [
            f"{where}: **{run['outcome']}**{reason}, {counts} in {run['seconds']:.0f} s.",
            "```\npytest " + " \\\n    ".join(tests["paths"]) + "\n```",
        ]
        if left:
            parts.append("Left out, since they fail without it as well:\n\n" + "\n".join(left))
        return parts

    def results(self) -> list[str]:
        rows = []
        for row in self.found["results"]:
            values = ", ".join(f"{key} {value}" for key, value in row["values"].items())
            rows.append(f"- `{row['command']}`: {values or 'see the file'}. {_host(row)}")
        return ["On a GPU:\n\n" + "\n".join(rows)] if rows else []

    def numbers(self) -> list[str]:
        if not self.found["numbers"]:
            return []
        runs: list[str] = []
        rows = [
            "| figure | before | measured, worst row | rows missing | run |",
            "|---|---|---|---|---|",
        ]
        for figure in self.found["numbers"]:
            marks = []
            for run in figure["runs"]:
                mine = run["host"].get("series_id")
                same = figure["same_series"] or mine == self.found["series_id"]
                line = f"`{run['command']}`: {_host({**run, 'same_series': same})}"
                if line not in runs:
                    runs.append(line)
                marks.append(str(runs.index(line)))
            worst = figure["worst"] or "not measured"
            rows.append(
                f"| {figure['name']} | {figure['before'] or ''} | {worst} | "
                f"{figure['missing_rows']} | {', '.join(marks)} |"
            )
        listed = "\n".join(f"- Run {number}: {line}" for number, line in enumerate(runs))
        return ["\n".join(rows), listed]

    def lint(self) -> list[str]:
        def named(outcome: str) -> str:
            return ", ".join(row["hook"] for row in self.found["lint"] if row["outcome"] == outcome)

        left = [row for row in self.found["lint"] if row["outcome"] == upstream_lint.LEFT_OUT]
        passed, bad = (
            named(word) or "none" for word in (upstream_lint.PASSED, upstream_lint.FOUND)
        )
        parts = [f"Linters of the tree's configuration: passed: {passed}; found something: {bad}."]
        if left:
            reasons: dict[str, list[str]] = {}
            for row in left:
                reasons.setdefault(row["note"], []).append(row["hook"])
            lines = [f"- {', '.join(hooks)}: {note}" for note, hooks in reasons.items()]
            parts.append("Did not run:\n\n" + "\n".join(lines))
        return parts

    def duplicates(self) -> list[str]:
        parts = [f"{TO_WRITE}. {self.policy.duplicates}"]
        if self.found["pulls"]:
            lines = [
                f"- {row['url']} ({row['title']}; {row['state']} on {row['seen']}): {row['note']}"
                for row in self.found["pulls"]
            ]
            parts.append("Known work on the same ground:\n\n" + "\n".join(lines))
        return parts

    def size(self) -> list[str]:
        size = self.found["size"]
        kind = f"{size['lines']} lines added and removed, {size['counted']} of them counted"
        over = f"; more than {size['limit']}: {size['note']}" if size["over"] else ""
        return [f"Size: {kind} by {self.policy.name}'s rule{over}."]

    def ai(self) -> list[str]:
        tool = (
            f" Commits name it: `{self.policy.ai_trailer}: {self.found['tool']}`."
            if self.found["tool"]
            else ""
        )
        return [self.policy.statement + tool] if self.policy.disclose else []

    def remaining(self) -> list[str]:
        if not self.found["remaining"]:
            return []
        lines = "\n".join(f"- `{line}`" for line in self.found["remaining"])
        return [f"Not ported yet: these imports have no counterpart here.\n\n{lines}"]


def _paragraphs(body: str) -> list[str]:
    """Return the paragraphs of a message, less its trailers."""
    parts = body.strip().split("\n\n")
    return parts[:-1] if patchfile.trailers(body.strip()) else parts


def _host(row: Evidence) -> str:
    """Say where and of which series something was measured."""
    host = row["host"]
    facts = (f"{key} {host[key]}" for key in ("driver", "torch", "triton") if key in host)
    stale = "" if row["same_series"] else ", **an older series than this branch's**"
    series = f"series `{host.get('series_id', 'unknown')[:12]}`{stale}"
    return f"{host.get('gpu', 'unknown GPU')}, {', '.join(facts)}, {series}, {host.get('date')}."
