from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from world import World

from tools import apply, stats, surface
from tools.project import Project
from tools.surface import Surface

Said = Callable[[], str]
ROOT = Path(__file__).parents[2]
MODEST = "[ceiling]\nupstream_lines = 100\n"


def limit(world: World, text: str = MODEST) -> None:
    (world.root / "vendor" / "surface.toml").write_text(text)


def test_series_of_this_project_keeps_to_its_ceiling() -> None:
    project = Project(ROOT)
    limits = stats.ceiling(project)
    assert set(limits) >= {"upstream_lines", "upstream_hunks"}
    whole = surface.total(surface.of(apply.read_patches(project)).values())
    assert whole.upstream_lines > 0
    assert stats.over(whole, limits) == []


def test_each_patch_is_measured(series: World, said: Said) -> None:
    limit(series)
    said()
    assert series.run("stats", "--json") == 0
    found = json.loads(said())
    assert found["patches"] == {
        "core/change-three.patch": {
            "new_files": 0, "new_lines": 0, "upstream_files": 1, "upstream_hunks": 1,
            "upstream_lines": 2, "import_lines": 0,
        },
        "core/change-five.patch": {
            "new_files": 0, "new_lines": 0, "upstream_files": 1, "upstream_hunks": 1,
            "upstream_lines": 2, "import_lines": 0,
        },
        "extra/replace-the-old.patch": {
            "new_files": 1, "new_lines": 2, "upstream_files": 1, "upstream_hunks": 1,
            "upstream_lines": 1, "import_lines": 0,
        },
    }  # fmt: skip
    assert found["total"]["upstream_lines"] == 5
    assert found["ceiling"] == {"upstream_lines": 100}


def test_text_has_a_row_for_each_patch(series: World, said: Said) -> None:
    limit(series, "[ceiling]\nupstream_hunks = 3\n")
    said()
    assert series.run("stats") == 0
    rows = [line.split() for line in said().splitlines()]
    assert rows[0] == ["patch", *surface.NAMES]
    assert rows[3] == ["extra/replace-the-old.patch", "1", "2", "1", "1", "1", "0"]
    assert rows[4] == ["all", "1", "2", "3", "3", "5", "0"]
    assert rows[5] == ["ceiling", "-", "-", "-", "3", "-", "-"]


def test_past_the_ceiling_is_a_finding(series: World, said: Said) -> None:
    limit(series, "[ceiling]\nupstream_lines = 4\nupstream_files = 3\n")
    assert series.run("stats") == 1
    message = said()
    assert "stats: upstream_lines is 5, 4 at most: make a call site smaller" in message
    assert "upstream_files is" not in message
    limit(series, "[ceiling]\nupstream_lines = 5\n")
    assert series.run("stats") == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "vendor/surface.toml is missing"),
        ("[ceiling]\n", "an empty [ceiling] limits nothing"),
        ("[ceiling]\nupstream_linse = 4\n", "upstream_linse limits nothing"),
        ('[ceiling]\nupstream_lines = "4"\n', "upstream_lines limits nothing"),
        ("[ceiling]\nupstream_lines = true\n", "upstream_lines limits nothing"),
        ("ceiling\n", "holds no table [ceiling]"),
        ("", "holds no table [ceiling]"),
    ],
)
def test_ceiling_that_limits_nothing_is_refused(
    series: World, said: Said, text: str | None, words: str
) -> None:
    if text is not None:
        limit(series, text)
    assert series.run("stats") == 1
    assert words in said()


def test_what_an_earlier_patch_made_is_not_upstreams(empty: World) -> None:
    (empty.checkout / "vllm" / "new.py").write_text("import vllm\na = 1\nb = 2\n")
    empty.commit("Add", "Topic: core")
    empty.edit("vllm/new.py", "a = 1\n", "a = 3\nc = 4\n")
    empty.edit("vllm/__init__.py", "Apache-2.0\n", "Apache-2.0\nimport vllm.new\n")
    empty.edit("vllm/a.py", "line_1 = 1\nline_2 = 2\nline_3 = 3\n", "one = 1\nline_2 = 2\n")
    empty.commit("Change")
    assert empty.run("refresh") == 0
    found = surface.of(apply.read_patches(empty.project))
    assert found["core/add.patch"] == Surface(new_files=1, new_lines=3)
    assert found["core/change.patch"] == Surface(
        new_lines=1,
        upstream_files=2,
        upstream_hunks=3,  # one hunk of the diff holds two places
        upstream_lines=4,
        import_lines=1,
    )


def test_sums_over_time(series: World, said: Said) -> None:
    said()
    assert series.run("stats", "--log") == 1
    assert "is no git repository" in said()
    where = series.root
    series.git("init", "-q", ".", folder=where)
    series.git("add", "series", "series.lock", "patches", folder=where)
    series.git("commit", "-q", "-m", "All", folder=where)
    full = series.git("rev-parse", "HEAD", folder=where)
    (where / "note.txt").write_text("no change of the series\n")
    series.git("add", "note.txt", folder=where)
    series.git("commit", "-q", "-m", "Note", folder=where)
    series.git("reset", "-q", "--hard", "HEAD~1")  # the checkout: a patch fewer
    assert series.run("refresh") == 0
    series.git("add", "-A", "series", "series.lock", "patches", folder=where)
    series.git("commit", "-q", "-m", "Fewer", folder=where)
    said()
    assert series.run("stats", "--log") == 0
    rows = [line.split() for line in said().splitlines()]
    assert rows[0] == ["date", "commit", "patches", *surface.NAMES]
    assert rows[1][1:] == [full[:10], "3", "1", "2", "3", "3", "5", "0"]
    assert rows[2][2:] == ["2", "0", "0", "2", "2", "4", "0"]
    assert len(rows) == 3
