"""A topic's branch for upstream: only its patches, clean, signed, and proven to apply."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proofs
import pytest
import world as worlds
from proofs import ANSWER, CHANGE, SPDX
from test_kill import killed_at
from world import World

from tools import branch, evidence, outbox
from tools.errors import ConflictError, ToolError
from tools.testrun import Runner

Said = Callable[[], str]
AUTHOR = "Signed-off-by: A Dev <dev@example.org>"
SIGNER = "Signed-off-by: Ann Submitter <ann@example.org>"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, empty_template: World) -> World:
    """Three topics: core, one that needs a patch of it, and one that needs none."""
    made = worlds.copy(empty_template, tmp_path_factory.mktemp("topics") / "project")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GDNWINDOW_CACHE", raising=False)
        proofs.make(made)
        proofs.put(made, "vllm/b.py", "value = 3\n")
        proofs.commit(made, "[Extra] Three", "Topic: extra", depends=CHANGE)
        proofs.put(made, "vllm/old.py", "gone = False\n")
        proofs.commit(made, "[Lone] Stay", "Topic: lone")
        assert made.run("refresh") == 0
    return made


@pytest.fixture
def topics(template: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = worlds.copy(template, tmp_path / "project")
    proofs.somebody(monkeypatch, tmp_path)
    proofs.policies(made)
    return made


def extract(world: World, topic: str, *flags: str) -> int:
    quick = () if "--env" in flags else ("--no-tests",)
    return world.run("extract", "--topic", topic, *quick, *flags)


def evidence_of(world: World, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((world.root / "out" / name / "evidence.json").read_text())
    return found


def cover(world: World, name: str) -> str:
    return (world.root / "out" / name / "COVER.md").read_text()


def cloned(world: World, name: str, topic: str) -> World:
    """Clone the bundle, as whoever gets it would."""
    target = world.root.parent / f"clone-{name}"
    bundle = world.root / "out" / name / f"{topic}.bundle"
    world.git("clone", "-q", "-b", topic, str(bundle), str(target), folder=world.root)
    return World(target, world.upstream)


def log(world: World, clone: World, span: str) -> list[str]:
    text = world.git("log", "--reverse", "--format=%an|%cn|%B%x00", span, folder=clone.root)
    return [item.strip() for item in text.split("\0") if item.strip()]


def rewrite(world: World, name: str, old: str, new: str) -> None:
    path = world.patch(name)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("topic", "subjects"),
    [
        ("core", ["[Core] Add the answer", "[Core] Change b"]),
        ("extra", ["[Core] Change b", "[Extra] Three"]),
        ("lone", ["[Lone] Stay"]),
    ],
)
def test_mails_apply_to_the_pristine_tree(
    topics: World, said: Said, topic: str, subjects: list[str]
) -> None:
    if topic == "extra":
        path = topics.root / "policy" / "vllm.toml"
        path.write_text(path.read_text() + '[topics.extra]\ntitle = "[Extra] Three"\n')
    assert extract(topics, topic) == 0
    assert "nothing was pushed" in said()
    clone = cloned(topics, topic, topic)
    tip = topics.git("rev-parse", f"origin/{topic}^{{tree}}", folder=clone.root)
    topics.git("checkout", "-q", "--detach", "series-base", folder=clone.root)
    base = topics.git("rev-parse", "HEAD^{tree}", folder=clone.root)
    assert base == topics.project.pin.base_tree
    mails = sorted((topics.root / "out" / topic / "mails").iterdir())
    topics.git("am", "-q", "--keep-non-patch", *map(str, mails), folder=clone.root)
    assert topics.git("rev-parse", "HEAD^{tree}", folder=clone.root) == tip
    assert topics.git("log", "--reverse", "--format=%s", "series-base..", folder=clone.root) == (
        "\n".join(subjects)
    )
    assert evidence_of(topics, topic)["tree"] == tip


def test_messages_are_clean_and_signed(topics: World) -> None:
    assert extract(topics, "core") == 0
    first, second = log(topics, cloned(topics, "core", "core"), "series-base..origin/core")
    assert first == (
        "A Dev|Ann Submitter|[Core] Add the answer\n\nBecause it is wrong without it.\n\n"
        f"{AUTHOR}\n{SIGNER}"
    )
    assert second.endswith(f"\n\n{AUTHOR}\n{SIGNER}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pad them. Remove when upstream\nstops padding.", "Pad them."),
        ("Remove when vLLM 0.34 has it. Or not.", " Or not."),
        ("Remove the lock when it is free.", "Remove the lock when it is free."),
        ("a\nb", "a\nb"),
        ("word " * 20 + "end", f"{'word ' * 15}word\n{'word ' * 4}end"),
        ("    " + "word " * 20 + "end", "    " + "word " * 20 + "end"),
    ],
)
def test_prose_is_upstream_s(text: str, expected: str) -> None:
    assert branch.for_upstream(text) == expected


def test_author_who_submits_signs_once(
    topics: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proofs.somebody(monkeypatch, tmp_path, "A Dev")
    home = tmp_path / "home" / ".gitconfig"
    home.write_text(home.read_text().replace("ann@", "dev@"))
    assert extract(topics, "lone") == 0
    (only,) = log(topics, cloned(topics, "lone", "lone"), "series-base..origin/lone")
    assert only.count("Signed-off-by") == 1


def test_other_topics_stay_behind(topics: World) -> None:
    assert extract(topics, "core") == 0
    clone = cloned(topics, "core", "core")
    assert (clone.root / "vllm" / "b.py").read_text() == "value = 2\n"
    assert (clone.root / "vllm" / "old.py").read_text() == "gone = True\n"
    names = [row["name"] for row in evidence_of(topics, "core")["patches"]]
    assert names == [ANSWER, CHANGE]


def test_prerequisite_goes_along_and_says_why(topics: World) -> None:
    path = topics.root / "policy" / "vllm.toml"
    path.write_text(path.read_text() + '[topics.extra]\ntitle = "[Extra] Three"\n')
    assert extract(topics, "extra") == 0
    rows = {row["name"]: row["needed_by"] for row in evidence_of(topics, "extra")["patches"]}
    assert rows == {CHANGE: "extra/three.patch", "extra/three.patch": ""}
    assert f"`{CHANGE}` goes along: `extra/three.patch` needs it." in cover(topics, "extra")


@pytest.mark.parametrize("word", ["core/change-b", CHANGE, "change-b"])
def test_one_patch_of_a_topic(topics: World, word: str) -> None:
    assert extract(topics, "core") == 0
    whole = evidence_of(topics, "core")
    assert extract(topics, word) == 0
    found = evidence_of(topics, "core-change-b")
    assert [row["name"] for row in found["patches"]] == [CHANGE]
    assert found["tests"]["paths"] == ["tests/test_b.py"]
    assert cover(topics, "core-change-b").startswith("# [Core] Change b\n")
    clone = cloned(topics, "core-change-b", "core-change-b")
    (only,) = log(topics, clone, "series-base..origin/core-change-b")
    assert only.startswith("A Dev|Ann Submitter|[Core] Change b\n")
    assert not (clone.root / "vllm" / "answer.py").exists()
    assert (clone.root / "vllm" / "b.py").read_text() == "value = 2\n"
    assert evidence_of(topics, "core") == whole  # the topic's folder stands beside it


def test_one_patch_takes_what_it_needs_along(topics: World) -> None:
    assert extract(topics, "three") == 0
    rows = {row["name"]: row["needed_by"] for row in evidence_of(topics, "extra-three")["patches"]}
    assert rows == {CHANGE: "extra/three.patch", "extra/three.patch": ""}
    assert cover(topics, "extra-three").startswith("# [Extra] Three\n")


def test_one_patch_needs_what_its_topic_hides(topics: World, said: Said) -> None:
    """The topic has both; whoever takes the one is told of the other."""
    proofs.put(topics, "vllm/b.py", "value = 4\n")
    proofs.commit(topics, "[Extra] Four", "Topic: extra")
    assert topics.run("refresh") == 0
    assert topics.run("verify", "--no-import", "--no-quilt") == 0
    said()
    assert extract(topics, "extra/four") == 1
    assert "extra/four.patch does not apply without extra/three.patch; declare it" in said()
    assert not (topics.root / "out" / "extra-four").exists()
    rewrite(topics, "extra/four.patch", "Depends: none", "Depends: extra/three.patch")
    assert topics.run("apply", "--relock") == 0
    assert extract(topics, "extra/four") == 0
    names = [row["name"] for row in evidence_of(topics, "extra-four")["patches"]]
    assert names == [CHANGE, "extra/three.patch", "extra/four.patch"]


def test_policy_says_of_one_patch_what_it_does_not(topics: World, said: Said) -> None:
    path = topics.root / "policy" / "vllm.toml"
    text = path.read_text()
    table = '[topics."core/change-b"]\ntitle = "[Bugfix] B is two"\nsummary = "It was one."\n'
    path.write_text(text + table)
    assert extract(topics, "change-b") == 0
    assert cover(topics, "core-change-b").startswith("# [Bugfix] B is two\n\n## Overview\n\nIt was")
    assert cover_title(topics, "core") == "# [Core] The answer and b"
    path.write_text(text + table.replace("[Bugfix] ", ""))
    assert extract(topics, "change-b") == 1
    assert 'give another under [topics."core/change-b"] of policy/vllm.toml' in said()


def test_one_patch_for_another_upstream(topics: World) -> None:
    assert extract(topics, "add-the-answer", "--upstream", "fla") == 0
    clone = cloned(topics, "core-add-the-answer-fla", "core-add-the-answer")
    files = topics.git("ls-files", folder=clone.root).split()
    assert files == ["fla/ops/answer.py", "tests/ops/test_answer.py"]


def test_undeclared_prerequisite_is_named(topics: World, said: Said) -> None:
    rewrite(topics, "extra/three.patch", f"Depends: {CHANGE}", "Depends: none")
    assert extract(topics, "extra") == 1
    message = said()
    wanted = (
        f"extract: extra/three.patch does not apply without {CHANGE}; declare it with "
        f"'Depends: {CHANGE}' in extra/three.patch, or rework the patch."
    )
    assert wanted in message
    assert len(message.splitlines()) == 1
    assert not (topics.root / "out" / "extra").exists()
    # CI says so before anybody extracts.
    assert topics.run("lock") == 2
    assert topics.run("apply", "--relock") == 0
    said()
    assert topics.run("verify", "--no-import", "--no-quilt") == 1
    assert f"topic extra: extra/three.patch does not apply without {CHANGE}" in said()


@pytest.mark.parametrize("missing", ["name", "email", "both"])
def test_nobody_to_sign(
    topics: World, said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    proofs.somebody(monkeypatch, tmp_path, "" if missing == "both" else "Ann")
    config = tmp_path / "home" / ".gitconfig"
    lines = [line for line in config.read_text().splitlines() if f"{missing} =" not in line]
    config.write_text("\n".join([*lines, ""]))
    assert extract(topics, "core") == 1
    message = said()
    assert "git does not know who signs the commits off; run `git config" in message
    assert len(message.splitlines()) == 1
    assert not list((topics.root / "out").glob("*"))


def test_edited_cover_is_never_lost(topics: World, said: Said) -> None:
    assert extract(topics, "lone") == 0
    assert extract(topics, "lone") == 0  # as it was written: made again
    path = topics.root / "out" / "lone" / "COVER.md"
    path.write_text(path.read_text() + "By hand.\n")
    said()
    assert extract(topics, "lone") == 3
    assert "out/lone/COVER.md is not as the last extract wrote it; move out/lone" in said()
    assert path.read_text().endswith("By hand.\n")
    (topics.root / "out" / "lone").rename(topics.root / "kept")
    assert extract(topics, "lone") == 0
    (topics.root / "out" / "lone" / "notes.txt").write_text("mine")
    assert extract(topics, "lone") == 3


def test_folder_of_somebody_else(topics: World) -> None:
    (topics.root / "out" / "lone").mkdir(parents=True)
    (topics.root / "out" / "lone" / "mine").write_text("")
    assert extract(topics, "lone") == 3
    assert [path.name for path in (topics.root / "out" / "lone").iterdir()] == ["mine"]


def test_kill_leaves_the_old_folder_the_new_one_or_none(topics: World, tmp_path: Path) -> None:
    target = tmp_path / "out" / "lone"

    def draft(word: str) -> Path:
        folder = tmp_path / f"draft-{word}"
        folder.mkdir(exist_ok=True)
        (folder / "COVER.md").write_text(word)
        outbox.finish(folder, {})
        return folder

    step = 0
    new = draft("new")

    def placed() -> int:
        outbox.place(new, target)
        return 0

    while True:
        outbox.place(draft("old"), target)
        died = killed_at(step, placed)
        outbox.stop_if_edited(topics.project, target)  # whole, whichever it is
        if not died:
            break
        step += 1
    assert step > 4
    assert (target / "COVER.md").read_text() == "new"


def test_target_with_another_layout(topics: World) -> None:
    rewrite(topics, ANSWER, "+value = 42", "+value = 42  # vllm.answer")
    assert topics.run("apply", "--relock") == 0
    assert extract(topics, "core", "--upstream", "fla") == 0
    clone = cloned(topics, "core-fla", "core")
    files = topics.git("ls-files", folder=clone.root).split()
    assert files == ["fla/ops/answer.py", "tests/ops/test_answer.py"]
    # Moved, and not a byte of it rewritten.
    assert "value = 42  # vllm.answer\n" in (clone.root / "fla" / "ops" / "answer.py").read_text()
    (only,) = log(topics, clone, "origin/core")
    assert only == ("A Dev|Ann Submitter|[Core] Add the answer\n\nBecause it is wrong without it.")
    found = evidence_of(topics, "core-fla")
    assert found["remaining"] == ["tests/ops/test_answer.py:2: vllm.answer (value)"]
    assert [row["name"] for row in found["patches"] if row["left_out"]] == [CHANGE]
    text = cover(topics, "core-fla")
    assert "- `tests/ops/test_answer.py:2: vllm.answer (value)`" in text
    assert "AI assistance" not in text
    assert "port: tests/ops/test_answer.py:2: vllm.answer (value)" in found["open"]
    assert found["size"]["over"]
    assert any(line.startswith("size: 8 lines of 4: tick the box") for line in found["open"])


def test_forbidden_trailers_go(topics: World) -> None:
    rewrite(topics, ANSWER, AUTHOR, f"Co-authored-by: A Tool <t@example.org>\n{AUTHOR}")
    assert topics.run("apply", "--relock") == 0
    assert extract(topics, "core", "--upstream", "fla") == 0
    (only,) = log(topics, cloned(topics, "core-fla", "core"), "origin/core")
    assert "Co-authored-by" not in only
    assert extract(topics, "core") == 0
    first, _ = log(topics, cloned(topics, "core", "core"), "series-base..origin/core")
    assert "Co-authored-by: A Tool <t@example.org>\n" in first


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ('from = "vllm/ans"\nto = "fla/ops/ans"', "vllm/b.py is in the pristine tree"),
        ('from = "vllm/ans"', "gives no file of the topic a place"),
    ],
)
def test_layout_that_does_not_fit(topics: World, said: Said, old: str, words: str) -> None:
    path = topics.root / "policy" / "fla.toml"
    text = path.read_text().replace('from = "tests/test_ans"', 'from = "nowhere"')
    new = 'from = "vllm/"\nto = "fla/"' if "b.py" in words else 'from = "elsewhere"'
    path.write_text(text.replace(old, new))
    assert extract(topics, "core", "--upstream", "fla") == 1
    assert words in said()
    assert not (topics.root / "out" / "core-fla").exists()


def test_tool_is_named_where_the_policy_has_a_trailer(topics: World, said: Said) -> None:
    assert extract(topics, "lone", "--assisted-by", "Some Tool") == 0
    (only,) = log(topics, cloned(topics, "lone", "lone"), "series-base..origin/lone")
    assert f"{AUTHOR}\nAssisted-by: Some Tool\n{SIGNER}" in only
    assert "Commits name it: `Assisted-by: Some Tool`." in cover(topics, "lone")
    assert extract(topics, "core", "--upstream", "fla", "--assisted-by", "Some Tool") == 2
    assert "wants no tool named" in said()
    assert extract(topics, "core") == 0
    assert any("name the AI tool" in line for line in evidence_of(topics, "core")["open"])


def test_titles_follow_the_policy(topics: World, said: Said) -> None:
    assert extract(topics, "lone") == 0
    assert cover(topics, "lone").startswith("# [Lone] Stay\n")  # one patch: its subject
    assert cover_title(topics, "core") == "# [Core] The answer and b"
    path = topics.root / "policy" / "vllm.toml"
    text = path.read_text()
    path.write_text(text.replace("[Core] The answer", "The answer"))
    assert extract(topics, "core") == 1
    assert "the title 'The answer and b' is not one that vllm takes" in said()
    path.write_text(text.replace('title = "[Core] The answer and b"', ""))
    assert extract(topics, "core") == 1
    assert "core is several patches and policy/vllm.toml has no title for it" in said()


def cover_title(world: World, topic: str) -> str:
    assert extract(world, topic) == 0
    return cover(world, topic).partition("\n")[0]


CONFIG = """\
repos:
- repo: local
  hooks:
  - id: words
    name: words
    entry: sh -c '! grep -n --color=always hurried "$@"' --
    language: system
    types: [python]
  - id: slow
    name: slow
    entry: "false"
    language: system
  - id: other
    name: other
    entry: "false"
    language: system
    files: ^csrc/
  - id: signs
    name: signs
    entry: "false"
    language: system
    stages: [commit-msg]
