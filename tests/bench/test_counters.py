"""Nsight Compute's table becomes a row for each kernel."""

from __future__ import annotations

import counters

STALL = "smsp__average_warps_issue_stalled"
HEAD = ",".join(
    f'"{name}"'
    for name in (
        "ID", "Kernel Name", "gpu__time_duration.sum",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed", "launch__registers_per_thread",
        f"{STALL}_barrier_per_issue_active.ratio",
        f"{STALL}_long_scoreboard_per_issue_active.ratio",
    )
)  # fmt: skip
TEXT = f"""==PROF== Connected to process 12
{HEAD}
"","","ns","%","register/thread","inst","inst"
"0","gdn_recoverssm_verify_kernel(float*, int)","103,552","41.5","168","0.25","12.5"
"1","elementwise_kernel","2048","","","",""
"""


def test_a_row_for_each_launch() -> None:
    first, second = counters.parse(TEXT)
    assert first == {
        "kernel": "gdn_recoverssm_verify_kernel", "us": 103.552, "compute_pct": 41.5,
        "registers": 168.0, "stalls": {"long_scoreboard": 12.5, "barrier": 0.25},
    }  # fmt: skip
    assert second == {"kernel": "elementwise_kernel", "us": 2.048, "stalls": {}}


def test_no_table_is_no_row() -> None:
    assert counters.parse("==ERROR== no kernels were profiled") == []


def test_shapes_that_were_not_measured_are_named() -> None:
    rows = [
        dict(zip(("HV", "batch", "T", "state"), shape, strict=True))
        for shape in counters.SHAPES[1:]
    ]
    assert counters.missing(rows) == [list(counters.SHAPES[0])]
