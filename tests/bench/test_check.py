"""make bench-check: which rows fall short, which were not measured, and the exit codes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import check
import figures
import plan
import pytest
import results


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return results.write(tmp_path)


def lines(folder: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = check.main(["--results", str(folder), *argv])
    return code, capsys.readouterr().out.splitlines()


def test_all_reached_is_zero(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = len(check.targets())
    assert lines(folder, capsys) == (0, [f"{total} of {total} targets reached"])


def test_each_short_row_is_named_with_both_figures(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {"state": "float32", "HV": 32, "batch": 64, "T": 5}
    change = {"us__verify_convolved": 93.25, "us__step": 130.0}
    assert results.change(folder, "kernels", where, **change) == 1
    code, found = lines(folder, capsys)
    assert code == 1
    assert found[0] == (
        "short: verify, fp32 state, HV 32, B 64, T 5 [float32, HV 32, B 64, T 5]: 93.25 us, must "
        "be at most 55 us"
    )
    # A step is verify and commit, and all of it is on the critical path.
    assert found[1:3] == [
        (
            "short: verify + commit against native, fp32, B >= 32, T 5 [float32, HV 32, B 64, T "
            "5]: 1.72 x, must be at least 1.8 x"
        ),
        (
            "short: the same at T 5, commit overlapped or folded, critical path [float32, HV 32, B "
            "64, T 5]: 1.72 x, must be at least 2.8 x"
        ),
    ]
    assert found[3:] == ["15 of 18 targets reached"]


@pytest.mark.parametrize(
    ("where", "change", "names"),
    [
        (
            {"state": "bfloat16", "HV": 32, "batch": 64, "T": 5},
            {"us__verify_convolved": 41.0},
            ["verify, bf16"],
        ),
        (
            {"state": "bfloat16", "HV": 16, "batch": 32, "T": 8},
            {"us__commit": 9.0},
            ["commit over"],
        ),
        (
            {"HV": 48, "batch": 8, "T": 2},
            {"us__step": 1e3},
            ["verify + commit against native, B 1"] * 2,
        ),
        (
            {"state": "float32", "HV": 16, "batch": 256, "T": 2},
            {"us__snapshot_cuda": 1.0},
            ["verify + commit"],
        ),
        (
            {"state": "float32", "HV": 16, "batch": 32, "T": 5},
            {"us__step": 25.0},
            ["the same at T 5"],
        ),
        (
            {"state": "float32", "HV": 16, "batch": 32, "T": 5},
            {"bytes__window": 10**6},
            ["block and window"],
        ),
    ],
)
def test_every_kind_of_kernel_target_bites(
    folder: Path, capsys: pytest.CaptureFixture[str], where: dict[str, object],
    change: dict[str, float], names: list[str],
) -> None:  # fmt: skip
    assert results.change(folder, "kernels", where, **change) == len(names)
    code, found = lines(folder, capsys)
    assert code == 1
    assert [
        line.split("short: ")[1][: len(name)] for line, name in zip(found, names, strict=False)
    ] == names
    assert len(found) == len(names) + 1


@pytest.mark.parametrize("name", ["window", "commit"])
def test_inexact_arithmetic_falls_short(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Whether the prefix was committed after another step or ahead of it."""
    where = {"state": "float32", "HV": 32, "batch": 64, "T": 5}
    path = folder / "h200-kernels.json"
    data = json.loads(path.read_text())
    row = next(r for r in data["rows"] if all(r[k] == v for k, v in where.items()))
    row["check"]["state_error"][name] = 1e-4
    row["check"]["output_error"][name] = 2e-3
    path.write_text(json.dumps(data))
    code, found = lines(folder, capsys)
    assert code == 1
    assert "1.0e-04, must be at most 1.0e-06" in found[0]
    assert "2 x, must be at most 1.1 x" in found[1]
    assert len(found) == 3
    row["check"]["state_error"][name] = float("nan")
    path.write_text(json.dumps(data))
    code, found = lines(folder, capsys)
    assert code == 1
    assert "nan, must be at most 1.0e-06" in found[0]