- repo: https://example.org/linter
  rev: v1.0
  hooks:
  - id: remote
"""


def linted(world: World, word: str) -> None:
    (world.checkout / ".pre-commit-config.yaml").write_text(CONFIG)
    proofs.put(world, "vllm/lint.py", f"{SPDX}# {word}\n")
    proofs.commit(world, "[Lint] Rules", "Topic: lint")
    assert world.run("refresh") == 0


def test_linters_of_the_tree_run_and_what_did_not_is_said(topics: World) -> None:
    linted(topics, "careful")
    assert extract(topics, "lint") == 0
    lint = {row["hook"]: row for row in evidence_of(topics, "lint")["lint"]}
    assert {hook: row["outcome"] for hook, row in lint.items()} == {
        "words": "passed",
        "slow": "did not run",
        "other": "did not run",
        "signs": "did not run",
        "remote": "did not run",
    }
    text = cover(topics, "lint")
    assert "passed: words; found something: none." in text
    assert "- slow: it takes an hour" in text
    assert "- remote: it needs https://example.org/linter" in text
    assert "- other: the branch changes none of its files" in text


def test_linter_that_finds_something(topics: World, said: Said) -> None:
    linted(topics, "hurried")
    assert extract(topics, "lint") == 1
    assert "lint: words found something" in said()
    rows = {row["hook"]: row for row in evidence_of(topics, "lint")["lint"]}
    assert "2:# hurried" in rows["words"]["note"]
    assert "found something: words." in cover(topics, "lint")


def test_tests_run_over_the_branch_and_are_remembered(topics: World, said: Said) -> None:
    env = ("--env", sys.prefix)
    assert extract(topics, "core", *env) == 0
    assert "tests: passed, 2 passed, 0 failed, 0 skipped" in said()
    assert "over the branch: **passed**, 2 passed, 0 failed" in cover(topics, "core")
    assert evidence_of(topics, "core")["tests"]["environment"] == sys.prefix
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "run", lambda *_: pytest.fail("it ran again"))
        assert extract(topics, "core", *env) == 0
    assert "pytest tests/test_answer.py \\\n    tests/test_b.py" in cover(topics, "core")


def test_branch_whose_tests_fail_is_written_and_says_so(topics: World, said: Said) -> None:
    # Its own test needs a patch that it does not declare.
    proofs.put(
        topics,
        "tests/test_late.py",
        f"{SPDX}from vllm.answer import value\n\n\ndef test_it():\n    assert value\n",
    )
    proofs.commit(topics, "[Late] Late", "Topic: late", tests="tests/test_late.py")
    assert topics.run("refresh") == 0
    assert extract(topics, "late", "--env", sys.prefix) == 1
    assert "extract: tests: failed: ModuleNotFoundError: No module named 'vllm.answer'" in said()
    assert "over the branch: **failed**" in cover(topics, "late")
    assert evidence_of(topics, "late")["findings"]


def test_test_of_upstreams_own_that_fails_there_is_left_out(topics: World, said: Said) -> None:
    proofs.put(topics, "vllm/a.py", "three = 3\n")
    proofs.put(topics, "tests/test_hub.py", SPDX + worlds.HUB_TESTS)
    proofs.commit(topics, "[Hub] Three", "Topic: hub", tests="tests/test_hub.py")
    assert topics.run("refresh") == 0
    assert extract(topics, "hub", "--env", sys.prefix) == 0
    name = "tests/test_hub.py::TestHub::test_fetch[a.b]"
    assert f"extract: tests: left out: {name}, which fails on the pristine tree" in said()
    assert f"- `{name}`: OSError: no network" in cover(topics, "hub")
    assert list(evidence_of(topics, "hub")["tests"]["run"]["left_out"]) == [name]


def test_tests_that_did_not_run_are_left_open(topics: World) -> None:
    assert extract(topics, "core") == 0
    assert "Tests did not run here: left out by TESTS=0." in cover(topics, "core")
    assert "tests: they did not run: left out by TESTS=0" in evidence_of(topics, "core")["open"]


HOST = {"gpu": "A GPU", "date": "2026-10-01", "torch": "2.0", "series_id": "SERIES"}


@pytest.mark.parametrize("stale", [False, True])
def test_numbers_come_with_host_and_series(topics: World, stale: bool) -> None:  # noqa: FBT001
    lock = (topics.root / "series.lock").read_text()
    series_id = "f" * 64 if stale else lock.split('series_id = "')[1][:64]
    host = {**HOST, "series_id": series_id}
    results = topics.root / "bench" / "results"
    results.mkdir(parents=True)
    (results / "r.json").write_text(json.dumps({"host": host, "command": "run it", "passed": 7}))
    figure = {
        "name": "speed", "worst": "2 x", "before": "1 x", "missing_rows": 3,
        "runs": [{"host": host, "command": "measure it"}],
    }  # fmt: skip
    (topics.root / "bench" / "quote.py").write_text(
        f"import sys\nprint({json.dumps([figure])!r})\n"
    )
    path = topics.root / "policy" / "vllm.toml"
    path.write_text(path.read_text() + 'results = ["r.json"]\nnumbers = ["speed"]\n')
    assert extract(topics, "core") == 0
    text = cover(topics, "core")
    assert "| speed | 1 x | 2 x | 3 | 0 |" in text
    assert "- `run it`: passed 7. A GPU, torch 2.0, series `" in text
    assert f"- Run 0: `measure it`: A GPU, torch 2.0, series `{series_id[:12]}`" in text
    assert text.count("an older series than this branch's") == (2 if stale else 0)
    points = [line for line in evidence_of(topics, "core")["open"] if "older series" in line]
    assert len(points) == (2 if stale else 0)


def test_result_that_is_not_there(topics: World, said: Said) -> None:
    path = topics.root / "policy" / "vllm.toml"
    path.write_text(path.read_text() + 'results = ["gone.json"]\n')
    assert extract(topics, "core") == 1
    assert "bench/results/gone.json cannot be read as a result" in said()


def test_known_work_of_upstream_is_listed(topics: World) -> None:
    (topics.root / "vendor" / "watch.toml").write_text(
        '[[pull]]\nnumber = 7\ntitle = "The same"\nurl = "https://example.org/7"\nstate = "open"\n'
        'seen = 2026-09-26\nreplaces = ["core"]\nnote = "By other means."\nsigns = []\n'
        '[[pull]]\nnumber = 8\ntitle = "Else"\nurl = "https://example.org/8"\nstate = "open"\n'
        'seen = 2026-09-26\nbreaks = ["lone/stay.patch"]\nsigns = []\n'
    )
    assert extract(topics, "core") == 0
    text = cover(topics, "core")
    assert "- https://example.org/7 (The same; open on 2026-09-26): By other means." in text
    assert "example.org/8" not in text
    # Of one patch: what is about it or about its whole topic.
    assert evidence._about("core", "core/change-b")  # noqa: SLF001
    assert evidence._about(CHANGE, "core/change-b")  # noqa: SLF001
    assert not evidence._about(ANSWER, "core/change-b")  # noqa: SLF001
    assert not evidence._about("core", "core-more/change-b")  # noqa: SLF001


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ("nothing",),
            "no topic (there are: core, extra, lone) and no patch of the series; name one as",
        ),
        (("core", "--upstream", "sglang"), "there are policies for: fla, vllm."),
        (("",), "TOPIC= names a topic (core, extra, lone) or a patch of one."),
    ],
)
def test_names_that_are_none(topics: World, said: Said, argv: tuple[str, ...], words: str) -> None:
    assert extract(topics, *argv) == 2
    assert words in said()


def test_checkout_and_its_work_are_not_touched(topics: World) -> None:
    topics.edit("vllm/a.py", "line_3 = 3\n", "line_3 = 4\n")
    head, state = topics.head(), topics.snapshot()
    assert extract(topics, "core") == 0
    assert (topics.head(), topics.snapshot()) == (head, state)
    assert "line_3 = 4\n" in (topics.checkout / "vllm" / "a.py").read_text()
    assert topics.git("status", "--short") == "M vllm/a.py"
    assert not list(topics.cache.glob(".extract-*"))


def test_make_hands_the_settings_on() -> None:
    def commands(target: str, *argv: str) -> str:
        stamps = ["-o", ".venv/.stamp", "-o", ".venv/.stamp-dev"]
        done = subprocess.run(
            ["make", "-n", "--no-print-directory", *stamps, target, *argv],
            cwd=proofs.ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return " ".join(done.stdout.replace("\\\n", " ").split())

    said = commands("extract", "TOPIC=t", "UPSTREAM=fla", "ASSISTED_BY=A Tool", "TESTS=0", "LINT=0")
    flags = '--topic "t" --upstream "fla" --assisted-by "A Tool" --no-tests --no-lint'
    assert said.endswith(f"tools extract {flags}")
    assert commands("extract", "TOPIC=t").endswith('tools extract --topic "t"')
    assert commands("prove", "PATCH=p").endswith('tools prove --patch "p"')


def test_two_at_a_time(topics: World, said: Said) -> None:
    from tools import files  # noqa: PLC0415

    with files.only_one(topics.root / "out" / ".core.lock") as alone:
        assert alone
        assert extract(topics, "core") == 3
    assert "another extract writes out/core; wait for it" in said()


def test_edited_evidence_counts_as_edited(topics: World, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "evidence.json").write_text("[]")
    with pytest.raises(ConflictError, match=r"evidence\.json is not as"):
        outbox.stop_if_edited(topics.project, folder)


def test_edited_number_of_the_evidence_counts_as_edited(topics: World, tmp_path: Path) -> None:
    draft = tmp_path / "out"
    draft.mkdir()
    (draft / "COVER.md").write_text("All pass.\n")
    outbox.finish(draft, {"tests": {"passed": 7}})
    outbox.stop_if_edited(topics.project, draft)
    path = draft / "evidence.json"
    path.write_text(path.read_text().replace('"passed": 7', '"passed": 8'))
    with pytest.raises(ConflictError, match=r"evidence\.json is not as"):
        outbox.stop_if_edited(topics.project, draft)


def test_filter_repo_that_is_not_installed(
    topics: World, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subprocess.run

    def missing(argv: list[str], **rest: Any) -> Any:
        if "git_filter_repo" in argv:
            argv = [sys.executable, "-m", "no_such_module_of_ours"]
        return run(argv, **rest)

    monkeypatch.setattr(subprocess, "run", missing)
    assert extract(topics, "core") == 1
    assert "git-filter-repo is not installed; run `make extract`" in said()


def test_figures_that_cannot_be_read(topics: World) -> None:
    assert not os.path.exists(topics.root / "bench")  # noqa: PTH110
    with pytest.raises(ToolError, match="the figures of policy/ cannot be read"):
        evidence._numbers(topics.project, ("speed",), "")  # noqa: SLF001
