"""Several tensor-parallel ranks: what is started, where it is kept, what tables say of it."""

from __future__ import annotations

import json
from pathlib import Path

import engines
import modes
import plan
import pytest
import ranks
import results
import store
import test_engines


class Started:
    """Stands in for crew.Worker."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.command = command


@pytest.mark.parametrize(("number", "executor"), [(1, "mp"), (2, "mp"), (4, "ray")])
def test_an_engine_is_told_its_ranks(
    number: int, executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "Worker", Started)
    session = test_engines.session(tmp_path, ranks=number, executor=executor)
    command = session.start(plan.Leg("qwen3.6-27b", "window", 4)).command  # type: ignore[attr-defined]
    said = ["--ranks", str(number), "--executor", executor]
    assert ("--ranks" in command) == (number > 1)
    assert number == 1 or any(command[i : i + 4] == said for i in range(len(command)))
    asked = modes.on_ranks(number, executor)
    expected = {"tensor_parallel_size": number, "distributed_executor_backend": executor}
    assert asked == (expected if number > 1 else {})


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "h200-engine.json"),
        (["--quick"], "h200-engine-quick.json"),
        (["--ranks", "2"], "h200-tp2-engine.json"),
        (["--ranks", "2", "--executor", "ray"], "h200-tp2-ray-engine.json"),
    ],
)
def test_ranks_have_files_of_their_own(words: list[str], name: str) -> None:
    assert engines.file_name("NVIDIA H200", engines.parser().parse_args(words)) == name


def test_only_the_levels_asked_for_are_measured(tmp_path: Path) -> None:
    legs = [plan.Leg("qwen3.6-27b", "window", 4), plan.Leg("qwen3.6-27b", "none", 0)]
    items = test_engines.session(tmp_path, levels=["low"]).items(legs)
    assert {item.level for item in items} == {"low", "none"}
    assert len(test_engines.session(tmp_path).items(legs)) > len(items)


def test_ranks_share_the_weights() -> None:
    legs = plan.groups([("qwen3.6-27b", 4)], ["snapshot", "window"])
    assert plan.parties(legs, 130, 30, 2) == legs
    with pytest.raises(ValueError, match="GiB together"):
        plan.parties(legs, 130, 30, 1)


def test_each_executor_has_its_table(tmp_path: Path) -> None:
    for number, executor, end in ((2, "mp", "tp2"), (2, "ray", "tp2-ray"), (1, "mp", "")):
        file = results.engine()
        file["settings"] |= {"ranks": number, "executor": executor}
        name = f"h200-{end}{'-' * bool(end)}engine.json"
        (tmp_path / name).write_text(json.dumps(file))
    found = ranks.files(tmp_path, "h200")
    assert [ranks.name(file) for file in found] == ["2 GPUs, mp", "2 GPUs, ray"]
    for lines in (ranks.section(found), ranks.summary(found)):
        text = "\n".join(lines)
        assert "2 GPUs, mp" in text
        assert "2 GPUs, ray" in text
        assert text.count("| qwen3.5-0.8b | 4 | middle |") == 2 * len(plan.BATCHES)
    assert "No measurement" in "\n".join(ranks.section([]))
    assert ranks.summary([]) == []


def test_rows_of_ranks_can_be_merged(tmp_path: Path) -> None:
    """Their files end as the others do, for bench/merge.py."""
    import merge

    name = engines.file_name("NVIDIA H200", engines.parser().parse_args(["--ranks", "2"]))
    path = tmp_path / name
    path.write_text(json.dumps(results.engine()))
    assert merge.merge(tmp_path / f"all-{name}", [path]) is None
    assert store.read(tmp_path / f"all-{name}")["rows"]