def test_the_engine_is_held_to_its_medians(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One repeat of three that is slow changes nothing; two of three do."""
    load = {"geometry": "qwen3.6-27b-8-of-64-layers", "drafts": 4, "level": "high", "batch": 64}
    where = load | {"mode": "window"}
    results.change(folder, "engine", where | {"repeat": 0}, tokens_per_s=1.0)
    assert lines(folder, capsys)[0] == 0
    results.change(folder, "engine", where | {"repeat": 1}, tokens_per_s=(90.0 * 64 + 1) * 0.9)
    code, found = lines(folder, capsys)
    assert code == 1
    assert found[:-1] == [
        (
            "short: engine, window against snapshot, any batch [qwen3.6-27b-8-of-64-layers, T 5, "
            "acceptance high, B 64]: 0.9 x, must be at least 1 x"
        )
    ]


def test_repeats_are_compared_that_took_turns_in_one_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = {"geometry": "qwen3.6-27b-8-of-64-layers", "drafts": 4, "level": "high", "batch": 64}
    for mode in ("window", "snapshot"):  # resumed after the first repeat
        results.change(folder, "engine", load | {"mode": mode, "repeat": 2}, run=1)
    assert lines(folder, capsys)[0] == 0
    # One that the other mode did not have then counts neither way, even if it were the median.
    results.change(folder, "engine", load | {"mode": "snapshot", "repeat": 2}, run=0)
    for repeat, rate in ((1, 1e6), (2, 1.0)):
        where = load | {"mode": "window", "repeat": repeat}
        results.change(folder, "engine", where, tokens_per_s=rate)
    data = json.loads((folder / "h200-engine.json").read_text())
    rows = [r for r in data["rows"] if load.items() <= r.items() and r["mode"] == "window"]
    others = [r for r in rows if r["repeat"] < 2]
    (found,) = [r for r in figures.compared(data["rows"]) if load.items() <= r.items()]
    assert found["modes"]["window"]["repeats"] == found["modes"]["snapshot"]["repeats"] == 2
    assert found["modes"]["window"]["tokens_per_s"] == sum(r["tokens_per_s"] for r in others) / 2


def test_an_engine_alone_takes_no_turns(folder: Path) -> None:
    rows = json.loads((folder / "h200-engine.json").read_text())["rows"]
    where = {"geometry": "qwen3.6-27b", "drafts": 4, "level": "middle", "batch": 8}
    kept = [r for r in rows if not (where.items() <= r.items() and r["mode"] == "snapshot")]
    one = next(r for r in rows if where.items() <= r.items() and r["mode"] == "snapshot")
    place = where | {"geometry": "qwen3.6-27b, alone"}
    (found,) = [x for x in figures.compared([*kept, one]) if place.items() <= x.items()]
    repeats = [r for r in kept if where.items() <= r.items() and r["mode"] == "window"]
    assert found["modes"]["window"]["repeats"] == len(repeats) > 1
    assert found["modes"]["snapshot"]["repeats"] == 1


def test_all_loads_count_once_and_only_whole_batches() -> None:
    def load(batch: int, ratio: float, repeats: int, running: int = 0) -> list[figures.Row]:
        return [
            {"geometry": "g", "drafts": 1, "level": "low", "batch": batch, "repeat": n, "run": 0,
             "mode": mode, "tokens_per_s": rate, "with_prefill_tokens_per_s": rate,
             "running": running or batch}
            for n in range(repeats)
            for mode, rate in (("snapshot", 10.0), ("window", 10.0 * ratio))
        ]  # fmt: skip

    rows = [*load(1, 0.5, 9), *load(8, 2.0, 1), *load(64, 9.0, 3, running=20)]
    ((of, (mean, error, count)),) = figures.over_all_loads(figures.compared(rows)).items()
    assert of == ("g", 1)
    assert (round(mean, 9), count) == (1.0, 2)
    # Two standard errors of ln 0.5 and ln 2, whose deviation is sqrt(2) ln 2.
    assert round(error, 9) == 4.0
    assert figures.over_all_loads(figures.compared(load(1, 0.5, 9))) == {}


def test_engines_of_different_runs_are_not_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = {"geometry": "qwen3.6-27b-8-of-64-layers", "drafts": 4, "level": "high", "batch": 64}
    for repeat in range(3):
        results.change(folder, "engine", load | {"mode": "window", "repeat": repeat}, run=1)
    code, found = lines(folder, capsys)
    assert code == 1
    assert found[0].startswith("not measured: engine, window against snapshot, any batch: 1 of")


def test_not_measured_is_named_and_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "h200-kernels.json"
    data = json.loads(path.read_text())
    data["rows"] = [r for r in data["rows"] if (r["HV"], r["batch"]) != (16, 256)]
    for row in data["rows"]:
        del row["us"]["step"]
    path.write_text(json.dumps(data))
    code, found = lines(folder, capsys)
    assert code == 1
    assert found[0] == (
        "not measured: commit over all layers, over one read and one write: 6 of 72 rows, must be "
        "at most 1.15 x (the first: float32, HV 16, B 256, T 2)"
    )
    assert any("critical path: 12 of 12 rows" in line for line in found)
    assert sum("verify + commit against native" in line for line in found) == 4
    _, every = lines(folder, capsys, "--all")
    assert every[0].count("HV 16, B 256") == 6


def test_native_needs_both_of_upstreams_paths(folder: Path) -> None:
    """A row without one of them is not measured, rather than compared with the other."""
    row = json.loads((folder / "h200-kernels.json").read_text())["rows"][0]
    assert figures.speedup(row) is not None
    for name in ("snapshot_cuda", "snapshot_triton"):
        less = {**row, "us": {k: v for k, v in row["us"].items() if k != name}}
        assert figures.speedup(less) is None
        assert figures.native_us(less) is None
    assert figures.native_us(row) == min(row["us"]["snapshot_cuda"], row["us"]["snapshot_triton"])


def test_no_file_at_all_is_one_and_a_broken_one_is_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = lines(tmp_path, capsys)
    assert code == 1
    assert all(line.startswith("not measured: ") for line in found[:-1])
    (tmp_path / "h200-kernels.json").write_text("{")
    assert check.main(["--results", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "h200-kernels.json cannot be read as measurements" in said
    assert "delete it" in said
    assert "Traceback" not in said


def test_targets_name_figures_and_rows_that_the_benchmarks_measure() -> None:
    import layer

    data = tomllib.loads((Path(check.HERE) / "targets.toml").read_text())
    measured = {**layer.FULL, "state": layer.STATES}
    for target in data["target"]:
        assert target["figure"] in figures.FIGURES
        assert target["source"] in check.SOURCES
        better = target["better"]
        assert better in {"lower", "higher"}
        if "aim" in target:
            assert (target["aim"] < target["must"]) == (better == "lower")
        if target["source"] == "kernels":
            for name, values in target["rows"].items():
                assert set(values) <= set(measured[name])
        else:
            assert set(target["rows"]["batch"]) <= set(plan.BATCHES)
            for geometry in target["rows"]["geometry"]:
                name, alone = geometry.removesuffix(", alone"), geometry.endswith(", alone")
                for t in target["rows"]["T"]:
                    assert alone or (name, t - 1) in plan.GROUPS
                    levels = plan.Leg(name, "window", t - 1, alone).levels
                    assert set(target["rows"]["level"]) <= set(levels)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (93.25, "93.2 x"), (1.8, "1.8 x"), (1e-7, "1.0e-07 x"), (1234.5, "1234 x"), (0, "0 x"),
        (float("inf"), "inf x"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert check.number(value, "x") == text
