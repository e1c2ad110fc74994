"""The committed documents show the committed JSON; tables and plots show what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import check
import pages
import plots
import pytest
import results
import table

BENCH = Path(table.__file__).parent


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A README with the markers and complete measurements."""
    (tmp_path / "docs").mkdir()
    measured = tmp_path / "results"
    measured.mkdir()
    results.write(measured)
    (tmp_path / "README.md").write_text(f"Before.\n\n{table.START}\nold\n{table.END}\n\nAfter.\n")
    monkeypatch.setattr(table, "ROOT", tmp_path)
    monkeypatch.setattr(table, "PAGE", tmp_path / "docs" / "benchmarks.md")
    monkeypatch.setattr(table, "PLOTS", tmp_path / "docs" / "plots")
    return tmp_path


def run(project: Path, *argv: str) -> int:
    return table.main(["--results", str(project / "results"), *argv])


def test_the_committed_documents_show_the_committed_measurements() -> None:
    assert table.main(["--check"]) == 0


def test_a_figure_changed_by_hand_or_measured_anew_is_stale(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(project) == 0
    assert run(project, "--check") == 0
    for name in ("README.md", "docs/benchmarks.md"):
        path = project / name
        text = path.read_text()
        path.write_text(text.replace("| 1.50 |", "| 1.51 |", 1))
        assert path.read_text() != text
        capsys.readouterr()
        assert run(project, "--check") == 1
        assert f"{name} does not show bench/results" in capsys.readouterr().out
        path.write_text(text)
    where = {"geometry": "qwen3.5-0.8b", "mode": "window", "drafts": 4, "batch": 32}
    results.change(project / "results", "engine", where, tokens_per_s=4444.0)
    assert run(project, "--check") == 1
    capsys.readouterr()
    where = {"mode": "window"}
    results.change(project / "results", "latency", where, p99_itl_ms=77.0)
    assert run(project) == 0
    assert run(project, "--check") == 0
    assert "| 77.0 |" in (project / "docs" / "benchmarks.md").read_text()


def test_only_the_part_between_the_markers_changes(project: Path) -> None:
    run(project)
    text = (project / "README.md").read_text()
    assert text.startswith(f"Before.\n\n{table.START}\n")
    assert text.endswith(f"{table.END}\n\nAfter.\n")
    assert "old" not in text.split()


def test_what_the_readme_says(project: Path) -> None:
    run(project)
    lines = (project / "README.md").read_text().splitlines()
    # Targets with their worst row: 4.4e6 bytes a microsecond, 134 MB of states, 1 us more.
    assert (
        "| verify, fp32 state, HV 32, B 64, T 5 | 235 us | <= 55 us | <= 40 us | 31.5 us |" in lines
    )
    # 3.0 tokens a step; the medians of three repeats; 256 requests of which 170 ran together.
    row = (
        "| qwen3.6-27b-8-of-64-layers | 4 | middle | 3.00 | 256 | 25601 (7.2 ms) | 23041 (7.2 ms, "
        "170 ran together) | 34561 (7.2 ms) | 1.50 | 1.35 | 0 |"
    )
    assert row in lines
    assert not any("| 7 |" in line for line in lines)  # the rest is on the page
    assert sum(len(line) > 0 for line in lines) < 60


def test_what_the_page_says(project: Path) -> None:
    run(project)
    text = (project / "docs" / "benchmarks.md").read_text()
    kernels = [x for x in text.splitlines() if x.startswith("| float32 | 32 | 5 | 64 |")]
    assert kernels == [
        (
            "| float32 | 32 | 5 | 64 | 223.6 | 228.6 | 62.0 | 31.5 | 34.6 | 222.6 | 31.5 | 62.5 "
            "| 30.5 / 61.0 | 3.61 | 1.02 | 6e-08 / 7e-08 | 1.04 |"
        )
    ]
    states = [x.split(" | ")[0] for x in text.splitlines() if x.startswith(("| float32", "| bfl"))]
    assert states == ["| float32"] * 54 + ["| bfloat16"] * 54
    assert (
        "| qwen3.5-0.8b | snapshot | 4 | 15 GiB | 20.2 GiB | 143 | 170, of 256 asked for |" in text
    )
    assert "| qwen3.5-0.8b | window | 4 | 15 GiB | 20.2 GiB | 143 | 256 |" in text
    assert "| qwen3.5-0.8b | window | 4 | 32 | 6.0 | 9.5 | 2.0 | 40.0 | 100.0 | 3 |" in text
    assert "device copy 4400 GB/s" in text
    assert "**short**" not in text


def test_a_short_target_is_marked(project: Path) -> None:
    where = {"state": "float32", "HV": 32, "batch": 64, "T": 5}
    results.change(project / "results", "kernels", where, us__step=93.0, us__verify_convolved=93.0)
    run(project)
    text = (project / "README.md").read_text()
    assert "| 93 us **short** |" in text
    # The worst row stands for all: the lowest ratio here, the highest there.
    assert "critical path | 1 x | >= 2.8 x | >= 4 x | 2.4 x **short** |" in text
    assert text.count("**short**") == 2
    where = {"state": "bfloat16", "HV": 16, "batch": 64, "T": 8}
    results.change(project / "results", "kernels", where, us__commit=30.0)
    run(project)
    text = (project / "README.md").read_text()
    assert "| <= 1.15 x | <= 1.05 x | 1.97 x **short** |" in text


def test_a_row_of_before_there_was_a_step_says_so(project: Path) -> None:
    path = project / "results" / "h200-kernels.json"
    data = json.loads(path.read_text())
    row = next(r for r in data["rows"] if (r["HV"], r["batch"], r["T"]) == (32, 64, 5))
    del row["us"]["step"], row["check"]["state_error"]["commit"], row["bytes"]
    path.write_text(json.dumps(data | {"rows": [row]}))
    run(project)
    text = (project / "docs" / "benchmarks.md").read_text()
    assert (
        "| float32 | 32 | 5 | 64 | 223.6 | 228.6 | not measured | 31.5 | 34.6 | 222.6 | 31.5 | "
        "62.5 | 30.5 / 61.0 | not measured | 1.02 | 6e-08 / 7e-08 | not measured |"
    ) in text
    assert "T 5 | 1 x | >= 1.8 x | >= 2.2 x | not measured |" in text


def test_engines_alone_stand_apart(project: Path) -> None:
    path = project / "results" / "h200-engine.json"
    data = json.loads(path.read_text())
    name, rate = "qwen3.6-27b-8-of-64-layers", 9000.0
    for part in ("engines", "rows"):
        data[part] += [
            row
            | {"alone": True, "advertised": 66.0, "kv_cache_gib": 60, "tokens_per_s": rate}
            | {"running": min(row.get("batch", 0), 100)}
            for row in data[part]
            if (row["geometry"], row["drafts"], row["mode"]) == (name, 4, "window")
        ]
    path.write_text(json.dumps(data))
    shared = check.judged(project / "results", "h200")
    run(project)
    text = (project / "docs" / "benchmarks.md").read_text()
    assert (
        f"| {name}, alone | window | 4 | 60 GiB | 20.2 GiB | 66 | 100, of 128 asked for | 160 s |"
        in text
    )
    assert f"| {name} | window | 4 | 16 GiB | 20.2 GiB | 143 | 256 | 160 s |" in text
    assert f"| {name}, alone | 4 | middle | 3.00 | 32 |  |  | 9000 (7.2 ms) |  |  | 3 |" in text
    # What the targets are about stays what it was.
    assert (
        f"| {name} | 4 | middle | 3.00 | 32 | 3201 (7.2 ms) | 2881 (7.2 ms) | 4321 (7.2 ms) |"
        in text
    )
    assert all(not verdict.short and not verdict.missing for verdict in shared)


def test_rows_that_are_missing_are_said(project: Path) -> None:
    path = project / "results" / "h200-engine.json"
    data = json.loads(path.read_text())
    data["rows"] = [r for r in data["rows"] if r["batch"] != 256 or r["geometry"] == "tiny"]
    path.write_text(json.dumps(data))
    run(project)
    text = (project / "README.md").read_text()
    assert "T 5, batch 128 and 256 | 1 x | >= 1.4 x |  | 1.5 x, 1 row missing |" in text


def test_a_broken_file_is_one_sentence(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "results" / "h200-latency.json").write_text("nonsense")
    assert run(project, "--check") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


# ---- plots -----------------------------------------------------------------------------------


def test_plots_are_small_repeatable_and_tied_to_their_rows(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    argv = ["--results", str(project / "results"), "--out", str(project / "docs" / "plots")]
    assert plots.main(argv) == 0
    drawn = {path.name: path.read_bytes() for path in (project / "docs" / "plots").iterdir()}
    assert set(drawn) == set(pages.PLOTS)
    assert all(2_000 < len(data) < 100_000 for data in drawn.values())
    assert b"HV 48" in drawn["kernels-batch.svg"]
    assert b"qwen3.6-27b-8-of-64-layers" in drawn["engine-throughput.svg"]
    run(project)
    assert run(project, "--check") == 0
    assert "](plots/kernels-roofline.svg)" in (project / "docs" / "benchmarks.md").read_text()
    assert plots.main(argv) == 0
    assert {p.name: p.read_bytes() for p in (project / "docs" / "plots").iterdir()} == drawn
    results.change(project / "results", "kernels", {"T": 8, "batch": 1}, us__verify=7.0)
    run(project)
    capsys.readouterr()
    assert run(project, "--check") == 1
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 4
    assert all("kernels-" in line for line in said)


def test_plots_of_one_row_or_none_are_drawn(project: Path) -> None:
    """A first row, an engine that did not start: nothing to compare is no failure."""
    pytest.importorskip("matplotlib")
    for name, keep in (("kernels", 1), ("engine", 1)):
        path = project / "results" / f"h200-{name}.json"
        data = json.loads(path.read_text())
        path.write_text(json.dumps(data | {"rows": data["rows"][:keep]}))
    argv = ["--results", str(project / "results"), "--out", str(project / "docs" / "plots")]
    assert plots.main(argv) == 0
    assert run(project) == 0


# ---- a host without a GPU --------------------------------------------------------------------


@pytest.mark.parametrize("script", ["layer", "engines", "latency"])
def test_a_host_that_cannot_measure_gets_one_sentence(script: str, tmp_path: Path) -> None:
    for argv in ([], ["--quick"]):
        done = subprocess.run(
            [sys.executable, str(BENCH / f"{script}.py"), "--out", str(tmp_path), *argv],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("The benchmarks need torch, which this Python does not have")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", ["layer", "engines", "latency", "check", "table", "plots"])
def test_help_and_usage(script: str) -> None:
    command = [sys.executable, str(BENCH / f"{script}.py")]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert len(done.stdout) > 200
    assert (
        subprocess.run([*command, "--nonsense"], capture_output=True, check=False).returncode == 2
    )


def test_make_check_says_what_the_script_says() -> None:
    done = subprocess.run(
        ["make", "-s", "-n", "bench-check"],
        cwd=BENCH.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "bench/check.py" in done.stdout
    code = check.main([])
    assert code in {0, 1}
